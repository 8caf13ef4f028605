"""A site whose files are elsewhere, and what a site has beside wheels."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import UsageError, WheelError
from modelwheel.index.entries import read_entries, read_entry, write_entries
from modelwheel.index.site import write_site
from tests.support.index_wheels import add_measurements, make_sdist, make_wheel, make_wheels


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return make_wheels(tmp_path / "wheels")


def read_tree(site: Path) -> dict[str, bytes]:
    return {str(p.relative_to(site)): p.read_bytes() for p in site.rglob("*") if p.is_file()}


def read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def links(page: Path) -> set[str]:
    return {
        found.partition("#")[0] for found in re.findall(r'<a[^>]* href="([^"]*)"', page.read_text())
    }


def test_source_distributions_are_in_the_index(wheels: Path, tmp_path: Path) -> None:
    """A Python without a wheel builds one, instead of pip's `from versions: none`."""
    sdist = make_sdist(wheels, "digits")
    site = write_site([wheels], tmp_path / "site")
    assert (site.wheels, site.sdists) == (3, 1)
    assert (site.directory / sdist.name).read_bytes() == sdist.read_bytes()
    project = read_json(site.directory / "simple" / "model-digits" / "index.v1+json")
    file = next(f for f in project["files"] if f["filename"] == sdist.name)
    assert file["url"] == f"../../{sdist.name}"
    assert file["requires-python"] == ">=3.8"
    assert "core-metadata" not in file  # PEP 658 is about wheels
    requirements = site.directory / "simple" / "model-digits" / "requirements-1.0.0.txt"
    assert file["hashes"]["sha256"] in requirements.read_text()


TEMPLATE = "https://example.org/releases/download/{tag}/{file}"


def test_files_can_stay_where_they_were_released(wheels: Path, tmp_path: Path) -> None:
    make_sdist(wheels, "digits")
    make_wheel(wheels, "digits", project="modelwheel_runtime")
    site = write_site(
        [wheels], tmp_path / "site", None, "https://example.org/simple/", template=TEMPLATE
    )
    assert not site.copied
    left = sorted(path.name for path in site.directory.iterdir() if "model_" in path.name)
    newest = "model_jet_tagger-0.10.0-py3-none-any.whl"
    assert left == [f"{newest}.bench.json", f"{newest}.report.json"]
    found = set()
    for name in ("model-digits", "modelwheel-runtime", "model-jet-tagger"):
        found |= links(site.directory / "simple" / name / "index.html")
    base = "https://example.org/releases/download/"
    assert found == {
        f"{base}digits-1.0.0/model_digits-1.0.0-py3-none-any.whl",
        f"{base}digits-1.0.0/model_digits-1.0.0.tar.gz",
        f"{base}modelwheel-runtime-1.0.0/modelwheel_runtime-1.0.0-py3-none-any.whl",
        f"{base}jet-tagger-0.9.0/model_jet_tagger-0.9.0-py3-none-any.whl",
        f"{base}jet-tagger-0.10.0/{newest}",
    }
    page = site.directory / "models" / "model-jet-tagger.html"
    assert f"{base}jet-tagger-0.10.0/{newest}" in page.read_text()


@pytest.mark.parametrize(
    "template",
    [
        "https://example.org/{tag}",
        "https://example.org/{file}/{hash}",
        "https://example.org/{file!r}",
        "https://example.org/{file",
        "https://example.org/{file}?token=x",
        "https://user@example.org/{file}",
        "{file}",
    ],
)
def test_templates_that_cannot_be_addresses(wheels: Path, tmp_path: Path, template: str) -> None:
    with pytest.raises(UsageError, match="--file-url-template"):
        write_site([wheels], tmp_path / "site", template=template)


def test_a_site_without_models(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    site = write_site([tmp_path / "dist"], tmp_path / "site")
    assert (site.projects, site.wheels, site.sdists) == (0, 0, 0)
    assert read_json(site.directory / "simple" / "index.v1+json")["projects"] == []


def test_entries_of_a_release_stand_for_its_files(wheels: Path, tmp_path: Path) -> None:
    sdist = make_sdist(wheels, "digits")
    files = [wheels / "model_digits-1.0.0-py3-none-any.whl", sdist]
    add_measurements(files[0])
    entries = [read_entry(path)[1] for path in files]
    (tmp_path / "entries").mkdir()
    path = write_entries("digits-1.0.0", entries, tmp_path / "entries")
    whole = write_site(files, tmp_path / "whole", template=TEMPLATE)
    outline = write_site([path.parent], tmp_path / "outline", template=TEMPLATE)
    assert read_tree(outline.directory) == read_tree(whole.directory)
    with pytest.raises(UsageError, match=r"is not here, only the entry of its release; say where"):
        write_site([path], tmp_path / "site")


@pytest.mark.parametrize(
    "name", ["../model_digits-1.0.0-py3-none-any.whl", "a.whl", "x.tar.gz", "b"]
)
def test_entries_under_other_names(wheels: Path, tmp_path: Path, name: str) -> None:
    entry = read_entry(wheels / "model_digits-1.0.0-py3-none-any.whl")[1]
    path = write_entries("digits-1.0.0", [entry.model_copy(update={"file": name})], tmp_path)
    with pytest.raises(WheelError, match=r"contains model_digits 1\.0\.0 under the name"):
        read_entries(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is damaged"),
        (b"{}", "is damaged"),
        (lzma.compress(b"{}")[:-9], "is damaged"),
        (lzma.compress(b'{"tag": 1}'), "has no entries that this modelwheel reads"),
        (lzma.compress(bytes(1 << 20)), "has no entries"),
    ],
)
def test_damaged_entries(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "digits-1.0.0.site.json.xz"
    path.write_bytes(content)
    with pytest.raises(WheelError, match=said):
        read_entries(path)
