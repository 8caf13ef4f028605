"""No command prints a password or a token, wherever it was given and however the command fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Modelwheel
from tests.support.index_wheels import make_wheel

CANARY = "c4nary-5ecret"
CLOSED = f"http://user:{CANARY}@127.0.0.1:9/simple/"
"""An address with a password, where nothing answers."""

ENVIRONMENT: dict[str, Any] = {
    "TWINE_USERNAME": "__token__",
    "TWINE_PASSWORD": CANARY,
    "GITHUB_TOKEN": CANARY,
    "HTTPS_PROXY": f"http://user:{CANARY}@127.0.0.1:9",
}
SPEC = 'model: {name: jet, version: "1.0.0"}\nsource: {%s}\n'
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("publish", "--repository-url", CLOSED, "{wheel}"), 14),
        (("publish", "--repository-url", "http://127.0.0.1:9/", "{wheel}"), 14),
        (("download", "--index-url", CLOSED, "--out", "{out}", "{good}"), 14),
        (("config", "--index-url", CLOSED), 0),
        (("config", "--json", "--site-url", CLOSED), 0),
        (("index", "--base-url", CLOSED, "--out", "{out}", "{wheel}"), 2),
        (("check", "{in_url}"), 3),
        (("check", "--json", "{in_query}"), 3),
        (("plan", "--json", "{in_url}"), 3),
        (("build", "{in_archive}"), 3),
        (("compile", "{closed_git}"), 4),
        (("inspect", "--json", "{wheel}"), 0),
    ],
)
def test_secrets_stay_secret(
    modelwheel: Modelwheel, tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    sources = {
        "good": "directory: model",
        "in_url": f'git: "https://user:{CANARY}@127.0.0.1:9/x.git", commit: {COMMIT}, path: m',
        "in_query": f'git: "https://127.0.0.1:9/x.git?token={CANARY}", commit: {COMMIT}, path: m',
        "in_archive": f'archive: "https://{CANARY}@127.0.0.1:9/x.tar.gz", sha256: {"ab" * 32}',
        "closed_git": f'git: "https://127.0.0.1:9/x.git", commit: {COMMIT}, path: m',
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.yaml").write_text(SPEC % source)
    places = {name: str(tmp_path / f"{name}.yaml") for name in sources}
    places |= {"wheel": str(make_wheel(tmp_path, "a")), "out": str(tmp_path / "out")}
    filled = [argument.format(**places) for argument in arguments]
    done = modelwheel("--verbose", *filled, code=code, **ENVIRONMENT)
    assert CANARY not in done.out
    assert CANARY not in done.err
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not [path for path in written if CANARY.encode() in path.read_bytes()]
