"""The result of the job `reference`: what the model computes for random or sampled inputs.

`modelwheel.compiler.reference.reference` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from ..accuracy import Truth
from ..util.records import JsonRecord
from .inspection import ColumnValues, Mask, ValidValues

ARRAYS, SUMMARY, TIMES = "reference.npz", "reference.json", "framework.json"
"""`reference.npz` holds `in/NAME`, made for the largest number of rows, of which the first ones
serve for fewer, and `out/CASE/NAME` for every case: `16`, a number of rows, or `4x20`, a number of rows
cut to this length along the axes with buckets. Rows are axis 0, whatever the model's batch axis is. Outputs whose truth is known have `exact/CASE/NAME`, which
is to be added to them, and `noise/CASE/NAME` is the error that rounding makes of each row, or each element, infinite for what
decides nothing; without it there is none. Boundary rows have inputs `in@KIND/NAME` and cases `ROWS@KIND`. `reference.json` is a `Reference`.
`framework.json` is a `FrameworkTimes`; it differs each time, and nothing that is built depends on it."""


class Reference(JsonRecord):
    """The results of the evaluations of a signature."""

    version: Literal[1] = 1
    evaluator: str = "TensorFlow"
    """What evaluated the model, with its version: TensorFlow, or the runtime of the model's own format."""
    independent: bool
    """Whether each row of every output depends only on the same row of the inputs."""
    reason: str | None
    """Why rows are not independent, as a sentence."""
    leading_per_row: dict[str, int]
    """For every output, the extent of the batch axis for each row of the batch; 0 if it does not grow."""
    batched_inputs: tuple[str, ...]
    """Names of the inputs that have a batch axis; empty for a signature without one."""
    input_axes: Mapping[str, int] = {}
    """The batch axes that are not axis 0, by name. All arrays have it first, and `extents` too."""
    output_axes: Mapping[str, int] = {}
    """Of outputs."""
    ranges: Mapping[str, tuple[float, float]] = {}
    """[low, high) of random inputs, by name; empty if there are samples."""
    masks: Mapping[str, tuple[Mask, ...]] = {}
    """Values that random inputs hold now and then, by name."""
    columns: Mapping[str, tuple[ColumnValues, ...]] = {}
    """Columns of random inputs with bounds of their own, by name."""
    valid: Mapping[str, ValidValues] = {}
    """What callers may pass, by input."""
    parts: Mapping[str, int] = {}
    """Into how many parts the bounds of random inputs are divided, each of which has a value, by name."""
    some: tuple[str, ...] = ()
    """The random inputs of which each row has an element that is not 0."""
    sampled: bool = False
    """Whether the inputs are rows of `verify.samples`, not random."""
    rows: tuple[int, ...]
    """Numbers of rows with outputs in `reference.npz`, ascending. If rows are not independent,
    these are the compiled batch sizes only; without a batch axis it is 1, one evaluation."""
    lengths: tuple[int, ...] = ()
    """Lengths with outputs in `reference.npz`, in addition to the largest, ascending."""
    length_rows: tuple[int, ...] = ()
    """The numbers of rows for these, ascending."""
    extents: Mapping[str, tuple[tuple[int, int], ...]] = {}
    """If there are lengths: for every output, how each axis follows them; see `signature.Tensor`."""
    calls: int | None = None
    """For a model that keeps state: how many calls in a row were evaluated for each number of rows, from
    the first state on. The arrays of each are `in@CALL/NAME` and `out/ROWS@CALL/NAME`; `state/ROWS/NAME` is what
    the variables hold after the last."""
    boundary: tuple[str, ...] = ()
    """Kinds of boundary rows with inputs in `reference.npz`, in the order in which they were evaluated; those of a model
    that keeps state are calls in a row. Outputs that are not defined have no arrays."""
    boundary_rows: int = 1
    """The number of rows of each kind."""
    truth: Truth = Truth(missing="it was not evaluated in float64")
    """The errors of `evaluator` itself."""


class FrameworkTime(JsonRecord):
    """How long the framework takes for one call."""

    rows: int
    nanoseconds: float


class FrameworkTimes(JsonRecord):
    """How long the framework takes for calls on the machine that computed the reference."""

    framework: str
    """With its version and the number of its threads."""
    cpu: str
    """What the maker calls the CPU."""
    times: tuple[FrameworkTime, ...] = ()
    missing: str | None = None
    """Why some or all are missing, as a clause."""


STATEFUL_CALLS = 6
"""How many calls in a row show that a compiled model carries its state as TensorFlow does."""

MAX_CALLS = 64
"""How many calls in a row `verify.samples` may hold."""


def input_key(name: str, call: int | str | None = None) -> str:
    """The array of an input; random inputs of call `n` in a row have the seed plus n.

    Boundary rows have their kind in place of a call.
    """
    return f"in/{name}" if call is None else f"in@{call}/{name}"


def case_of(rows: int, call: int | str | None = None, length: int | None = None) -> str:
    """The text for CASE in the names of arrays; a case has a call, a kind or a length, or none of them."""
    if length is not None:
        return f"{rows}x{length}"
    return str(rows) if call is None else f"{rows}@{call}"


def state_key(name: str, rows: int) -> str:
    """The array of a variable after the last of the calls with a number of rows."""
    return f"state/{rows}/{name}"


def output_key(case: str, name: str) -> str:
    """The array of an output."""
    return f"out/{case}/{name}"


def exact_key(case: str, name: str) -> str:
    """The key of the array that is added to an output for its truth."""
    return f"exact/{case}/{name}"


def noise_key(case: str, name: str) -> str:
    """The error that rounding makes of an output, in a shape that NumPy makes that of the output."""
    return f"noise/{case}/{name}"


def default_rows(batch_sizes: Sequence[int]) -> tuple[int, ...]:
    """Every batch size, a number of rows between each two, and one above the largest.

    >>> default_rows([1, 4, 16])
    (1, 3, 4, 7, 16, 19)
    """
    sizes = sorted(batch_sizes)
    above = [min(size + 3, following - 1) for size, following in pairwise(sizes)]
    return tuple(sorted({*sizes, *above, sizes[-1] + 3}))
