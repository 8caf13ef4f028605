"""The static index and the catalogue: what is written, and that pip installs from it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    pass
else:
    pass

import jsonschema  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner

from modelwheel.cli import app
from modelwheel.errors import UsageError, WheelError
from modelwheel.index.released import download_files
from modelwheel.index.site import write_site
from modelwheel.wheelfile.reports import REPORT_SUFFIX, write_upload
from tests.support.commands import Modelwheel
from tests.support.html_pages import Page
from tests.support.index_wheels import (
    make_wheel,
    make_wheels,
)
from tests.support.site_server import serve

HASHES = {
    "type": "object",
    "properties": {"sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    "required": ["sha256"],
}
META = {
    "type": "object",
    "properties": {"api-version": {"type": "string", "pattern": r"^1\.\d+$"}},
    "required": ["api-version"],
}
FILE = {
    "type": "object",
    "properties": {
        "filename": {"type": "string"},
        "url": {"type": "string"},
        "hashes": HASHES,
        "size": {"type": "integer", "minimum": 1},
        "requires-python": {"type": "string"},
        "upload-time": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
        "core-metadata": HASHES,
        "dist-info-metadata": HASHES,
    },
    "required": ["filename", "url", "hashes", "size", "core-metadata"],
    "additionalProperties": False,
}
PROJECT = {
    "type": "object",
    "properties": {
        "meta": META,
        "name": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        "versions": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "files": {"type": "array", "items": FILE, "minItems": 1},
    },
    "required": ["meta", "name", "versions", "files"],
    "additionalProperties": False,
}
PROJECTS = {
    "type": "object",
    "properties": {
        "meta": META,
        "projects": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "additionalProperties": True},
        },
    },
    "required": ["meta", "projects"],
    "additionalProperties": False,
}
"""PEP 691 with the versions and sizes of PEP 700."""


QUIET = ["--isolated", "--no-cache-dir", "--disable-pip-version-check"]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return make_wheels(tmp_path / "wheels")


def read_tree(site: Path) -> dict[str, bytes]:
    return {str(p.relative_to(site)): p.read_bytes() for p in site.rglob("*") if p.is_file()}


def read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def test_names_are_normalised(tmp_path: Path) -> None:
    make_wheel(tmp_path, "odd", project="Model_Odd.Name")
    write_site([tmp_path], tmp_path / "site", "https://example.org/models")
    (link,) = Page(tmp_path / "site/simple/index.html").find("a")
    assert link == {"href": "model-odd-name/"}
    assert (tmp_path / "site/simple/model-odd-name/index.html").is_file()


def test_project_page_links_wheels_with_hashes(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site", "https://example.org/models")
    page = Page(tmp_path / "site/simple/model-jet-tagger/index.html")
    names = [f"model_jet_tagger-{version}-py3-none-any.whl" for version in ("0.9.0", "0.10.0")]
    links = page.find("a")
    assert len(links) == len(names)
    for name, link in zip(names, links, strict=True):
        sha256 = hashlib.sha256((wheels / name).read_bytes()).hexdigest()
        metadata = (tmp_path / "site" / f"{name}.metadata").read_bytes()
        assert link["href"] == f"https://example.org/models/{name}#sha256={sha256}"
        assert link["data-requires-python"] == "<99,>=3.10"
        assert link["data-core-metadata"] == f"sha256={hashlib.sha256(metadata).hexdigest()}"
        assert metadata.startswith(b"Metadata-Version: 2.4\n")
        assert not (tmp_path / "site" / name).exists()


def test_json_follows_its_specification_and_agrees_with_html(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site", "https://example.org/models/")
    simple = tmp_path / "site" / "simple"
    projects = read_json(simple / "index.v1+json")
    jsonschema.validate(projects, PROJECTS)
    assert [p["name"] for p in projects["projects"]] == ["model-digits", "model-jet-tagger"]
    project = read_json(simple / "model-jet-tagger" / "index.v1+json")
    jsonschema.validate(project, PROJECT)
    assert project["versions"] == ["0.9.0", "0.10.0"]
    links = Page(simple / "model-jet-tagger" / "index.html").find("a")
    for file, link in zip(project["files"], links, strict=True):
        assert link["href"] == f"{file['url']}#sha256={file['hashes']['sha256']}"
        assert link["data-core-metadata"] == f"sha256={file['core-metadata']['sha256']}"
        assert link["data-requires-python"] == file["requires-python"]
        assert file["size"] == (wheels / file["filename"]).stat().st_size


def test_the_time_of_a_release_outlives_a_new_site(wheels: Path, tmp_path: Path) -> None:
    """An index says it; `download` keeps it beside the wheel, and the next site says the same."""
    (wheel,) = wheels.glob("model_digits*.whl")
    write_upload(datetime(2026, 3, 1, 10, tzinfo=timezone(timedelta(hours=1))), wheel)
    site = write_site([wheels], tmp_path / "site").directory
    page = read_json(site / "simple" / "model-digits" / "index.v1+json")
    jsonschema.validate(page, PROJECT)
    assert page["files"][0]["upload-time"] == "2026-03-01T09:00:00Z"
    with serve(site, negotiate=True) as served:
        download_files({"model-digits"}, [f"{served.url}simple/"], tmp_path / "dist")
    again = write_site([tmp_path / "dist"], tmp_path / "again").directory
    assert read_json(again / "simple" / "model-digits" / "index.v1+json") == page


def test_without_address_wheels_are_copied_and_linked_relatively(
    wheels: Path, tmp_path: Path
) -> None:
    site = write_site([wheels], tmp_path / "site")
    assert (site.projects, site.wheels, site.copied) == (2, 3, True)
    for path in wheels.glob("*.whl"):
        assert (site.directory / path.name).read_bytes() == path.read_bytes()
    project = site.directory / "simple" / "model-digits"
    (link,) = Page(project / "index.html").find("a")
    target = str(link["href"]).partition("#")[0]
    assert (project / target).resolve() == site.directory / "model_digits-1.0.0-py3-none-any.whl"


def test_what_models_need_is_in_the_index_and_not_in_the_catalogue(
    wheels: Path, tmp_path: Path
) -> None:
    alone = write_site([wheels], tmp_path / "alone")
    needed = make_wheel(wheels, "digits", project="modelwheel_runtime")
    site = write_site([wheels], tmp_path / "site")
    assert (site.projects, site.wheels) == (alone.projects, alone.wheels + 1)
    page = site.directory / "simple" / "modelwheel-runtime" / "index.html"
    assert needed.name in page.read_text()
    assert (site.directory / needed.name).read_bytes() == needed.read_bytes()
    catalogues = {(found.directory / "index.html").read_bytes() for found in (alone, site)}
    assert len(catalogues) == 1


def test_same_wheels_give_the_same_bytes(wheels: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "wheels"
    other.mkdir(parents=True)
    for path in sorted(wheels.iterdir(), reverse=True):
        (other / path.name).write_bytes(path.read_bytes())
        os.utime(other / path.name, (1, 1))
    write_site([wheels], tmp_path / "one")
    write_site([other], tmp_path / "two")
    write_site([other], tmp_path / "two")
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "two")


def test_only_an_older_site_is_replaced(wheels: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not an index"):
        write_site([wheels], mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    site = tmp_path / "site"
    site.mkdir()
    write_site([wheels], site)
    (wheels / "model_digits-1.0.0-py3-none-any.whl").unlink()
    write_site([wheels], site)
    assert not (site / "simple" / "model-digits").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "site", "wheels"}


@pytest.mark.parametrize("out", [".", "..", "../wheels"])
def test_the_wheels_are_never_replaced(wheels: Path, out: str) -> None:
    with pytest.raises(UsageError, match="would replace"):
        write_site([wheels], wheels / out)
    assert len(list(wheels.glob("*.whl"))) == 3


def test_a_failure_leaves_the_older_site(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site")
    before = read_tree(tmp_path / "site")
    (wheels / "model_broken-1.0.0-py3-none-any.whl").write_bytes(b"no zip file")
    with pytest.raises(WheelError, match=r"model_broken-1\.0\.0.* is not a valid wheel"):
        write_site([wheels], tmp_path / "site")
    assert read_tree(tmp_path / "site") == before


def test_a_misnamed_wheel_is_refused(wheels: Path, tmp_path: Path) -> None:
    path = wheels / "model_digits-1.0.0-py3-none-any.whl"
    path.rename(wheels / "model_digits-2.0.0-py3-none-any.whl")
    with pytest.raises(WheelError, match=r"contains model_digits 1\.0\.0"):
        write_site([wheels], tmp_path / "site")


def test_a_broken_report_is_named(wheels: Path, tmp_path: Path) -> None:
    name = f"model_digits-1.0.0-py3-none-any.whl{REPORT_SUFFIX}"
    (wheels / name).write_text('{"passed": 7}')
    with pytest.raises(WheelError, match=rf"{name}: passed: "):
        write_site([wheels], tmp_path / "site")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("models", "not a plain http"),
        ("javascript:alert(1)", "not a plain http"),
        ("https://", "not a plain http"),
        ("https://example.org/?a=b", "not a plain http"),
        ("https://example.org/'; rm x", "not a plain http"),
        ("https://me:secret@example.org/", "user name or password"),
        ("https://[::1/", "not a plain http"),
    ],
)
def test_an_unfit_address_is_refused(wheels: Path, tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write_site([wheels], tmp_path / "site", url)
    assert not (tmp_path / "site").exists()


def test_command(wheels: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ["--base-url", "https://example.org/models", "--out", str(site)]
    done = CliRunner().invoke(app, ["index", str(wheels), *options])
    assert done.exit_code == 0, done.output
    assert str(site) in done.output
    assert "2 models" in done.output
    assert (site / "index.html").is_file()


@pytest.mark.parametrize("negotiate", [False, True], ids=["html", "json"])
def test_pip_installs_from_it(wheels: Path, tmp_path: Path, negotiate: bool) -> None:
    site = write_site([wheels], tmp_path / "site")
    target = tmp_path / "target"
    with serve(site.directory, negotiate=negotiate) as served:
        pip = [sys.executable, "-m", "pip", *QUIET, "install", "--target"]
        index = f"{served.url}simple/"
        done = subprocess.run(
            [*pip, str(target), "--index-url", index, "Model.Jet_Tagger"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (target / "model_jet_tagger/__init__.py").read_text() == "NAME = 'jet-tagger'\n"
    assert (target / "model_jet_tagger-0.10.0.dist-info").is_dir()
    wheel = "/model_jet_tagger-0.10.0-py3-none-any.whl"
    assert served.requests == ["/simple/model-jet-tagger/", f"{wheel}.metadata", wheel]


def test_pip_refuses_a_wheel_that_was_exchanged(wheels: Path, tmp_path: Path) -> None:
    site = write_site([wheels], tmp_path / "site")
    with (site.directory / "model_digits-1.0.0-py3-none-any.whl").open("ab") as wheel:
        wheel.write(b"more")
    with serve(site.directory) as served:
        pip = [sys.executable, "-m", "pip", *QUIET, "download", "--dest"]
        done = subprocess.run(
            [*pip, str(tmp_path), "--index-url", f"{served.url}simple/", "model-digits"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_what_was_written_as_json(tmp_path: Path) -> None:
    wheels = make_wheels(tmp_path / "wheels")
    done = Modelwheel(tmp_path / "cache")("index", wheels, "--out", tmp_path / "site", "--json")
    assert done.json == {
        "directory": str(tmp_path / "site"),
        "projects": 2,
        "wheels": 3,
        "sdists": 0,
        "copied": True,
    }
