"""The module that is being written, and the tensors in it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

import numpy as np

from ....program.op_names import nested_name
from . import mlir_types as types
from .axes import identity, in_memory
from .mlir_types import Array, DType

_WEIGHT = 1024
"""Constants of more elements are arguments: MLIR then neither parses nor prints them, and TensorFlow
shares them between batch sizes as it does all constants."""

Scalar: TypeAlias = "bool | int | float | complex | np.generic"

Region = tuple[str, ...]
"""Lines of a region, with its arguments in the first one."""


OPERATORS: dict[str, Callable[..., Value]] = {}
"""What Python's operators write; `elementwise` enters its functions, as this module is below it."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: the result of an operation, an argument, or known.

    Transposes are not written: a value remembers them in `order`, and operations that can do so
    compute on the axes as they are in memory. `Builder.operand` writes what is left.
    """

    builder: Builder = field(repr=False)
    dtype: DType
    shape: tuple[int, ...]
    name: str = ""
    """In the text of the module; empty for a known value."""
    known: Array | None = None
    order: tuple[int, ...] = ()
    """The axis in memory of each axis; empty where they are the same."""
    origin: Value | None = field(default=None, repr=False)
    """Its elements in an earlier shape, if they had to be put in another order for this one: `reshape` goes back to it."""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis in memory of each axis."""
        return self.order or tuple(range(self.rank))

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The extents in the order of memory."""
        return in_memory(self.shape, self.axes)

    def __add__(self, other: Value | Scalar) -> Value:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Scalar) -> Value:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Value | Scalar) -> Value:
        return OPERATORS["subtract"](self, other)

    def __rsub__(self, other: Scalar) -> Value:
        return OPERATORS["subtract"](other, self)

    def __mul__(self, other: Value | Scalar) -> Value:
        return OPERATORS["multiply"](self, other)

    def __rmul__(self, other: Scalar) -> Value:
        return OPERATORS["multiply"](other, self)

    def __truediv__(self, other: Value | Scalar) -> Value:
        return OPERATORS["divide"](self, other)

    def __rtruediv__(self, other: Scalar) -> Value:
        return OPERATORS["divide"](other, self)

    def __neg__(self) -> Value:
        return OPERATORS["negate"](self)

    def __and__(self, other: Value | Scalar) -> Value:
        return OPERATORS["and_"](self, other)

    def __or__(self, other: Value | Scalar) -> Value:
        return OPERATORS["or_"](self, other)

    def __invert__(self) -> Value:
        return OPERATORS["not_"](self)

    def __lt__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("LT", self, other)

    def __le__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("LE", self, other)

    def __gt__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("GT", self, other)

    def __ge__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("GE", self, other)


def as_array(value: Scalar, dtype: DType) -> Array:
    """A scalar of the type, wrapped around if it does not fit."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)


@dataclass(frozen=True)
class Module:
    """A module whose function `main` computes the results."""

    text: str
    arguments: tuple[str | Array, ...]
    """Names of inputs, and weights, in the order of `main`."""
    results: tuple[tuple[str, tuple[int, ...]], ...]
    """Type and shape of each result."""


class Builder:
    """Collects the operations of a module. Those are functions of the modules beside this one."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._lines: list[str] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._prologue: list[str] = []
        self._arguments: list[tuple[str, str, str | Array]] = []
        self._weights: dict[int, tuple[Array, str]] = {}
        self._contents: dict[tuple[str, bytes], str] = {}
        self._views: dict[tuple[int, tuple[int, ...]], tuple[Array, Array]] = {}
        self._transposed: dict[tuple[str, tuple[int, ...]], str] = {}
        self._location = ""
        self.operations = 0
        """How many have been written."""
        self.regions = 0
        """How many are around what is written: of loops and branches."""

    # --- values -----------------------------------------------------------------------------------

    def argument(self, name: str, dtype: DType, shape: Sequence[int]) -> Value:
        """An argument of `main` with the name of an input."""
        argument = f"%arg{len(self._arguments)}"
        self._arguments.append((argument, types.tensor(dtype, shape), name))
        return Value(self, dtype, tuple(shape), argument)

    def constant(self, values: object, dtype: DType | type | None = None) -> Value:
        """A known value, by default of the values' own type."""
        array = np.asarray(values, dtype)
        return Value(self, array.dtype, array.shape, known=array)

    def integers(self, values: Sequence[int]) -> Value:
        """A known vector of int64."""
        return self.constant(list(values), np.int64)

    def operand(self, value: Value) -> str:
        """The name of a value whose axes are in memory as its shape says."""
        if value.known is not None:
            return self._constant(value.known)
        if not value.order or identity(value.order):
            return value.name
        key = (value.name, value.order)
        if key not in self._transposed:
            stored = types.tensor(value.dtype, value.stored_shape)
            numbers = ", ".join(map(str, value.order))
            (name,) = self.write(
                "stablehlo.transpose",
                [(value.name, stored)],
                [types.tensor(value.dtype, value.shape)],
                f"permutation = array<i64: {numbers}>",
            )
            self._transposed[key] = name
        return self._transposed[key]

    def stored(self, value: Value, axes: tuple[int, ...]) -> str:
        """The name of a value whose axes are in memory in this order."""
        if value.known is not None:
            return self._constant(self._view(value.known, axes))
        if value.axes == axes:
            return value.name
        inverse = tuple(int(axis) for axis in np.argsort(axes))
        moved = tuple(value.axes[axis] for axis in inverse)
        shape = in_memory(value.shape, axes)
        return self.operand(Value(self, value.dtype, shape, value.name, order=moved))

    # --- operations -------------------------------------------------------------------------------

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Operations that are written meanwhile come from the operation of this name, inside that of a call of `at` around it."""
        before, self._location = self._location, nested_name(self._location, name)
        try:
            yield
        finally:
            self._location = before

    def emit(
        self,
        op: str,
        operands: Sequence[Value],
        dtype: DType,
        shape: Sequence[int],
        attributes: str = "",
        regions: Sequence[Region] = (),
    ) -> Value:
        """Writes an operation with one result. Operands are put in the order of their shapes."""
        (result,) = self.emit_all(op, operands, [(dtype, tuple(shape))], attributes, regions)
        return result

    def emit_all(
        self,
        op: str,
        operands: Sequence[Value],
        results: Sequence[tuple[DType, tuple[int, ...]]],
        attributes: str = "",
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """Writes an operation with any number of results."""
        typed = [(self.operand(v), types.tensor(v.dtype, v.shape)) for v in operands]
        made = [types.tensor(dtype, shape) for dtype, shape in results]
        names = self.write(op, typed, made, attributes, regions)
        return [
            Value(self, dtype, shape, name)
            for name, (dtype, shape) in zip(names, results, strict=True)
        ]

    def write(
        self,
        op: str,
        operands: Sequence[tuple[str, str]],
        results: Sequence[str],
        attributes: str = "",
        regions: Sequence[Region] = (),
    ) -> list[str]:
        """Writes an operation in MLIR's generic form, by names and types; returns the results' names."""
        name = self._fresh()
        count = f":{len(results)}" if len(results) > 1 else ""
        names, kinds = zip(*operands, strict=True) if operands else ((), ())
        left = f"{name}{count} = " if results else ""
        held = f" <{{{attributes}}}>" if attributes else ""
        signature = f"({', '.join(kinds)}) -> ({', '.join(results)})"
        head = f'{left}"{op}"({", ".join(names)}){held}'
        tail = f" : {signature}{self._place()}"
        if regions:
            self._lines.append(f"{head} ({{")
            for number, region in enumerate(regions):
                self._lines.extend([*(["}, {"] if number else []), *region])
            self._lines.append(f"}}){tail}")
        else:
            self._lines.append(head + tail)
        self.operations += 1
        if len(results) == 1:
            return [name]
        return [f"{name}#{number}" for number in range(len(results))]

    def region(
        self,
        arguments: Sequence[tuple[DType, tuple[int, ...]]],
        body: Callable[[list[Value]], Sequence[Value]],
    ) -> tuple[Region, list[Value]]:
        """The region that a function writes for its arguments, and what it returns."""
        outside, self._lines = self._lines, []
        self.regions += 1
        known, self._transposed = self._transposed, dict(self._transposed)
        try:
            values = [Value(self, dtype, shape, self._fresh()) for dtype, shape in arguments]
            results = list(body(values))
            operands = [(self.operand(v), types.tensor(v.dtype, v.shape)) for v in results]
            self.write("stablehlo.return", operands, [])
            named = ", ".join(f"{v.name}: {types.tensor(v.dtype, v.shape)}" for v in values)
            lines = (f"^bb0({named}):", *self._lines) if values else tuple(self._lines)
            return lines, results
        finally:
            self._lines, self._transposed = outside, known
            self.regions -= 1

    def module(self, results: Mapping[str, Value]) -> Module:
        """The text of the module that returns these values by name."""
        returned = [(self.operand(v), types.tensor(v.dtype, v.shape)) for v in results.values()]
        kinds = [kind for _, kind in returned]
        self.write("func.return", returned, [])
        arguments = ", ".join(f"{name}: {kind}" for name, kind, _ in self._arguments)
        text = "\n".join(
            [
                "module {",
                f"func.func public @main({arguments}) -> ({', '.join(kinds)}) {{",
                *self._prologue,
                *self._lines,
                "}",
                "}",
                "",
            ]
        )
        return Module(
            text,
            tuple(name for _, _, name in self._arguments),
            tuple((types.STORED.get(v.dtype, v.dtype).name, v.shape) for v in results.values()),
        )

    def _view(self, array: Array, axes: tuple[int, ...]) -> Array:
        """A known value in another order; the same one each time, so that it becomes one argument."""
        if identity(axes):
            return array
        key = (id(array), axes)
        if key not in self._views:
            moved = np.array(np.transpose(array, np.argsort(axes)), order="C")
            self._views[key] = (array, moved)
        return self._views[key][1]

    # --- text -------------------------------------------------------------------------------------

    def _fresh(self) -> str:
        return f"%{next(self._numbers)}"

    def _place(self) -> str:
        if not self._location:
            return ""
        escaped = "".join(
            c if c.isascii() and c.isprintable() and c not in '"\\' else f"\\{ord(c) & 0xFF:02X}"
            for c in self._location
        )
        return f' loc("{escaped}")'

    def _weight(self, array: Array, kind: str) -> str:
        """An argument: exporters that write a step of a loop after the other give each its own copy of what it reads."""
        key = (kind, sha256(np.ascontiguousarray(array).view(np.uint8).data).digest())
        if key not in self._contents:
            name = self._contents[key] = f"%arg{len(self._arguments)}"
            stored = array.astype(types.STORED.get(array.dtype, array.dtype), copy=False)
            self._arguments.append((name, kind, stored))
            self._weights[id(array)] = (array, name)  # kept, so that its id stays its own
        return self._contents[key]

    def _constant(self, array: Array) -> str:
        kind = types.tensor(array.dtype, array.shape)
        if array.size > _WEIGHT:
            known = self._weights.get(id(array))
            return self._weight(array, kind) if known is None else known[1]
        identity_ = (kind, array.shape, array.tobytes())
        if identity_ not in self._constants:
            name = self._constants[identity_] = self._fresh()
            self._prologue.append(
                f'{name} = "stablehlo.constant"() <{{value = {types.dense(array)} : {kind}}}> '
                f": () -> {kind}"
            )
        return self._constants[identity_]
