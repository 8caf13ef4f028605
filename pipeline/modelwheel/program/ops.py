"""Operations: what the steps of a program compute, without the memory that they use.

Each class has attributes only, and declares the operands of its steps: `INPUTS` and `OUTPUTS`. What an operand is in memory
is a `View` of the step. So code that moves a step, prints it, or asks what it reads and writes needs no case for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from ..util.records import JsonRecord, omitted
from .expr import Expression


@dataclass(frozen=True)
class Role:
    """An operand of an operation."""

    name: str
    optional: bool = False
    many: bool = False
    """Whether a step has several, named `name0`, `name1`, ...; numbers may be missing if they are optional."""
    rank: int | None = None
    """The number of its axes, where the operation always needs the same one."""


@dataclass(frozen=True)
class Alias:
    """An output that is in the memory of an input."""

    output: str
    input: str
    must: bool = True
    """Otherwise it may be there, or in memory apart from it."""
    exact: bool = True
    """Whether each element is where that of the input is; otherwise the two may overlap in any way."""


class Op(JsonRecord):
    """An operation."""

    INPUTS: ClassVar[tuple[Role, ...]] = ()
    OUTPUTS: ClassVar[tuple[Role, ...]] = ()
    ALIASES: ClassVar[tuple[Alias, ...]] = ()
    """All other outputs are apart from all inputs."""
    REGIONS: ClassVar[tuple[str, ...]] = ()
    """What its sequences of steps are: `condition`, `body`; the last may be repeated (`branch`)."""
    ALTERNATIVES: ClassVar[bool] = False
    """Whether only one of its regions runs; otherwise all do."""
    DIVISIBLE: ClassVar[bool] = False
    """Whether the kernel can compute a part of it, so that threads may share it."""
    kind: str
    """What text and files call it; each operation has one."""

    @property
    def iterations(self) -> int:
        """How often its regions run: of a loop the trip count, or 1 if it is unknown."""
        return 1

    @property
    def symbols(self) -> tuple[str, ...]:
        """The functions of the object file that it calls."""
        return ()


# --- XLA's kernels ------------------------------------------------------------------------------------


class RowsApart(JsonRecord):
    """A number of equal chunks of all results, of which the first ones are computed from those of some arguments.

    So it is for each divisor of the number.
    """

    count: int
    arguments: tuple[int, ...]
    """The numbers of the arguments of which the first chunks are enough; others may be needed whole."""
    groups: int = omitted(1)
    """How often so many chunks follow each other in the results; the first ones of each group are meant."""
    argument_groups: tuple[int, ...] = omitted(())
    """And in each of these arguments; empty if there is one group in all of them."""


class Kernel(Op):
    """A call of one compiled function of the object file. XLA may have put a result where an argument is."""

    INPUTS = (Role("argument", many=True),)
    OUTPUTS = (Role("result", many=True),)
    ALIASES = (Alias("result", "argument", must=False, exact=False),)
    kind: Literal["kernel"] = "kernel"
    symbol: str
    workgroups: tuple[int, int, int] = omitted((1, 1, 1))
    apart: tuple[RowsApart, ...] = omitted(())
    """The ways to divide its results into rows that are computed by themselves; empty if none is known."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The kernel."""
        return (self.symbol,)


# --- products -----------------------------------------------------------------------------------------

Activation: TypeAlias = Literal[
    "tanh",
    "sigmoid",
    "silu",
    "gelu",
    "gelu_tanh",
    "hard_swish",
    "hard_swish_6",
    "elu",
    "leaky_relu",
]


class Epilogue(JsonRecord):
    """Arithmetic that follows a product of 32-bit floats, element by element.

    out = activation(min(max((product + bias) * scale + shift + addend, low), high)) * factor + offset, in this order; parts
    may be missing.
    The operands are those of the step: `bias`, `scale` and `shift` have a value for each column (of a dot those of `rhs`, of
    a convolution the features), `addend` one for each element. Factor and offset are numbers, or the operands `factors` and
    `offsets` with a value for each column. `slope` is that of the activations elu and leaky_relu below 0.
    """

    low: float | None = omitted(None)
    high: float | None = omitted(None)
    activation: Activation | None = omitted(None)
    slope: float | None = omitted(None)
    factor: float | None = omitted(None)
    offset: float | None = omitted(None)


_EPILOGUE = tuple(
    Role(name, optional=True) for name in ("bias", "scale", "shift", "addend", "factors", "offsets")
)
_PRODUCT = (Role("out"), Role("accumulator", optional=True))
"""`accumulator` is memory for the sums before the epilogue, which is left in any state; it may be that of `out`.

Only products with an epilogue have one; without it, sums are in `out`.
"""


def _over_factors(*names: str) -> tuple[Alias, ...]:
    """With memory for sums apart from both, a result may be written over what the product was computed from."""
    return tuple(Alias("out", name, must=False, exact=False) for name in names)


class Dot(Op):
    """A matrix product (XLA's DotGeneral): batch axes, contracted axes of each side; batch axes of `out` come first."""

    INPUTS = (Role("lhs"), Role("rhs"), *_EPILOGUE)
    OUTPUTS = _PRODUCT
    ALIASES = (
        Alias("out", "addend", must=False),
        Alias("accumulator", "addend", must=False),
        *_over_factors("lhs", "rhs"),
    )
    DIVISIBLE = True
    kind: Literal["dot"] = "dot"
    lhs_batch: tuple[int, ...] = omitted(())
    rhs_batch: tuple[int, ...] = omitted(())
    lhs_contracting: tuple[int, ...] = omitted(())
    rhs_contracting: tuple[int, ...] = omitted(())
    epilogue: Epilogue | None = omitted(None)


class Window(JsonRecord):
    """One spatial axis of a convolution; sizes in elements of that axis."""

    size: int
    stride: int
    pad_low: int
    pad_high: int
    kernel_dilation: int
    base_dilation: int
    reversed: bool


class Axes(JsonRecord):
    """The role of each axis of an array; the batch of a kernel is its input-feature axis."""

    batch: int
    feature: int
    spatial: tuple[int, ...]


class Convolution(Op):
    """A convolution with one to three spatial axes."""

    INPUTS = (Role("input"), Role("kernel"), *_EPILOGUE)
    OUTPUTS = _PRODUCT
    ALIASES = (Alias("out", "addend", must=False), *_over_factors("input", "kernel"))
    DIVISIBLE = True
    kind: Literal["convolution"] = "convolution"
    input_axes: Axes
    kernel_axes: Axes
    output_axes: Axes
    windows: tuple[Window, ...]
    feature_groups: int
    epilogue: Epilogue | None = omitted(None)
    padding: int = omitted(0)
    """The value of elements outside of the input; not 0 only of 8-bit integers."""


class Strips(Op):
    """Convolutions of each other's results, computed some rows at a time without the memory between them.

    Only the input of the first, the result of the last and the weights and epilogues of all are in memory: operands of layer
    1 are `kernel1`, `bias1`, ...
    """

    INPUTS = (
        Role("input"),
        Role("kernel", many=True),
        *(Role(role.name, optional=True, many=True) for role in _EPILOGUE),
    )
    OUTPUTS = _PRODUCT
    DIVISIBLE = True
    kind: Literal["strips"] = "strips"
    layers: tuple[Convolution, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the results of all layers but the last; they have the layout of the last."""


class ByteLayer(Op):
    """A product or convolution of 8-bit integers, and straight-line code on its sums; these are not in memory.

    The first input of the code is the sums, the others are the operands `read0`, `read1`, ...: rows and columns as the sums
    have them, the last axis being the columns. So is what is written.
    """

    INPUTS = (Role("input"), Role("kernel"), Role("read", many=True))
    OUTPUTS = (Role("write", rank=2),)
    DIVISIBLE = True
    kind: Literal["byte_layer"] = "byte_layer"
    layer: Dot | Convolution
    shape: tuple[int, ...]
    """Of the sums."""
    code: Expression


# --- reductions ---------------------------------------------------------------------------------------

Reducer: TypeAlias = Literal["maximum", "sum"]


class Pooling(Op):
    """The largest 32-bit float or 8-bit integer, or the sum of each window of images [batch, rows, columns, features]."""

    INPUTS = (Role("input", rank=4),)
    OUTPUTS = (Role("output", rank=4),)
    DIVISIBLE = True
    kind: Literal["pooling"] = "pooling"
    reducer: Reducer
    initial: float | None
    """What every window begins with; None is minus infinity, which JSON does not have."""
    window: tuple[int, int]
    stride: tuple[int, int]
    pad_low: tuple[int, int]
    padding: float | None = omitted(None)
    """What pixels outside of the input are, before they are multiplied; if it is None, they are left out. Of maxima only."""
    in_factor: float = omitted(1.0)
    """What every element is multiplied by before."""
    factor: float = omitted(1.0)
    """What the result is multiplied by."""


class VolumePooling(Op):
    """A pooling of volumes [batch, planes, rows, columns, features]."""

    INPUTS = (Role("input", rank=5),)
    OUTPUTS = (Role("output", rank=5),)
    DIVISIBLE = True
    kind: Literal["volume_pooling"] = "volume_pooling"
    plane: Pooling
    """How windows slide in a plane."""
    window: int
    stride: int
    pad_low: int


class RowReduction(Op):
    """The largest 32-bit float or the sum of each window of the rows of a matrix; windows follow each other.

    The output has a row for each row and a column for each window.
    """

    INPUTS = (Role("input", rank=2),)
    OUTPUTS = (Role("output", rank=2),)
    kind: Literal["row_reduction"] = "row_reduction"
    reducer: Reducer
    initial: float | None
    """What every window begins with; None is minus infinity, which JSON does not have."""
    window: int
    pad_low: int
    """How many elements before its row the first window begins."""


class Softmax(Op):
    """The softmax of each row of a matrix of 32-bit floats plus a bias: exp(x - largest) over the sum of these."""

    INPUTS = (Role("input", rank=2), Role("bias", rank=1, optional=True))
    OUTPUTS = (Role("output", rank=2),)
    ALIASES = (Alias("output", "input", must=False),)
    kind: Literal["softmax"] = "softmax"


# --- attention ----------------------------------------------------------------------------------------


class Mask(Op):
    """A value for each score of attention, computed once for all that have the same ones.

    The output is [heads, heads, queries, keys], 1 where all have the same; what is behind a row changes no score. A condition
    is -1 or 0 in 32 bits.
    """

    INPUTS = (Role("read", many=True),)
    OUTPUTS = (Role("output", rank=4),)
    kind: Literal["mask"] = "mask"
    code: Expression


class Attention(Op):
    """softmax(scores) value of each head, row by row: the scores are scale * query key^T, after a mask.

    Queries are [heads, heads, queries, depth], keys [.., keys, depth], values [.., keys, features], the output [.., queries,
    features], masks [.., queries, keys]. `added` is added to the scores; then `replacement` takes the place of those for which
    `kept`, of -1 and 0 in 32 bits, is false. Rows of masks may be read up to the next multiple of 16 keys.
    """

    INPUTS = (
        Role("query", rank=4),
        Role("key", rank=4),
        Role("value", rank=4),
        Role("added", optional=True, rank=4),
        Role("kept", optional=True, rank=4),
    )
    OUTPUTS = (Role("output", rank=4),)
    DIVISIBLE = True
    kind: Literal["attention"] = "attention"
    scale: float
    replacement: float | None = omitted(None)
    """None is minus infinity, which JSON does not have."""


# --- element by element -------------------------------------------------------------------------------


class Elementwise(Op):
    """Straight-line code for each element of a matrix [rows, columns] of 32-bit floats, all operands with that shape.

    Conditions that are read are one byte for each row.
    """

    INPUTS = (Role("read", many=True),)
    OUTPUTS = (Role("write", many=True),)
    ALIASES = (Alias("write", "read", must=False),)
    kind: Literal["elementwise"] = "elementwise"
    code: Expression


class Scaling(Op):
    """Images [batch, rows, features] of 32-bit floats multiplied by factors [batch, features]."""

    INPUTS = (Role("input", rank=3), Role("factors", rank=2))
    OUTPUTS = (Role("output", rank=3),)
    ALIASES = (Alias("output", "input", must=False),)
    DIVISIBLE = True
    kind: Literal["scaling"] = "scaling"


class Copy(Op):
    """A copy between views of one shape."""

    INPUTS = (Role("source"),)
    OUTPUTS = (Role("destination"),)
    kind: Literal["copy"] = "copy"


# --- tables -------------------------------------------------------------------------------------------


class Lookup(Op):
    """Rows of a table [rows, bytes], one for each index; indices are clamped to the table."""

    INPUTS = (Role("table", rank=2), Role("indices", rank=1))
    OUTPUTS = (Role("output"),)
    kind: Literal["lookup"] = "lookup"
    wrap: int
    """What is added to negative indices before they are clamped; 0 if nothing is."""


class EmbeddingBag(Op):
    """A pooling of rows that are looked up, without the memory between them; the name is PyTorch's."""

    INPUTS = (Role("table", rank=2), Role("indices", rank=1))
    OUTPUTS = (Role("output"),)
    kind: Literal["embedding_bag"] = "embedding_bag"
    lookup: Lookup
    pooling: Pooling
    """Its input would be [batch, rows, columns, features]: one row of features for each index."""
    in_size: tuple[int, int]
    """Rows and columns of that input."""


# --- control ------------------------------------------------------------------------------------------


class While(Op):
    """A loop: runs the body `trip_count` times, or as long as the condition writes true.

    XLA's runtime does not evaluate the condition of a loop with a known trip count: it is omitted.
    """

    INPUTS = (Role("condition", optional=True),)
    REGIONS = ("condition", "body")
    kind: Literal["while"] = "while"
    trip_count: int | None

    @property
    def iterations(self) -> int:
        """The trip count; 1 if it is unknown."""
        return 1 if self.trip_count is None else self.trip_count


class Conditional(Op):
    """A choice: by a one-byte predicate (true selects branch 0) or a 32-bit index (out of range: last)."""

    INPUTS = (Role("index"),)
    REGIONS = ("branch",)
    ALTERNATIVES = True
    kind: Literal["conditional"] = "conditional"


class Branches(Op):
    """Sequences that may run at the same time, or one after the other: none uses memory that another writes."""

    REGIONS = ("branch",)
    kind: Literal["branches"] = "branches"


# --- others -------------------------------------------------------------------------------------------


class Sort(Op):
    """A sort in place of one or several arrays along one axis by a compiled comparator.

    The runtime always sorts stably, so that XLA's `is_stable` does not matter.
    """

    INPUTS = (Role("operand", many=True),)
    OUTPUTS = (Role("operand", many=True),)
    ALIASES = (Alias("operand", "operand"),)
    kind: Literal["sort"] = "sort"
    comparator: str
    axis: int

    @property
    def symbols(self) -> tuple[str, ...]:
        """The comparator."""
        return (self.comparator,)


class TopK(Op):
    """The k largest 32-bit floats of each row [batch, size] with their indices, both [batch, k]."""

    INPUTS = (Role("values", rank=2),)
    OUTPUTS = (Role("output", rank=2), Role("indices", rank=2))
    kind: Literal["top_k"] = "top_k"


class Fft(Op):
    """A discrete Fourier transform over the last axes."""

    INPUTS = (Role("input"),)
    OUTPUTS = (Role("output"),)
    kind: Literal["fft"] = "fft"
    fft_type: Literal["fft", "ifft", "rfft", "irfft"]
    lengths: tuple[int, ...]


class RandomState(Op):
    """Reads the instance's 128-bit random state and advances it by `delta`."""

    OUTPUTS = (Role("state"),)
    kind: Literal["random_state"] = "random_state"
    delta: int


if TYPE_CHECKING:
    AnyOp: TypeAlias = Op
else:
    AnyOp = Annotated[reduce(or_, Op.__subclasses__()), Field(discriminator="kind")]
"""Every operation: all classes of this module. `codegen.calls.CALLS` has how each is called."""
