"""Builds, verifies and times published models, and writes docs/corpus.md and README's sentence about them.

`python -m tests.corpus [DIRECTORY] [--only NAME]... [--again] [--no-bench] [--page]`: what a directory (by default `.corpus`) has results of is not
done again, unless a row of the table has changed or `--again` is given; what was built without being timed is timed. `--page` only writes the page from
the results.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.corpus.page import PAGE, README, write_page, write_readme
from tests.corpus.table import read_table
from tests.corpus.visit import ROWS, Corpus


def main(arguments: list[str]) -> int:
    """Returns 1 if a model was refused, and is not in the table as such."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(".corpus"))
    parser.add_argument("--only", action="append", metavar="NAME", help="only this model")
    parser.add_argument("--again", action="store_true", help="also where there are results")
    parser.add_argument("--no-bench", action="store_true", help="build and verify alone")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args(arguments)
    models = [one for one in read_table() if not given.only or one.name in given.only]
    corpus = Corpus(given.directory.absolute())
    for model in models:
        known = None if given.again else corpus.result(model)
        if given.page or (known and (known.is_complete or given.no_bench)):
            continue
        result = corpus.visit(model, again=given.again, timed=not given.no_bench)
        said = (
            result.refusal
            or result.untimed
            or ", ".join(
                f"{rows}: {ratio[0]:.2f} {ratio[1]}"
                for rows in ROWS
                if (ratio := result.ratio(rows))
            )
        )
        sys.stdout.write(
            f"{model.name}: {result.seconds:.0f} s, {result.megabytes:.0f} MB; {said}\n"
        )
        sys.stdout.flush()
    table = read_table()
    visited = [(one, found) for one in table if (found := corpus.result(one)) is not None]
    if not given.only:
        PAGE.write_text(write_page(visited, len(table) - len(visited)), encoding="utf-8")
        README.write_text(write_readme(README.read_text("utf-8"), visited), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
