"""The contents of a model, found by reading it: signatures, operations, files.

A worker writes it as `inspection.json`; `modelwheel.model.check` needs no TensorFlow to check it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, TypeAlias

from ..util.records import JsonRecord
from .effects import Effect

INSPECTION = "inspection.json"

Shape: TypeAlias = tuple[int | None, ...]
"""Extents; None where the extent is free."""

Support: TypeAlias = Literal["compiled", "frozen", "unsupported", "unregistered"]
"""XLA compiles the operation; freezing removes it; XLA lacks it for these types; it comes from a
custom op library, so that TensorFlow does not know it either."""


OrderedBy: TypeAlias = Literal["model", "natural", "sorted"]
"""What orders inputs and outputs: a file of the model; their names, with numbers in them as numbers; or
their names as plain text, because the spec says so."""


class Mask(JsonRecord):
    """A value with a meaning of its own: the model compares its input with it."""

    value: float
    axes: int = 0
    """The last axes that hold it together to have that meaning; 0 for each element alone."""


class ColumnValues(JsonRecord):
    """Values of some columns of an input, which are positions along its last axis."""

    first: int
    end: int
    """Not reached."""
    low: float
    high: float
    """Not reached."""
    parts: int = 0
    """Into how many parts the bounds are divided, each of which should have a value."""
    soft: bool = False
    """Whether other values are valid too."""

    @property
    def place(self) -> str:
        """As in a spec: `3`, `4:6`."""
        return f"{self.first}:{self.end}" if self.end > self.first + 1 else f"{self.first}"

    def __str__(self) -> str:
        return f"{self.low:.15g} <= x[{self.place}] < {self.high:.15g}"


class ValidValues(JsonRecord):
    """The values of an input that its model can use, as far as they follow from the graph."""

    low: float | None = None
    """None for any."""
    high: float | None = None
    """Not reached."""
    masks: tuple[Mask, ...] = ()
    """In ascending order of their values."""
    columns: tuple[ColumnValues, ...] = ()
    """Those with bounds of their own, in ascending order; the bounds above hold for all others."""
    parts: int = 0
    """Into how many parts the bounds are divided, each of which should have a value: such as the rows of a table."""
    some: bool = False
    """Whether it is a mask, of which each row should have an element that is not 0."""
    soft: bool = False
    """Whether the bounds are only those between which values show most: all others are valid too."""
    wide: bool = False
    """Whether boundary rows go to the ends of the type in spite of the bounds."""
    op: str = ""
    """The operation that demands them."""
    layer: str = ""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """[low, high), or None for any."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def every_bounds(self) -> tuple[tuple[float, float], ...]:
        """The bounds beyond which the model fails, and those of columns."""
        whole = () if self.bounds is None or self.soft else (self.bounds,)
        return (*whole, *((c.low, c.high) for c in self.columns if not c.soft))

    def __str__(self) -> str:
        parts = []
        if self.bounds is not None:
            parts.append(f"{self.bounds[0]:.15g} <= x < {self.bounds[1]:.15g}")
        parts += map(str, self.columns)
        if self.masks:
            parts.append("mask " + ", ".join(f"{mask.value:.15g}" for mask in self.masks))
        return f"{', '.join(parts)} ({self.op} in {self.layer!r})"


class TensorInfo(JsonRecord):
    """One input or output of a signature."""

    name: str
    dtype: str
    """TensorFlow's name of the element type: `float32`, `string`, ..."""
    shape: Shape | None
    """None if even the rank is unknown."""
    encoding: Literal["dense", "sparse", "composite"] = "dense"
    symbols: tuple[str, ...] = ()
    """The names that the model gives to free extents, by axis: "" for all others; empty if it has no names."""
    valid: ValidValues | None = None
    """Of an input; None if it may be anything, or that does not follow from the graph."""
    real: str = ""
    """See `modelwheel.signature.Tensor`."""

    def symbol(self, axis: int) -> str:
        """The name of a free extent; "" if it has none."""
        return self.symbols[axis] if axis < len(self.symbols) else ""


class Table(JsonRecord):
    """Rows of weights of which a model selects some by an index."""

    rows: int
    input: str = ""
    """The input that decides which; empty if that does not follow from the graph."""
    columns: tuple[int, int] | None = None
    """The positions along its last axis that do; None for all."""
    steps: tuple[tuple[str, float, float], ...] = ()
    """What is done to its values before they are indices, see `modelwheel.model.coverage`."""
    op: str
    layer: str


class SignatureInfo(JsonRecord):
    """One function that the model offers, with inputs and outputs in the order of its interface."""

    key: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    ordered_by: OrderedBy = "natural"
    tables: tuple[Table, ...] = ()
    """What it reads by an index; the same table once for each place that does."""

    def with_valid_values(self, other: SignatureInfo) -> SignatureInfo:
        """A copy of the signature with the valid values that another one has for its inputs."""
        valid = {tensor.name: tensor.valid for tensor in other.inputs}
        inputs = tuple(
            tensor.model_copy(update={"valid": valid.get(tensor.name)}) for tensor in self.inputs
        )
        return self.model_copy(update={"inputs": inputs, "tables": other.tables})


class SignatureUse(JsonRecord):
    """How one signature uses an operation."""

    count: int
    layers: tuple[str, ...]
    """The first few names of layers."""


class OpUse(JsonRecord):
    """One kind of operation, over all functions of the model."""

    op: str
    dtypes: str = ""
    """The types that XLA does not accept, as `T=string`; empty if types do not matter."""
    support: Support
    effect: Effect = ""
    """What it does beside computing its results."""
    folded: bool = False
    """Whether TensorFlow may run it while it loads the model, in any function that holds it."""
    count: int
    functions: tuple[str, ...]
    """The first few functions that hold it; "" is the graph itself."""
    layers: tuple[str, ...]
    """The first few names of layers."""
    signatures: Mapping[str, SignatureUse]
    """The signatures whose outputs depend on its values."""
    beside: Mapping[str, SignatureUse] = {}
    """The signatures that run it although no output depends on its values."""
    loading: SignatureUse | None = None
    """How loading the model uses it, except to restore the variables."""
    unread: Mapping[str, SignatureUse] = {}
    """The signatures that use it to write variables that none of their outputs depends on, now or in a later call.

    Such writes are left out, and are neither in `signatures` nor in `beside`.
    """


class Training(JsonRecord):
    """The signs that a signature was exported in training mode."""

    draws: SignatureUse | None = None
    """Random numbers from the variable of a seed, which calls count on."""
    averages: SignatureUse | None = None
    """Writes to moving averages of a batch."""
    weights: SignatureUse | None = None
    """Writes to weights of layers, of what is computed from weights alone: a spectral normalization."""


class LargeTensor(JsonRecord):
    """A tensor that a model asks for."""

    node: str
    function: str
    """"" is the graph itself."""
    elements: int
    """At least so many: axes of unknown extent count as 1."""


class EndlessLoop(JsonRecord):
    """A loop whose number of turns does not depend on the inputs, and is large or not known."""

    node: str
    function: str
    turns: int | None
    """None if it was not found out."""


class NeededConstant(JsonRecord):
    """An argument of an operation that XLA must know when it compiles, but that inputs decide."""

    op: str
    argument: str
    """What it is: `the shape`."""
    layer: str
    certain: bool = True
    """Whether it depends on the inputs for sure."""


class Cost(JsonRecord):
    """The size of the graph that a signature runs, or that loading the model runs."""

    nodes: int
    """After inlining all calls; at most 10^18."""
    depth: int
    """Of calls of functions."""
    deepest: str = ""
    """The function at the end of the longest chain of calls."""
    largest: LargeTensor | None = None
    loops: tuple[EndlessLoop, ...] = ()
    """The first few."""
    constants: tuple[NeededConstant, ...] = ()
    """The first few."""


class FoundPorts(JsonRecord):
    """The likely inputs and outputs of a GraphDef, as `source` of a spec names them."""

    feeds: Mapping[str, str]
    fetches: Mapping[str, str]
    constants: Mapping[str, bool]
    """Switches between training and inference."""


class Inspection(JsonRecord):
    """The facts about a model before it is loaded."""

    version: Literal[4] = 4
    written_by: str
    """The version of TensorFlow that wrote the model."""
    tags: tuple[str, ...]
    signatures: tuple[SignatureInfo, ...]
    """Sorted by key."""
    ops: tuple[OpUse, ...]
    """Sorted by name."""
    assets: tuple[str, ...]
    """Names of files that belong to the model; loading may read them."""
    graph_bytes: int = 0
    """The size of `saved_model.pb`."""
    nodes: int = 0
    """In the file, over all functions."""
    functions: int = 0
    marked: Mapping[str, Mapping[str, int]] = {}
    """By signature: how many functions that it runs have a mark of each name, see `modelwheel.model.fusions.registry`."""
    composites: Mapping[str, Mapping[str, int]] = {}
    """By signature, if it has any: how many composites of StableHLO have each name."""
    training: Mapping[str, Training] = {}
    """By signature, if it was exported in training mode."""
    costs: Mapping[str, Cost] = {}
    """By signature."""
    loading: Cost | None = None
    """What loading the model asks for."""
    ports: FoundPorts | None = None
    """What `GraphDefReading.find` has found."""
    largest: LargeTensor | None = None
    """Among all constants and variables of the file: TensorFlow makes them when it loads it."""

    def replaceable(self, key: str) -> dict[str, int]:
        """How many functions and composites of a signature have each name that a fusion may be registered for."""
        counts = Counter(self.marked.get(key, {}))
        counts.update(self.composites.get(key, {}))
        return dict(counts)

    def signature(self, key: str) -> SignatureInfo | None:
        """The signature of that name, or None."""
        return next((s for s in self.signatures if s.key == key), None)
