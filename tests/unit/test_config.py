"""`modelwheel.toml`: where it is looked for, what it may hold, and what options override."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from modelwheel.config import (
    FILE_NAME,
    Config,
    choose_mode,
    find_address,
    find_config,
    find_repository,
    load_config,
    require_address,
)
from modelwheel.errors import UsageError
from modelwheel.platforms import PYTHONS
from tests.support.commands import COMMAND, run

URL = "https://example.org/simple/"


def write(directory: Path, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE_NAME
    path.write_text(text, encoding="utf-8")
    return path


def test_every_field(tmp_path: Path) -> None:
    write(tmp_path, f'[index]\nurl = "{URL}"\nupload = "{URL}up"\nsite = "http://localhost:80/"\n')
    index = load_config(tmp_path).index
    assert (index.url, index.upload, index.site) == (URL, f"{URL}up", "http://localhost:80/")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", "github"),
        (f"[index]\nurl = '{URL}'", "github"),
        (f"[index]\nupload = '{URL}'", "token"),
        (f"[index]\nupload = '{URL}'\n[release]\nrepository = 'a/b'", "token"),
        (f"[index]\nupload = '{URL}'\n[release]\nmode = 'github'", "github"),
        ("[release]\nmode = 'pypi'", "pypi"),
    ],
)
def test_where_releases_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, mode: str
) -> None:
    """An address for uploads without a mode is meant, and not ignored."""
    write(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    assert choose_mode(None) == load_config().release.mode == mode
    assert load_config(tmp_path.parent).release.mode == "github", "defaults stay as they are"
    assert choose_mode(None, URL) == "token"
    assert choose_mode("pypi", URL) == "pypi"


def test_the_repository_on_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    assert find_repository(None, {}) is None
    assert find_repository(None, {"GITHUB_REPOSITORY": "a/b"}) == "a/b"
    write(tmp_path, "[release]\nrepository = 'org/models'")
    assert find_repository(None, {"GITHUB_REPOSITORY": "a/b"}) == "org/models"
    assert find_repository("x/y.z", {}) == "x/y.z"
    for wrong in ("models", "a/b/c", "../b", "a/b?c"):
        with pytest.raises(UsageError, match="is not a repository on GitHub, such as org/models"):
            find_repository(wrong, {})
    write(tmp_path, "[release]\nrepository = 'models'\nmode = 'gitlab'")
    with pytest.raises(UsageError) as caught:
        load_config()
    said = str(caught.value)
    assert "release.repository: must be OWNER/REPOSITORY, such as org/models" in said
    assert "release.mode: must be 'github', 'pypi' or 'token', got 'gitlab'" in said


def test_without_a_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert load_config(tmp_path) == Config()


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    upper = write(tmp_path, "")
    inner = tmp_path / "specs" / "models"
    inner.mkdir(parents=True)
    assert find_config(inner) == upper
    assert find_config(tmp_path) == upper
    lower = write(tmp_path / "specs", "")
    assert find_config(inner) == lower


@pytest.mark.parametrize("worktree", [True, False])
def test_no_file_above_the_checkout_counts(tmp_path: Path, *, worktree: bool) -> None:
    write(tmp_path, "")
    checkout = tmp_path / "checkout"
    (checkout / "specs").mkdir(parents=True)
    if worktree:
        (checkout / ".git").write_text("gitdir: elsewhere\n")
    else:
        (checkout / ".git").mkdir()
    assert find_config(checkout / "specs") is None
    own = write(checkout, "")
    assert find_config(checkout / "specs") == own


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("[index]\nulr = 'x'", ["2: index.ulr: unknown field. Did you mean 'url'?"]),
        ("[index]\nx = 'x'", ["2: index.x: unknown field. Known here: url, upload, site"]),
        ("[idnex]\n", ["1: idnex: unknown field. Did you mean 'index'?"]),
        ("index = 3", ["1: index: must be a section: [index]"]),
        ("[index]\nurl = 3", ["2: index.url: must be text in quotation marks, got 3"]),
        (
            "[index]\nurl = 'ftp://example.org/'\nsite = 'example.org'",
            [
                "2: index.url: must be an https:// address, such as https://example.org/simple/",
                "3: index.site: must be an https:// address, such as https://example.org/simple/",
            ],
        ),
        (
            "[sandbox]\nmode = 'on'\nseconds = 0\nmemory_gb = 'much'",
            [
                "2: sandbox.mode: must be 'required', 'preferred' or 'off', got 'on'",
                "3: sandbox.seconds: must be greater than 0, got 0",
                "4: sandbox.memory_gb: must be a valid number, got 'much'",
            ],
        ),
        (
            "[cluster]\naddress = 'here'\ntls = 'x'\nresources = {licence = 0}",
            [
                "2: cluster.address: must be tcp://HOST:PORT, tls://HOST:PORT or local:N",
                "4: cluster.resources.licence: must be greater than 0, got 0",
                "3: cluster.tls: unknown field. Did you mean 'tls_key'?",
            ],
        ),
        ("[sandbox]\nmood = 'off'", ["2: sandbox.mood: unknown field. Did you mean 'mode'?"]),
        (
            "[index]\nupload = 'https://me:secret@example.org/'",
            ["2: index.upload: must not contain a user name or password"],
        ),
    ],
)
def test_mistakes_name_file_line_and_field(tmp_path: Path, text: str, problems: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_config(tmp_path)
    assert str(caught.value).splitlines() == [f"{path}:{problem}" for problem in problems]


def test_what_is_not_toml(tmp_path: Path) -> None:
    path = write(tmp_path, "[index\n")
    with pytest.raises(UsageError, match="is not valid TOML: Expected") as caught:
        load_config(tmp_path)
    assert str(caught.value).startswith(f"{path}:1:7: ")
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        load_config(tmp_path)


def test_options_override_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, f'[index]\nurl = "{URL}"\n')
    monkeypatch.chdir(tmp_path)
    assert find_address("url", None) == URL
    assert find_address("url", "") == URL  # what a workflow passes for a variable that is not set
    assert find_address("url", "https://other.example/") == "https://other.example/"
    assert find_address("site", None) is None
    assert require_address("url", None, "--index-url") == URL
    with pytest.raises(UsageError, match=r"--repository-url URL, or set `upload` in section"):
        require_address("upload", "", "--repository-url")


def test_the_command_shows_addresses_and_hands_them_to_workflows(tmp_path: Path) -> None:
    """An empty option, as workflows pass where a variable is not set, overrides nothing."""
    address = "https://index.example.org/simple/"
    (tmp_path / FILE_NAME).write_text(f'[index]\nurl = "{address}"\n')
    output = tmp_path / "output"
    override = "https://override.example.org/simple/"
    options = ("--index-url", "", "--site-url", override, "--github-output", str(output))
    done = subprocess.run(
        [*COMMAND, "config", "--json", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = {"mode": "github", "url": address, "upload": None, "site": override}
    assert json.loads(done.stdout) == shown
    assert output.read_text() == f"mode=github\nurl={address}\nupload=\nsite={override}\n"


def test_a_release_that_goes_nowhere_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before hours of building. Releases of GitHub need no address."""
    monkeypatch.chdir(tmp_path)
    here = run(*COMMAND, "config", "--require-upload")
    assert "github" in here.out
    (tmp_path / FILE_NAME).write_text('[release]\nmode = "token"\n')
    done = run(*COMMAND, "config", "--require-upload", "--repository-url", "", code=2)
    assert "set `upload` in section [index]" in done.err


def test_what_is_built(tmp_path: Path) -> None:
    write(tmp_path, '[build]\nplatforms = ["macos-arm64"]\npythons = ["cp313", "cp314t"]\n')
    rules = load_config(tmp_path).build
    assert (rules.platforms, rules.pythons) == (("macos-arm64",), ("cp313", "cp314t"))
    empty = load_config(write(tmp_path / "empty", "").parent).build
    assert (empty.platforms, empty.pythons) == (None, PYTHONS)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'platforms = ["linux-x86"]',
            r"build\.platforms\[0\]: unknown platform 'linux-x86'; did you mean",
        ),
        ('pythons = ["cp39"]', r"build\.pythons\[0\]: unknown Python 'cp39'; did you mean 'cp31"),
        ("pythons = []", r"build\.pythons: "),
        ('platform = ["macos-arm64"]', r"build\.platform: unknown field. Did you mean 'platforms'"),
        ('platforms = "macos-arm64"', r"build\.platforms: must be a list"),
    ],
)
def test_what_cannot_be_built(tmp_path: Path, line: str, said: str) -> None:
    write(tmp_path, f"[build]\n{line}\n")
    with pytest.raises(UsageError, match=said):
        load_config(tmp_path)
