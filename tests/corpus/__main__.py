"""Builds, verifies and times published models, and writes docs/corpus.md and README's sentence about them.

`python -m tests.corpus [DIRECTORY] [--only NAME]... [--again] [--no-bench] [--page]`: what a directory (by default `.corpus`) has results of is not
done again, unless a row of the table has changed or `--again` is given; what was built without being timed is timed. `--page` only writes the page from
the outcomes that are kept in `outcomes.jsonl`, where each visit writes its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.corpus.outcomes import outcome_of, read_outcomes, write_outcomes
from tests.corpus.page import PAGE, README, write_page, write_readme
from tests.corpus.table import read_table
from tests.corpus.visit import ROWS, Corpus, Result


def main(arguments: list[str]) -> None:
    """Visits the models that are asked for, and writes the pages unless only some are."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(".corpus"))
    parser.add_argument("--only", action="append", metavar="NAME", help="only this model")
    parser.add_argument("--again", action="store_true", help="also where there are results")
    parser.add_argument("--no-bench", action="store_true", help="build and verify alone")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args(arguments)
    table = read_table()
    outcomes = read_outcomes(table)
    if not given.page:
        corpus = Corpus(given.directory.absolute())
        for model in table:
            if given.only and model.name not in given.only:
                continue
            known = None if given.again else corpus.result(model)
            if known is None or not (known.is_complete or given.no_bench):
                known = corpus.visit(model, again=given.again, timed=not given.no_bench)
                _report(known)
            if known.is_complete:
                outcomes[model.name] = outcome_of(model, known)
                write_outcomes(table, outcomes)
    visited = [(one, outcomes[one.name]) for one in table if one.name in outcomes]
    if not given.only:
        PAGE.write_text(write_page(visited, len(table) - len(visited)), encoding="utf-8")
        README.write_text(write_readme(README.read_text("utf-8"), visited), encoding="utf-8")


def _report(result: Result) -> None:
    ratios = ", ".join(
        f"{rows}: {ratio[0]:.2f} {ratio[1]}" for rows in ROWS if (ratio := result.ratio(rows))
    )
    said = result.refusal or result.untimed or ratios
    sys.stdout.write(f"{result.model}: {result.seconds:.0f} s, {result.megabytes:.0f} MB; {said}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
