"""The specs of this repository can be built by anybody: their sources are public and pinned, and README lists them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from modelwheel.spec import load_spec
from tests.collection.pictures import PICTURES
from tests.collection.table import BEGIN, END, README, table

SPECS = sorted((Path(__file__).parents[3] / "model_specs").glob("*.yaml"))

WITHOUT_LICENSE = {"cms-deepcore", "cms-l1-tau-id", "cms-track-classifier"}
"""Nobody has said what may be done with these weights: the wheels are built, and never published."""


def test_it_is_a_collection() -> None:
    specs = [load_spec(path) for path in SPECS]
    public = [spec for spec in specs if not spec.model.name.startswith("test-")]
    assert len(public) >= 10
    assert len({spec.origin.model_format for spec in public}) >= 4


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_source_is_public_and_pinned(path: Path) -> None:
    source = load_spec(path).source
    assert source is not None
    origin = source.provenance("0" * 64)
    assert origin["kind"] in ("git", "pypi")
    if origin["kind"] == "git":
        assert origin["url"].startswith("https://")
        assert set(origin["commit"]) != {"0"}
    else:
        assert re.fullmatch("[0-9a-f]{64}", origin["sha256"])


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_reader_learns_what_it_is(path: Path) -> None:
    spec = load_spec(path)
    package = spec.package
    assert spec.model.name == path.stem
    assert spec.model.description
    assert spec.model.author
    assert package.summary
    assert "Source" in package.urls
    assert (package.weights_license is None) == (path.stem in WITHOUT_LICENSE)
    assert package.publish == (package.weights_license is not None)


def test_the_table_is_that_of_the_specs() -> None:
    written = README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert written == table(), "run `python -m tests.collection dist`"


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_picture_only_draws(name: str) -> None:
    path = README.with_name(f"{name}.svg")
    assert path.stat().st_size < 20_000
    kinds = {element.tag.rpartition("}")[2] for element in ET.parse(path).iter()}
    assert kinds <= {"svg", "title", "rect", "text", "polyline"}
    assert "url(" not in path.read_text(encoding="utf-8")
    assert path.with_suffix(".yaml").exists()
