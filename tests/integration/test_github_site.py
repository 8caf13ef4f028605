"""From a release on GitHub to `pip install`: the site has links alone, and every Python finds something to install."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.wheelfile.reports import UPLOAD_SUFFIX
from tests.support.commands import Modelwheel
from tests.support.github import GitHub, serve_github
from tests.support.index_wheels import add_measurements, make_sdist, make_wheel
from tests.support.site_server import serve

SPEC = 'model: {{name: {name}, version: "1.0.0"}}\nsource: {{directory: model}}\n'


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    with serve_github(GitHub(tags={"digits-1.0.0", "jet-1.0.0"})) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def modelwheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modelwheel:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model_specs").mkdir()
    for name in ("digits", "jet", "later"):
        (tmp_path / "model_specs" / f"{name}.yaml").write_text(SPEC.format(name=name))
    return Modelwheel(tmp_path / "cache")


def install(site: str, project: str, target: Path) -> str:
    """What pip says when it installs from a site alone; the package says where it comes from."""
    options = [
        "--isolated",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--target",
        str(target),
    ]
    argv = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--index-url",
        f"{site}simple/",
        project,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    script = f"import sys; sys.path[:] = [{str(target)!r}]; import {project.replace('-', '_')} as m; print(m.NAME)"
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_from_releases_to_installed_models(
    github: GitHub, modelwheel: Modelwheel, tmp_path: Path
) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    digits = make_wheel(dist, "digits")
    add_measurements(digits)
    other = make_wheel(
        dist, "jet", tag="cp39-cp39-win_amd64"
    )  # no wheel for the Python that runs this
    sdists = [make_sdist(dist, "digits"), make_sdist(dist, "jet")]
    modelwheel("publish", "--mode", "github", digits, sdists[0])
    modelwheel("publish", "--mode", "github", other, sdists[1])

    found = modelwheel("download", "model_specs", "--out", "found", "--json").json
    assert sorted(found["downloaded"]) == [
        "found/digits-1.0.0.site.json.xz",
        "found/jet-1.0.0.site.json.xz",
    ]
    stored = len(github.storage)
    assert stored == 2
    done = modelwheel("index", "found", "--out", "site")
    assert "2 models, 2 wheels, 2 source distributions linked where they are" in done.out
    copied = sorted(path.name for path in (tmp_path / "site").glob("*.whl*"))
    assert copied == [f"{digits.name}.bench.json", f"{digits.name}.report.json"]
    page = (tmp_path / "site" / "models" / "model-digits.html").read_text()
    assert f"{github.web}/org/models/releases/download/digits-1.0.0/{digits.name}" in page
    assert "2.5e-06 of 1e-05" in page
    assert "https://github.com/org/models" in page
    models = json.loads((tmp_path / "site" / "models.json").read_bytes())["models"]
    assert [model["released"] for model in models] == ["2026-11-25T20:00:00Z"] * 2
    simple = json.loads((tmp_path / "site/simple/model-jet/index.v1+json").read_bytes())
    assert [file["filename"] for file in simple["files"]] == [other.name, sdists[1].name]
    assert "core-metadata" not in simple["files"][0], "nothing is served at that address"

    with serve(tmp_path / "site") as server:
        assert install(server.url, "model-digits", tmp_path / "a") == "digits"
        assert install(server.url, "model-jet", tmp_path / "b") == "built here"


def test_before_the_first_release(github: GitHub, modelwheel: Modelwheel) -> None:
    done = modelwheel("download", "model_specs", "--out", "found")
    assert done.err.endswith("no release yet: nothing to download\n")
    done = modelwheel("index", "found", "--out", "site")
    assert done.out == "wrote site: no models yet\n"
    assert github.storage == []


def test_releases_without_entries_are_downloaded_whole(
    github: GitHub, modelwheel: Modelwheel, tmp_path: Path
) -> None:
    (tmp_path / "dist").mkdir()
    wheel = make_wheel(tmp_path / "dist", "digits")
    github.private = True
    modelwheel("publish", "--mode", "github", wheel)
    modelwheel("download", "model_specs", "--whole", "--out", "found")
    assert (tmp_path / "found" / wheel.name).read_bytes() == wheel.read_bytes()
    entries = github.releases[0]["assets"].pop()
    assert entries["name"] == "digits-1.0.0.site.json.xz"
    modelwheel("download", "model_specs", "--out", "again")
    left = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert left == [wheel.name, wheel.name + UPLOAD_SUFFIX]
    (tmp_path / "again" / wheel.name).write_bytes(b"other")
    refused = modelwheel("download", "model_specs", "--out", "again", code=14)
    assert "differs from the file of this name in org/models" in refused.err
