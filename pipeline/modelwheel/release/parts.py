"""Whose part of a wheel's error is whose: the framework's float32, XLA's code, or the wheel's own, as a table and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..plots import svg_plot
from ..wheelfile.reports import Report

PART_COLUMNS = (
    *("model", "output", "framework", "TensorFlow with XLA", "wheel", "at"),
    *("part of the framework", "of XLA", "of the wheel"),
)
"""Of `part_cells`: relative errors against float64, and the parts of the wheel's error."""

_LEAST = 1e-9
"""The relative error at which the axis of a plot begins; an error of 0 is drawn there."""
_ROW_INCHES = 0.16


@dataclass(frozen=True)
class Parts:
    """The largest errors of one output on ordinary rows, relative to its largest value."""

    model: str
    output: str
    framework: float
    xla: float | None
    """Of TensorFlow with XLA on the machine of the build; None if it was not measured."""
    wheel: float
    level: str
    """Where the wheel's error is largest."""

    @property
    def shares(self) -> tuple[float, float | None, float]:
        """Of the wheel's error: what the framework in float32 has too, what XLA adds to that, and the rest.

        If XLA was not measured, its part is in the rest.
        """
        if self.wheel == 0:
            return 0.0, None if self.xla is None else 0.0, 0.0
        rounding = min(self.framework, self.wheel)
        compiled = max(min(self.xla, self.wheel) - rounding, 0.0) if self.xla is not None else None
        rest = self.wheel - rounding - (compiled or 0.0)
        share = None if compiled is None else compiled / self.wheel
        return rounding / self.wheel, share, rest / self.wheel


def parts_of(model: str, report: Report) -> Iterator[Parts]:
    """The parts of each output whose truth is known."""
    own = _largest((e.output, e.circumstance, e.relative) for e in report.truth.framework)
    xla = _largest((e.output, e.circumstance, e.relative) for e in report.truth.xla)
    worst: dict[str, tuple[float, str]] = {}
    for comparison in report.comparisons:
        if comparison.exact and comparison.circumstance is None and not comparison.state:
            worst[comparison.output] = max(
                worst.get(comparison.output, (-1.0, "")), (comparison.relative, comparison.level)
            )
    for output, (relative, level) in worst.items():
        yield Parts(model, output, own.get(output, 0.0), xla.get(output), relative, level)


def _largest(errors: Iterable[tuple[str, str | None, float]]) -> dict[str, float]:
    largest: dict[str, float] = {}
    for output, circumstance, relative in errors:
        if circumstance is None:
            largest[output] = max(largest.get(output, 0.0), relative)
    return largest


def part_cells(parts: Parts) -> tuple[str, ...]:
    """One row of `PART_COLUMNS`."""
    errors = ("" if e is None else f"{e:.1e}" for e in (parts.framework, parts.xla, parts.wheel))
    shares = ("" if share is None else f"{share:.0%}" for share in parts.shares)
    return (parts.model, parts.output, *errors, parts.level, *shares)


def plot_parts(parts: Sequence[Parts], path: Path) -> None:
    """Draws the errors of each output as points on a logarithmic axis, the largest first.

    Raises:
        EnvironmentProblemError: Matplotlib is not installed.
    """
    ordered = sorted(parts, key=lambda part: max(part.framework, part.xla or 0.0, part.wheel))
    height = 1.5 + _ROW_INCHES * len(ordered)
    with svg_plot(path, "Largest errors against float64", height=height) as axes:
        places = range(len(ordered))
        for part, place in zip(ordered, places, strict=True):
            ends = sorted(max(e, _LEAST) for e in (part.framework, part.wheel))
            axes.plot(ends, [place, place], color="lightgrey", zorder=1)
        for label, marker, values in (
            ("framework", "o", [part.framework for part in ordered]),
            ("TensorFlow with XLA", "x", [part.xla for part in ordered]),
            ("wheel", "|", [part.wheel for part in ordered]),
        ):
            known = [
                (max(v, _LEAST), p) for v, p in zip(values, places, strict=True) if v is not None
            ]
            xs, ys = [x for x, _ in known], [y for _, y in known]
            axes.scatter(xs, ys, marker=marker, label=label, zorder=2)
        axes.set_xscale("log")
        axes.set_xlabel("error, relative to the largest value of the output")
        axes.set_yticks(list(places), [f"{part.model}: {part.output}" for part in ordered])
        axes.tick_params(axis="y", labelsize=6)
        axes.legend(loc="lower right")
