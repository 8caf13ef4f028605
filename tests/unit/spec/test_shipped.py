"""The specs of this repository can be built by anybody: their sources are public and pinned."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.spec import load_spec
from modelwheel.spec.sources import GitSource

SPECS = sorted((Path(__file__).parents[3] / "model_specs").glob("*.yaml"))


def test_there_are_specs() -> None:
    assert SPECS


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_source_is_public_and_pinned(path: Path) -> None:
    source = load_spec(path).source
    assert isinstance(source, GitSource)
    assert source.git.startswith("https://")
    assert set(source.commit) != {"0"}
