"""Writes docs/zoo.md: `python -m tests.models.zoo [DIRECTORY]`; takes minutes.

What was compiled stays in the directory, so that the next time only what has changed is compiled.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.models.zoo.cases import CASES
from tests.models.zoo.page import PAGE, write_page
from tests.models.zoo.visit import visit
from tests.support.commands import Modelwheel


def main(directory: Path) -> int:
    """Writes the page, and what is not as it should be to standard error."""
    for name in ("projects", "packages", "runtime", "site", "runtime-wheel"):
        shutil.rmtree(directory / name, ignore_errors=True)
    visited = visit(CASES, directory, Modelwheel(directory / "cache"))
    wrong = [result for result in visited.results if not result.as_expected]
    for result in wrong:
        sys.stderr.write(f"{result.case.name}: {result.refusal or result.failures or 'compiled'}\n")
    PAGE.write_text(write_page(visited.results), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(Path(temporary)))
