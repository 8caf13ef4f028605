"""Summaries of builds and measurements in Markdown, as GitHub shows them on a pull request's checks.

Names and messages come from specs and models that anybody may propose, so all of it is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...accuracy import COLUMNS
from ...util.markdown import escape, table
from ...util.words import count, size_text, time_text
from ...wheelfile.reports import notes_on_report, report_lines

if TYPE_CHECKING:  # types alone: commands that print other tables should not wait for these
    from ...engine.build import BuildResult
    from ...release.measure import Measurement
    from ...wheelfile.reports import Timing


def append(file: Path, markdown: str) -> None:
    """Appends to a summary file."""
    with file.open("a", encoding="utf-8") as summary:
        summary.write(f"{markdown}\n")


def show_builds(results: Sequence[BuildResult]) -> str:
    """One row for each spec: the file built, or the errors in full."""
    rows = []
    for result in results:
        wrong = [line.replace("\n", " ") for line in failure_lines(result)]
        built = result.wheel or result.sdist
        rows.append([result.request.name, built.name if built else "not built", "\n".join(wrong)])
    if not rows:
        return "No spec has changed.\n"
    return table(["model", "file", "errors"], rows)


def failure_lines(result: BuildResult) -> list[str]:
    """`reference failed: why`, one for each reason; steps that failed for the same reason share it."""
    return [
        f"{', '.join(step.partition('/')[2] for step in steps)} failed: {message}"
        for message, steps in result.failures()
    ]


def show_measurements(measurements: Sequence[Measurement]) -> str:
    """Size, error and speed of each wheel, next to the released version's and the framework's."""
    return table(MEASURED, map(measured_cells, measurements))


def show_errors(measurements: Sequence[Measurement]) -> str:
    """The errors of every output, and what was not measured."""
    lines = [
        (measurement.manifest.model.name, *line.cells, line.limit)
        for measurement in measurements
        if measurement.report is not None
        for line in report_lines(measurement.report)
    ]
    text = table(("model", *COLUMNS, "tolerance"), lines) if lines else ""
    notes = [
        f"{measurement.manifest.model.name}: {line}"
        for measurement in measurements
        if measurement.report is not None
        for line in notes_on_report(measurement.report)
    ]
    return text + "".join(f"\n{escape(line)}\n" for line in notes)


MEASURED = ("model", "wheel", "largest error", "time of a call")
"""The columns of `measured_cells`."""


def measured_cells(measurement: Measurement) -> list[str]:
    """One row of `MEASURED` as plain text; a cell may have several lines."""
    model, released = measurement.manifest.model, measurement.released
    name = f"{model.name} {model.version}"
    if released is not None:
        name += f"\nreleased: {released.version}"
    if measurement.error is not None:
        message = f"{measurement.error} [{measurement.error.code}]".replace("\n", " ")
        return [name, _size(measurement), f"{_error(measurement)}\n{message}".strip(), ""]
    return [name, _size(measurement), _error(measurement), _times(measurement)]


def _size(measurement: Measurement) -> str:
    size, released = measurement.wheel_bytes, measurement.released
    text = size_text(size)
    if released is not None:
        text += f"\nreleased: {size_text(released.wheel_bytes)} ({size / released.wheel_bytes - 1:+.1%})"
    return text


def _error(measurement: Measurement) -> str:
    worst = measurement.worst
    if worst is None:
        return ""
    share = f"{worst.absolute / worst.limit:.1%}" if worst.limit > 0 else "all"
    where = f"{worst.level}, {count(worst.rows, 'row')}"
    return f"{worst.absolute:.2g} of {worst.limit:.2g} ({share})\n{worst.label}, {where}"


def _times(measurement: Measurement) -> str:
    released = measurement.released
    older = {timing.rows: timing for timing in released.timings} if released else {}
    framework = {timing.rows: timing for timing in measurement.framework}
    return "\n".join(
        _time(timing, older.get(timing.rows), framework.get(timing.rows))
        for timing in measurement.timings
    )


def _time(timing: Timing, older: Timing | None, framework: Timing | None) -> str:
    text = f"{count(timing.rows, 'row')}: {time_text(timing.nanoseconds / 1e9)}"
    if older is not None:
        text += f", released {_compared(timing, older)}"
    if framework is not None:
        text += f", {framework.framework}: {_compared(timing, framework)}"
    return text


def _compared(timing: Timing, other: Timing) -> str:
    ratio = other.nanoseconds / timing.nanoseconds
    digits = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"{time_text(other.nanoseconds / 1e9)} ({digits} x as fast)"
