"""How far results are from what exact arithmetic computes: the record that references, manifests and reports share.

The truth of a model in float32 is the same graph, with the same weights, evaluated in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from pydantic import ConfigDict

from .util.records import JsonRecord
from .util.words import as_ranges

BOUNDARIES = ("zeros", "denormals", "lowest", "highest", "infinity", "nan")
"""Kinds of rows that are compared in addition to the random ones, or to those of real data."""

_BOUNDARY = "at boundaries"


class Deviation(JsonRecord):
    """The error of one output in one evaluation."""

    # An error is infinite where only one of two values is finite; JSON has no such number.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    output: str
    rows: int
    length: int | None = None
    """Of the inputs, if it is not the largest one of the model."""
    call: int | None = None
    """Of a model with state: how many calls in a row came before, from its first state on."""
    circumstance: str | None = None
    """What is special: one of `BOUNDARIES`, or, of a wheel, how it was called. None for ordinary rows."""
    absolute: float
    """Largest absolute error."""
    relative: float
    """The same relative to the largest absolute value of the output."""
    ulp: float | None = None
    """Largest error of an element in units of its last place (NumPy's `spacing`); None for integers."""
    changed: int | None = None
    """How many decisions differ: integers and truth values, or largest elements along the last axis.
    None if the output has none, or not all of it is known."""

    @property
    def group(self) -> str | None:
        """The circumstance, or one name for all boundaries: what a line of a table stands for."""
        return _BOUNDARY if self.circumstance in BOUNDARIES else self.circumstance


class Truth(JsonRecord):
    """What is known about the errors of the model itself, before anything is compiled."""

    evaluator: str = "TensorFlow"
    """What evaluated the model in float32, without its version."""
    missing: str | None = None
    """Why there is no truth for any output, as a clause; the wheel is then compared with float32."""
    without: Mapping[str, str] = {}
    """Why there is none for single outputs, by name."""
    framework: tuple[Deviation, ...] = ()
    """Of `evaluator` in float32, for every output that has a truth and every evaluation."""
    xla: tuple[Deviation, ...] = ()
    """Of TensorFlow's own compilation with XLA (`jit_compile=True`) on the machine of the build, if an error
    in `framework` is `NOTABLE`."""
    xla_missing: str | None = None
    """Why there are none in spite of that, as a clause."""
    undefined: Mapping[str, str] = {}
    """Why rows of some `BOUNDARIES` are not compared, for some outputs or all, as clauses."""
    moved: tuple[Deviation, ...] = ()
    """How far the truth moves if all weights and inputs change by half a unit in their last place, if an
    error in `framework` is `NOTABLE`."""

    def chaotic(self, output: str, limit: float) -> Deviation | None:
        """How far the truth of an output moves, if that is more than the error that is allowed.

        Then no arithmetic in float32 can be expected to keep the limit.
        """
        moved = worst_of(self.moved).get(output)
        if moved is None or moved.relative <= NOTABLE or moved.absolute <= limit:
            return None  # a limit as small as one rounding says nothing about the model
        return moved


NOTABLE = 2e-6
"""The relative error in float32 above which it is worth the time to compile the graph with XLA, and to
evaluate it once more."""

_T = TypeVar("_T", bound=Deviation)


def worst_of(errors: Iterable[_T], circumstance: str | None = None) -> dict[str, _T]:
    """The largest error of each output on rows of one kind, by name."""
    found: dict[str, _T] = {}
    for error in errors:
        if error.circumstance != circumstance:
            continue
        if error.output not in found or error.absolute > found[error.output].absolute:
            found[error.output] = error
    return found


COLUMNS = ("output", "computed by", "rows", "max abs error", "max rel error", "ulp", "changed")
"""Of the lines of `lines_of`."""


def lines_of(computed_by: str, deviations: Iterable[Deviation]) -> Iterator[tuple[str, ...]]:
    """The largest deviations of each output over all evaluations, as the cells of a table.

    Those at boundaries have a line of their own, and so has each way to call a wheel.
    """
    by_output: dict[tuple[str, str | None], list[Deviation]] = {}
    for deviation in deviations:
        by_output.setdefault((deviation.output, deviation.group), []).append(deviation)
    for (output, group), all_of_it in by_output.items():
        ulps = [d.ulp for d in all_of_it if d.ulp is not None]
        changes = [d.changed for d in all_of_it if d.changed is not None]
        yield (
            output,
            computed_by,
            _rows(group, all_of_it),
            f"{max(d.absolute for d in all_of_it):.2e}",
            f"{max(d.relative for d in all_of_it):.2e}",
            f"{max(ulps):.3g}" if ulps else "",
            str(max(changes)) if changes else "",
        )


def _rows(group: str | None, deviations: Iterable[Deviation]) -> str:
    if group == _BOUNDARY:
        return ", ".join(dict.fromkeys(d.circumstance or "" for d in deviations))
    numbers = as_ranges(sorted({d.rows for d in deviations}))
    return numbers if group is None else f"{numbers} {group}"


def truth_lines(truth: Truth) -> Iterator[tuple[str, ...]]:
    """The lines for what is known without a wheel."""
    yield from lines_of(truth.evaluator, truth.framework)
    yield from lines_of("TensorFlow with XLA", truth.xla)


def notes_on(truth: Truth) -> Iterator[str]:
    """Sentences about what could not be measured."""
    if truth.missing is not None:
        yield f"Compared with float32, as there is no float64 truth: {truth.missing}"
    for output, reason in truth.without.items():
        yield f"Output {output!r} is compared with float32: {reason}"
    for kind, reason in truth.undefined.items():
        yield f"Not compared, rows of {kind}: {reason}"
    if truth.xla_missing is not None:
        yield f"Not measured with XLA: {truth.xla_missing}"
