"""Records of what XLA emits, on its way to steps: thunks (XLA's word for one operation of a compiled module) over slices of memory.

The passes that have not moved to the graph yet rewrite these; `lower` makes steps of them.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ....dtypes import ElementType
from ....program.arrays import Slice
from ....program.ops import Activation, Axes, Reducer, Window
from ....util.records import JsonRecord
from .elementwise import Operation, Plane
from .masks import MaskCode


class Array(JsonRecord):
    """A slice seen as a dense array."""

    slice: Slice
    element_type: ElementType
    shape: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    """Axes from the fastest varying to the slowest (XLA's layout)."""
    row_step: int | None = None
    """If the array is part of the rows of a larger one: how far apart its rows, the elements along the fastest axis, are."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance, in elements, between neighbours along each axis."""
        strides = [0] * len(self.shape)
        step = 1
        for number, axis in enumerate(self.minor_to_major):
            strides[axis] = step
            step *= self.shape[axis] if number or self.row_step is None else self.row_step
        return tuple(strides)


class _Step(JsonRecord):
    operations: int
    origin: str = ""
    """The operation of the model that it comes from, as XLA names it: `StatefulPartitionedCall/model/dense/MatMul`."""
    covers: tuple[str, ...] = ()
    """The names of the HLO instructions whose values it computes."""


class Kernel(_Step):
    """A call of one compiled function of the object file."""

    kind: Literal["kernel"] = "kernel"
    symbol: str
    workgroups: tuple[int, int, int]
    arguments: tuple[Slice, ...]
    results: tuple[Slice, ...]


class Epilogue(JsonRecord):
    """Arithmetic that follows a product of 32-bit floats, element by element.

    result = activation(min(max((product + bias) * scale + shift + addend, low), high)), in this order; parts may be missing.
    The result has the layout of the product's, whose own memory is left in any state; it may be the same. Columns (of a dot
    those of `rhs`, of a convolution the features) vary fastest.
    """

    result: Slice
    bias: Slice | None = None
    """A value for each column."""
    scale: Slice | None = None
    """A value for each column."""
    shift: Slice | None = None
    """A value for each column."""
    addend: Slice | None = None
    """An array with the layout of the result, which is the result's memory or apart from it."""
    low: float | None = None
    high: float | None = None
    activation: Activation | None = None

    @property
    def operands(self) -> tuple[Slice, ...]:
        """The slices that it reads."""
        return tuple(part for part in (self.bias, self.scale, self.shift, self.addend) if part)


class Dot(_Step):
    """A matrix product (XLA's DotGeneral): batch axes, one contracted axis for each side."""

    kind: Literal["dot"] = "dot"
    lhs: Array
    rhs: Array
    out: Array
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    epilogue: Epilogue | None = None

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Both operands and the result."""
        return self.lhs, self.rhs, self.out


class Convolution(_Step):
    """A convolution with one to three spatial axes."""

    kind: Literal["convolution"] = "convolution"
    input: Array
    kernel: Array
    output: Array
    input_axes: Axes
    kernel_axes: Axes
    output_axes: Axes
    windows: tuple[Window, ...]
    feature_groups: int
    epilogue: Epilogue | None = None

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Both operands and the result."""
        return self.input, self.kernel, self.output


Product: TypeAlias = Dot | Convolution


class Pooling(_Step):
    """The largest 32-bit float or the sum of each window of an image [batch, rows, columns, features]."""

    kind: Literal["pooling"] = "pooling"
    reducer: Reducer
    initial: float | None
    """The value that every window begins with; None is minus infinity, which JSON does not have."""
    input: Slice
    output: Slice
    batch: int
    features: int
    in_size: tuple[int, int]
    out_size: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    pad_low: tuple[int, int]
    padding: float | None = None
    """The value of pixels outside of the input, before they are multiplied; if it is None, they are left out. Of maxima only."""
    in_step: int | None = None
    """How far apart the pixels of the input are, in elements, if it is part of the rows of a larger array."""
    in_factor: float = 1.0
    """A factor of every element, before."""
    factor: float = 1.0
    """A factor of the result."""


class RowReduction(_Step):
    """The largest 32-bit float or the sum of each window of the rows of a matrix; windows follow each other."""

    kind: Literal["row_reduction"] = "row_reduction"
    reducer: Reducer
    initial: float | None
    """The value that every window begins with; None is minus infinity, which JSON does not have."""
    input: Slice
    output: Slice
    rows: int
    size: int
    """Elements of a row."""
    windows: int
    """Windows of a row."""
    window: int
    pad_low: int
    """How many elements before its row the first window begins."""


class Heads(JsonRecord):
    """Memory as a matrix of 32-bit floats for each head."""

    slice: Slice
    start: int
    """The element of the slice that comes first."""
    steps: tuple[int, int, int, int]
    """How far apart neighbours are, in elements: along both axes of heads, in rows and in columns."""


class Mask(_Step):
    """A value for each score of attention, computed once for all that have the same ones.

    Rows of keys follow each other, `step` elements apart; what is behind a row changes no score. A condition is -1 or 0 in 32 bits.
    """

    kind: Literal["mask"] = "mask"
    extents: tuple[int, int, int, int]
    """Both axes of heads, queries and keys: 1 where all have the same."""
    step: int
    code: MaskCode
    output: Slice


class Attention(_Step):
    """softmax(scores) value of each head, row by row: the scores are scale * query key^T, after a mask.

    `added` is added to them; then `replacement` takes the place of those for which `kept` is false.
    """

    kind: Literal["attention"] = "attention"
    heads: tuple[int, int]
    """Heads have two axes."""
    queries: int
    keys: int
    depth: int
    """Columns of queries and keys."""
    features: int
    """Columns of values and of the result."""
    scale: float
    query: Heads
    key: Heads
    value: Heads
    output: Heads
    added: Heads | None = None
    """Rows may be read up to the next multiple of 16 keys."""
    kept: Heads | None = None
    """Conditions, -1 and 0 in 32 bits, whose rows may be read as far."""
    replacement: float | None = None
    """None is minus infinity, which JSON does not have."""

    @property
    def masks(self) -> tuple[Heads, ...]:
        """The masks that it has."""
        return tuple(part for part in (self.added, self.kept) if part is not None)


class Elementwise(_Step):
    """Straight-line code for each element of a matrix of 32-bit floats.

    What is written is apart from what is read, or has the same place for each element.
    """

    kind: Literal["elementwise"] = "elementwise"
    rows: int
    columns: int
    reads: tuple[Plane, ...]
    masks: tuple[Plane, ...]
    """One byte for each row."""
    code: tuple[Operation, ...]
    writes: tuple[Plane, ...]
    stored: tuple[int, ...]
    """The number of the value that each of `writes` receives."""


class Lookup(_Step):
    """Rows of a table, one for each index; indices are clamped to the table."""

    kind: Literal["lookup"] = "lookup"
    table: Slice
    indices: Slice
    output: Slice
    count: int
    """Indices."""
    index_type: ElementType
    wrap: int
    """The number that is added to negative indices before they are clamped; 0 if nothing is."""
    rows: int
    """Rows of the table."""
    row_bytes: int


class Copy(_Step):
    """A copy between slices of the same layout."""

    kind: Literal["copy"] = "copy"
    source: Slice
    destination: Slice


class CopyRows(_Step):
    """A copy of a dense matrix of 32-bit floats into a part of the rows of a larger one."""

    kind: Literal["copy_rows"] = "copy_rows"
    source: Slice
    destination: Slice
    rows: int
    columns: int
    step: int
    """Elements of a row of the larger one."""


class While(_Step):
    """A loop: runs the body `trip_count` times, or as long as the condition writes true.

    XLA's runtime does not evaluate the condition of a loop with a known trip count: it is omitted.
    """

    kind: Literal["while"] = "while"
    trip_count: int | None
    condition: tuple[Thunk, ...]
    condition_value: Slice | None
    body: tuple[Thunk, ...]


class Conditional(_Step):
    """A choice: by a one-byte predicate (true selects branch 0) or a 32-bit index (out of range: last)."""

    kind: Literal["conditional"] = "conditional"
    index: Slice
    branches: tuple[tuple[Thunk, ...], ...]


class Sort(_Step):
    """A sort of one or several arrays along one axis by a compiled comparator.

    The runtime always sorts stably, so that XLA's `is_stable` does not matter.
    """

    kind: Literal["sort"] = "sort"
    comparator: str
    axis: int
    operands: tuple[Array, ...]


class TopK(_Step):
    """The k largest 32-bit floats of each row with their indices."""

    kind: Literal["top_k"] = "top_k"
    batch: int
    size: int
    k: int
    values: Slice
    output: Slice
    indices: Slice


class Fft(_Step):
    """A discrete Fourier transform over the last axes."""

    kind: Literal["fft"] = "fft"
    fft_type: Literal["fft", "ifft", "rfft", "irfft"]
    lengths: tuple[int, ...]
    input: Array
    output: Array


class RandomState(_Step):
    """Reads the instance's 128-bit random state and advances it by `delta`."""

    kind: Literal["random_state"] = "random_state"
    delta: int
    state: Slice


Thunk = Annotated[
    Kernel
    | Dot
    | Convolution
    | Pooling
    | RowReduction
    | Mask
    | Attention
    | Elementwise
    | Lookup
    | Copy
    | CopyRows
    | While
    | Conditional
    | Sort
    | TopK
    | Fft
    | RandomState,
    Field(discriminator="kind"),
]
