"""The answer to a pull request: a comment that is always the same one, and the summary of its check.

GitHub shows no SVG of a run there: it removes `<svg>` and `data:` addresses, and files of a run need a login. It draws
Mermaid's charts in both, so these are the pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...util.files import write_atomically
from ...util.markdown import escape
from .markdown import show_errors, show_measurements

if TYPE_CHECKING:  # types alone: commands that print other tables should not wait for these
    from ...release.measure import Measurement

MARKER = "<!-- modelwheel -->"
"""The first line of the comment, by which it is found again."""

_MOST = 65_536
"""Characters that GitHub takes in a comment."""

_CHARTS = 20
"""Mermaid's charts on one page; each takes a browser a part of a second."""


def write_comment(file: Path, parts: Iterable[str]) -> None:
    """Writes a comment: the marker, and as many parts as fit, the first ones first."""
    more = "\nSome of it does not fit here; the summary of the check has everything.\n"
    text, left = f"{MARKER}\n", False
    for part in parts:
        fits = len(text) + len(part) + len(more) < _MOST
        text += f"\n{part}" if fits else ""
        left = left or not fits
    write_atomically(file, (text + (more if left else "")).encode())


def show_report(measurements: Sequence[Measurement], note: str) -> Iterator[str]:
    """The parts of a report in Markdown, the most important first.

    Args:
        measurements: A model each.
        note: Why there is no comparison with some released versions.
    """
    if not measurements:
        yield "No wheel was built for this machine.\n"
        return
    yield show_measurements(measurements)
    if note:
        yield f"{escape(note)}\n"
    changes = _show_differences(measurements)
    if changes:
        yield changes
    drawn = [chart for measurement in measurements if (chart := _show_times(measurement))]
    for chart in drawn[:_CHARTS]:
        yield chart
    if errors := show_errors(measurements):
        yield _folded("Errors of every output", errors)


def _folded(title: str, text: str) -> str:
    # GitHub reads Markdown in HTML only behind an empty line.
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _show_differences(measurements: Iterable[Measurement]) -> str:
    """The differences from the released version, for each model that has one."""
    lines = []
    for measurement in measurements:
        if measurement.released is not None:
            model, version = measurement.manifest.model, measurement.released.version
            changes = measurement.released.differences or (
                "the same inputs, outputs, levels, batch sizes, licences and files",
            )
            lines.append(f"- {escape(f'{model.name} {model.version}, compared with {version}')}")
            lines += [f"  - {escape(change)}" for change in changes]
    return "".join(f"{line}\n" for line in lines)


def _show_times(measurement: Measurement) -> str:
    """A chart of the time of a call; empty if there is nothing to compare."""
    ours = {timing.rows: timing.nanoseconds for timing in measurement.timings}
    theirs = {timing.rows: timing.nanoseconds for timing in measurement.framework}
    released = measurement.released
    older = {timing.rows: timing.nanoseconds for timing in released.timings} if released else {}
    series = (("the framework", theirs), ("the released version", older))
    drawn = [(name, values) for name, values in series if values]
    rows = [n for n in ours if all(n in values for _, values in drawn)]
    if not drawn or not rows:
        return ""
    largest = max(values[n] for values in (ours, theirs, older) if values for n in rows)
    unit, factor = next((u, f) for u, f in _UNITS if largest < 1000 * f or f == _UNITS[-1][1])
    model = measurement.manifest.model
    name = re.sub(r"[^\w.+!-]", "_", f"{model.name}_{model.version}", flags=re.ASCII)
    lines = [
        "```mermaid",
        "xychart-beta",
        f'    title "{name}: time of a call"',
        f'    x-axis "rows" [{", ".join(map(str, rows))}]',
        f'    y-axis "{unit}"',
        f"    bar [{_numbers(ours, rows, factor)}]",
        *(f"    line [{_numbers(values, rows, factor)}]" for _, values in drawn),
        "```",
    ]
    names = ("line", "second line")
    others = "; ".join(f"{which}: {name}" for which, (name, _) in zip(names, drawn, strict=False))
    return "\n".join([*lines, "", f"Bars: this wheel; {others}.", ""])


_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))


def _numbers(values: dict[int, float], rows: Sequence[int], factor: float) -> str:
    # Mermaid reads no powers of ten.
    texts = (f"{values[n] / factor:.4f}" for n in rows)
    return ", ".join(text.rstrip("0").rstrip(".") for text in texts)
