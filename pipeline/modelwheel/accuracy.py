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

_ROWS_OF = {
    "zeros": "zeros",
    "denormals": "denormal numbers",
    "lowest": "the lowest numbers",
    "highest": "the highest numbers",
    "infinity": "infinity",
    "nan": "NaN",
}

MORE = "more"
"""What the names of more evaluations of a model of one shape begin with: `more 1`."""
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
    """Relative to the largest absolute value of the output."""
    ulp: float | None = None
    """Largest error of an element in units of its last place (NumPy's `spacing`); None for integers."""
    changed: int | None = None
    """How many decisions differ: integers and truth values, or largest elements along the last axis.
    None if the output has none, or not all of it is known."""

    @property
    def group(self) -> str | None:
        """The circumstance, or one name for all boundaries: what a line of a table stands for."""
        kind = (self.circumstance or "").split(" ")[0]
        return _BOUNDARY if kind in (*BOUNDARIES, MORE) else self.circumstance


class TableRead(JsonRecord):
    """How many rows of a table the ordinary rows of a comparison select."""

    layer: str
    rows: int
    read: int | None
    """How many of them; None if that does not follow from the model."""

    def __str__(self) -> str:
        if self.read is None:
            return (
                f"how many of the {self.rows} rows of the table of {self.layer!r} are compared is not known: "
                "the model computes the index"
            )
        if self.read == self.rows:
            return f"all {self.rows} rows of the table of {self.layer!r} are compared"
        share = self.read / self.rows
        return (
            f"{self.read} of the {self.rows} rows of the table of {self.layer!r} are compared ({share:.1%}); "
            "raise verify.rows for more, if the model has a batch axis"
        )


class Truth(JsonRecord):
    """The known errors of the model itself, before anything is compiled."""

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
    tables: tuple[TableRead, ...] = ()
    """How much of each table of the model is compared."""
    narrowed: Mapping[str, str] = {}
    """Why integers were drawn from 0 and 1 only, by input, as clauses."""
    moved: tuple[Deviation, ...] = ()
    """How far results move if all weights and inputs change in their last place, where that was measured: if an error
    in `framework` is above `INEXACT`, if there is no truth, or for integers that floats decide."""
    scales: Mapping[str, float] = {}
    """The largest absolute value that outputs can have, by name, where the operation that they end with says it."""
    narrow: Mapping[str, str] = {}
    """The 16-bit type that values of an output pass through, by its name."""
    converted: Mapping[str, str] = {}
    """How the conversion of a model differs from `evaluator` for an output by more than rounding explains, as clauses."""
    undecided: Mapping[str, str] = {}
    """What of an output is not compared on ordinary rows, and why, as clauses."""
    sensitive: Mapping[str, str] = {}
    """Outputs of which rounding decides more than may be left out: how much of them, as clauses."""

    def least_allowed(self, output: str, relative: float, largest: float) -> float:
        """The error that is allowed whatever was measured, in the unit of the output.

        Args:
            output: Its name.
            relative: The part of the largest value that the spec allows.
            largest: The largest value that was seen.
        """
        # The wheel's `_reference.py` computes the same: change both or neither.
        scale = self.scales.get(output, 0.0)
        allowed = min(relative, EPSILON["float32"]) * scale
        if output in self.narrow:
            allowed = ROUNDINGS * EPSILON[self.narrow[output]] * max(largest, scale)
        return allowed


NOTABLE = 2e-6
"""The relative error in float32 above which it is worth the time to compile the graph with XLA."""

INEXACT = 5e-7
"""The relative error in float32 above which it is worth the time to measure what rounding moves: long sums in another
order may be twenty times as inexact, and exceed the usual tolerance."""

EPSILON: Mapping[str, float] = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance of 1 to the next number, by type."""

ROUNDINGS = 4
"""How many units in the last place of a type, at the scale of an output, are rounding whatever was measured."""

UNDECIDED = 0.05
"""The part of an output's scale above which what rounding moves is no number to compare with."""

_T = TypeVar("_T", bound=Deviation)


def rounding_at(scale: float) -> float:
    """The error of 32-bit floats that is rounding whatever was measured, where the largest value could be `scale`."""
    return ROUNDINGS * EPSILON["float32"] * scale


def worst_of(errors: Iterable[_T], circumstance: str | None = None) -> dict[str, _T]:
    """The largest error of each output on rows of one kind, by name."""
    worst: dict[str, _T] = {}
    for error in errors:
        if error.circumstance != circumstance:
            continue
        if error.output not in worst or error.absolute > worst[error.output].absolute:
            worst[error.output] = error
    return worst


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
        return ", ".join(dict.fromkeys((d.circumstance or "").split(" ")[0] for d in deviations))
    numbers = as_ranges(sorted({d.rows for d in deviations}))
    return numbers if group is None else f"{numbers} {group}"


def truth_lines(truth: Truth) -> Iterator[tuple[str, ...]]:
    """The lines for what is known without a wheel."""
    yield from lines_of(truth.evaluator, truth.framework)
    yield from lines_of("TensorFlow with XLA", truth.xla)


def notes_on(truth: Truth) -> Iterator[str]:
    """Sentences about what could not be measured."""
    if truth.missing is not None:
        yield f"Compared with float32, because there is no float64 reference: {truth.missing}"
    for output, reason in truth.without.items():
        yield f"Output {output!r} is compared with float32: {reason}"
    for output, dtype in truth.narrow.items():
        units = f"at least {ROUNDINGS} units in the last place of {dtype}"
        yield f"Values of output {output!r} pass through {dtype}: {units} are allowed"
    for kind, reason in truth.undefined.items():
        yield f"Rows of {_ROWS_OF.get(kind, kind)} were not compared: {reason}"
    for output, reason in truth.undecided.items():
        yield f"Part of output {output!r} was not compared: {reason}"
    if truth.xla_missing is not None:
        yield f"Not measured with XLA: {truth.xla_missing}"
    for name, reason in truth.narrowed.items():
        yield f"Input {name!r} is compared on the integers 0 and 1 only: {reason}; set verify.ranges.{name}"
    for table in truth.tables:
        if table.read != table.rows:
            yield f"Part of a table was not compared: {table}"
