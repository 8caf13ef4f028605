"""Summaries of builds and measurements in Markdown, as GitHub shows them on a pull request's checks.

Names and messages come from specs and models, which anybody may propose: all of it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...engine.scheduler import BuildResult
from ...release.measure import Measurement
from ...wheelfile.reports import Timing

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")

_LONGEST = 1000
"""Characters of a message; what it leaves out is in the log."""


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line: no markup, no HTML, no end of a table's cell.

    Any ASCII punctuation may be escaped by a backslash (CommonMark 0.31, section 2.4). What does not
    print, such as marks that turn the direction of writing, becomes `?`.
    """
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
    return _PUNCTUATION.sub(r"\\\1", "".join(c if c.isprintable() else "?" for c in line))


def append(file: Path, markdown: str) -> None:
    """Adds to a summary."""
    with file.open("a", encoding="utf-8") as summary:
        summary.write(f"{markdown}\n")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a cell's lines become lines in the cell."""
    lines = [header, ["---"] * len(header)]
    lines += [["<br>".join(map(escape, cell.splitlines())) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def show_builds(results: Sequence[BuildResult]) -> str:
    """What became of the specs; what went wrong in full sentences."""
    rows = []
    for result in results:
        wrong = [f"{name}: {error}".replace("\n", " ") for name, error in result.errors]
        built = result.wheel or result.sdist
        rows.append([result.request.name, built.name if built else "not built", "\n".join(wrong)])
    if not rows:
        return "No spec has changed.\n"
    return table(["model", "file", "errors"], rows)


def show_measurements(measurements: Sequence[Measurement]) -> str:
    """Size, error and speed of each wheel, beside those of the released version."""
    return table(MEASURED, map(measured_cells, measurements))


MEASURED = ("model", "wheel", "largest error", "time of a call")
"""The columns of `measured_cells`."""


def measured_cells(measurement: Measurement) -> list[str]:
    """What a table says of one wheel, as plain text; a cell may have several lines."""
    model, released = measurement.manifest.model, measurement.released
    name = f"{model.name} {model.version}"
    if released is not None:
        name += f"\nreleased: {released.version}"
    if measurement.error is not None:
        message = str(measurement.error).replace("\n", " ")
        return [name, _size(measurement), f"{_error(measurement)}\n{message}".strip(), ""]
    return [name, _size(measurement), _error(measurement), _times(measurement)]


def _size(measurement: Measurement) -> str:
    size, released = measurement.wheel_bytes, measurement.released
    text = f"{size / 1000:.0f} kB"
    if released is not None:
        text += f"\nreleased: {released.wheel_bytes / 1000:.0f} kB ({size / released.wheel_bytes - 1:+.1%})"
    return text


def _error(measurement: Measurement) -> str:
    worst = measurement.worst
    if worst is None:
        return ""
    share = f"{worst.absolute / worst.limit:.1%}" if worst.limit > 0 else "all"
    where = f"{worst.level}, {worst.rows} row{'s' * (worst.rows != 1)}"
    return f"{worst.absolute:.2g} of {worst.limit:.2g} ({share})\n{worst.output}, {where}"


def _times(measurement: Measurement) -> str:
    released = measurement.released
    older = {timing.rows: timing for timing in released.timings} if released else {}
    return "\n".join(_time(timing, older.get(timing.rows)) for timing in measurement.timings)


def _time(timing: Timing, older: Timing | None) -> str:
    text = f"{timing.rows} row{'s' * (timing.rows != 1)}: {timing.nanoseconds / 1000:.3g} µs"
    if older is not None:
        ratio = older.nanoseconds / timing.nanoseconds
        text += f", released {older.nanoseconds / 1000:.3g} µs ({ratio:.2f} x as fast)"
    return text
