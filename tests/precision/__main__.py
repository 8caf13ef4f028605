"""Writes docs/precision.md and its plot: `python -m tests.precision [DIRECTORY]`; takes many minutes.

What was compiled stays in the directory, so that the next time only what has changed is compiled.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from modelwheel.levels import host_levels
from modelwheel.release.parts import parts_of, plot_parts
from modelwheel.wheelfile.reports import Report, parse_report
from tests.models.zoo.cases import CASES
from tests.models.zoo.visit import visit
from tests.precision.page import PAGE, PLOT, write_page
from tests.precision.published import write_specs
from tests.support.commands import Modelwheel

_LEVELS = ("x86-64-v3", "armv8-a")
"""One for each architecture: what differs between levels is the order of sums, and fused multiplications."""


def main(directory: Path) -> None:
    """Writes both files."""
    modelwheel = Modelwheel(directory / "cache")
    levels = [level.name for level in host_levels() if level.name in _LEVELS]
    reports = dict(_published(directory, modelwheel, levels))
    for name in ("projects", "packages", "runtime", "site", "runtime-wheel"):
        shutil.rmtree(directory / name, ignore_errors=True)
    visited = visit(CASES, directory, modelwheel, levels)
    parts = {name: list(parts_of(name, r)) for name, r in (reports | visited.reports).items()}
    PAGE.write_text(write_page(reports | visited.reports, parts, set(reports)), encoding="utf-8")
    plot_parts([one for found in parts.values() for one in found], PLOT)


def _published(
    directory: Path, modelwheel: Modelwheel, levels: list[str]
) -> Iterator[tuple[str, Report]]:
    """The reports of published models, where they are."""
    specs = write_specs(directory / "published", levels)
    for spec in specs:
        for built in modelwheel.build(spec, "--out", directory / "dist"):
            yield spec.stem, parse_report(json.dumps(built["report"]).encode())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
