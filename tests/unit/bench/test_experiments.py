"""The pages about experiments say what their data say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.__main__ import ROOT
from tests.bench.experiments import PAGES, load, render

_DOCS = ROOT / "docs"
_TOML = """\
title = "T"
summary = "what is tried"
cpu = "Zen 5"

[[experiment]]
theme = "Loops"
idea = "Two at a time"
outcome = "left out"
note = "It takes longer."
commit = "0123456789abcdef"
measured = [{model = "GRU", ratio = 0.9, quartiles = [0.85, 1]}, {model = "GRU", rows = 1, ratio = 1}]
"""


def test_the_pages_are_those_that_the_program_writes() -> None:
    for path, text in render(_DOCS).items():
        assert path.read_text(encoding="utf-8") == text, "python -m tests.bench.experiments"


def test_every_file_of_data_is_a_page() -> None:
    assert sorted(path.stem for path in (_DOCS / "experiments").glob("*.toml")) == sorted(PAGES)


def test_no_idea_is_there_twice() -> None:
    ideas = [one.idea for page in load(_DOCS / "experiments").values() for one in page.experiment]
    assert sorted(set(ideas)) == sorted(ideas)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Pages with one experiment in each."""
    (tmp_path / "experiments").mkdir()
    for name in PAGES:
        (tmp_path / "experiments" / f"{name}.toml").write_text(_TOML)
    (tmp_path / "experiments.md").write_text("By hand.\n<!-- ideas -->\nold\n")
    return tmp_path


def test_an_experiment_is_rows_and_a_note(docs: Path) -> None:
    texts = render(docs)
    page = texts[docs / "experiments" / "memory.md"].splitlines()
    assert "| Two at a time | GRU | 16 | v4 | 0.90 (0.85-1.00) |" in page
    assert "|  | GRU | 1 | v4 | 1.00 |" in page
    assert "- **Two at a time.** *Left out.* It takes longer. (`01234567`)" in page
    index = texts[docs / "experiments.md"]
    assert index.startswith("By hand.\n<!-- ideas -->\n\n## [T](experiments/products.md)\n")
    assert "| Two at a time | left out | 0.90 to 1.00 |" in index
    assert "old" not in index


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("left out", "forgotten"), ("ratio = 0.9", "ratio = 'fast'"), ("commit", "comit")],
)
def test_mistakes_in_the_data_are_refused(docs: Path, right: str, wrong: str) -> None:
    (docs / "experiments" / "calls.toml").write_text(_TOML.replace(right, wrong))
    with pytest.raises(ValueError, match=r"validation error"):
        load(docs / "experiments")
