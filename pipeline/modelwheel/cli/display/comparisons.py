"""The errors of a wheel as `build` and `verify` print them: a line for each CPU level, or the whole table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from ...accuracy import COLUMNS
from ...util.words import count, percent
from ...wheelfile.reports import Comparison, Report, notes_on_report, report_lines
from .console import OUT, plain, print_below


def print_comparisons(report: Report, *, table: bool = False) -> None:
    """The part of the tolerance that each level uses, and what was not compared.

    Args:
        report: Of one wheel.
        table: Whether to print every output's errors, and those of the reference, instead.
    """
    if table:
        _print_table(report)
    else:
        levels = by_level(report.comparisons)
        width = max(map(len, levels), default=0)
        for level, comparisons in levels.items():
            mark = "[green]ok[/]" if all(c.passed for c in comparisons) else "[red]exceeded[/]"
            OUT.print(f"  {plain(level):{width}} {mark}, {plain(level_text(comparisons))}")
    for note in notes_on_report(report):
        print_below(OUT, "[cyan]note[/]", note)


def by_level(comparisons: Sequence[Comparison]) -> Mapping[str, Sequence[Comparison]]:
    """The comparisons of each level, in their order."""
    levels = dict[str, list[Comparison]]()
    for comparison in comparisons:
        levels.setdefault(comparison.level, []).append(comparison)
    return levels


def level_text(comparisons: Sequence[Comparison]) -> str:
    """How much of its tolerance a level uses, and where, if it is too much."""
    failed = [comparison for comparison in comparisons if not comparison.passed]
    worst = max(failed or comparisons, key=lambda comparison: comparison.share)
    used = share_text(worst)
    if not failed:
        return used
    others = len({comparison.label for comparison in failed}) - 1
    more = f" and {count(others, 'other output')}" if others else ""
    kind = f", {worst.circumstance}" if worst.circumstance else ""
    return f"{used} ({worst.label}{more}, {count(worst.rows, 'row')}{kind})"


def share_text(comparison: Comparison) -> str:
    """The part of its tolerance that a comparison uses, as `1.2 % of the tolerance`."""
    if math.isinf(comparison.absolute):
        return "only one of two values is finite"
    if comparison.absolute == 0:
        return "no difference"
    if comparison.limit == 0:
        return f"{comparison.absolute:.2g}, and no difference is allowed"
    return f"{percent(comparison.share)} of the tolerance"


def _print_table(report: Report) -> None:
    """The largest errors of the reference and of every level over all numbers of rows."""
    table = Table(*COLUMNS, "tolerance", "")
    marks = {None: "", True: "[green]ok[/]", False: "[red]exceeded[/]"}
    for cells in _rows(report, marks):
        table.add_row(*cells)
    OUT.print(table)


def _rows(report: Report, marks: Mapping[bool | None, str]) -> Iterator[tuple[str, ...]]:
    for line in report_lines(report):
        yield (*map(plain, line.cells), line.limit, marks[line.passed])
