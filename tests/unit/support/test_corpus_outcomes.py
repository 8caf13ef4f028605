"""The outcomes of published models that are kept are those of the table, and of the page."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.outcomes import Outcome, hash_of, read_outcomes, write_outcomes
from tests.corpus.page import PAGE, README, write_page, write_readme
from tests.corpus.table import read_table

TABLE = read_table()


def test_pages_are_what_is_kept() -> None:
    outcomes = read_outcomes(TABLE)
    visited = [(model, outcomes[model.name]) for model in TABLE if model.name in outcomes]
    text = write_page(visited, len(TABLE) - len(visited))
    assert text == PAGE.read_text("utf-8"), "run: python -m tests.corpus --page"
    front = README.read_text("utf-8")
    assert write_readme(front, visited) == front


def test_outcomes_of_other_rows_are_left_out(tmp_path: Path) -> None:
    same, changed = TABLE[:2]
    made = {
        model.name: Outcome(
            model=model.name,
            row=hash_of(model),
            seconds=1.5,
            processor_seconds=1,
            megabytes=10,
            ratios={1: (1.25, "litert")},
        )
        for model in (same, changed)
    }
    file = tmp_path / "outcomes.jsonl"
    write_outcomes(TABLE, made, file)
    table = (same, changed.model_copy(update={"about": "something else"}))
    assert read_outcomes(table, file) == {same.name: made[same.name]}
