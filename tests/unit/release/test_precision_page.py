"""The page that `make precision` writes."""

from __future__ import annotations

from modelwheel.accuracy import Truth
from modelwheel.release.parts import Parts
from modelwheel.wheelfile.reports import Report
from tests.precision.page import write_page


def test_published_models_and_the_zoo_have_tables_of_their_own() -> None:
    known = Truth(undefined={"nan": "output 'y': with XLA 1 of 1 values differ"})
    reports = {
        "dtln": Report(passed=True, comparisons=(), skipped={}, truth=known),
        "half": Report(passed=True, comparisons=(), skipped={}, truth=Truth(missing="it rounds")),
    }
    parts = {"dtln": [Parts("dtln", "y", 1e-6, None, 2e-6, "x86-64-v3")], "half": []}
    page = write_page(reports, parts, {"dtln"})
    published, _, rest = page.partition("\n## The zoo\n")
    zoo, _, rest = rest.partition("\n## Without a truth\n")
    assert "| dtln | y | 1.0e-06 |  | 2.0e-06 |" in published
    assert "dtln" not in zoo
    missing, _, undefined = rest.partition("\n## Boundary rows that are not compared\n")
    assert "| half | it rounds |" in missing
    assert "| dtln | nan | output 'y':" in undefined
