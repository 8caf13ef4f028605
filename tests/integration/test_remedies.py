"""docs/remedies/: every model there compiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelwheel.model.readings import KerasReading, SavedModelReading
from tests.support.laboratory import Laboratory, run_script
from tests.support.outcomes import outcome
from tests.support.pages import ROOT, Block, blocks

pytestmark = pytest.mark.slow

_BLOCKS = [
    pytest.param(block, id=block.place)
    for page in sorted((ROOT / "docs" / "remedies").glob("*.md"))
    for block in blocks(page, "python")
]


@pytest.fixture(scope="module")
def remedies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the model of each block, by its place."""
    directory = tmp_path_factory.mktemp("remedies")
    run_script("remedies", directory)
    return directory


@pytest.mark.parametrize("block", _BLOCKS)
def test_a_remedy_compiles(laboratory: Laboratory, remedies: Path, block: Block) -> None:
    reading: Any = SavedModelReading()
    if "core.keras" in block.text:
        reading = KerasReading(file="core.keras")
    assert outcome(laboratory, remedies / block.place, reading=reading)[-1] == "compiled"
