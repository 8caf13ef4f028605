"""What a StableHLO module demands of the values of its arguments: indices within the tables that they select from.

XLA clamps other indices, so that every index beyond a table shows the same row, and random numbers would hardly
show another. Only what `worker/origins.py` follows in graphs is followed here; nothing is executed.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from ...inspection import SignatureInfo
from ..column_moves import loosen, take_part
from ..columns import Columns
from ..demands import Demand, Demands, part_of, valid_values
from ..origins import Origins, change, combine, solve, unite
from ..values import Origin, Step, Tensor
from .mlir_text import Block, Function, Op, TensorType, result_types, tensor_types
from .module_walk import MAIN, called_functions

_MAX_OPS = 200_000
_MAX_CALLS = 64
_MAX_CONSTANT = 4096
"""Characters of a constant whose numbers are read."""


@dataclass(frozen=True)
class _Value:
    """What is known about a tensor."""

    origins: Origins = ()
    number: float | None = None
    """What every element is."""
    positions: int | None = None
    """It counts from 0 up to this, excluded, along one axis."""
    parts: tuple[_Value, ...] = ()
    """Of a concatenation."""
    compared: Origins = ()
    """Of a truth value: what was compared with a constant."""


_UNKNOWN = _Value()
_Environment = MutableMapping[str, tuple[_Value, ...]]
_MOVES = frozenset(
    {
        *("convert", "reshape", "dynamic_reshape", "broadcast_in_dim", "dynamic_broadcast_in_dim"),
        *("slice", "real_dynamic_slice", "dynamic_slice", "transpose", "reverse", "pad"),
        *("optimization_barrier", "gather", "dynamic_gather", "set_dimension_size"),
    }
)
"""Operations whose results hold values of their first operand only, apart from padding."""
_CHANGES: Mapping[str, Step] = {
    "floor": ("floor", 0, 0),
    "ceil": ("ceil", 0, 0),
    "round_nearest_even": ("round", 0, 0),
    "round_nearest_afz": ("round", 0, 0),
    "abs": ("abs", 0, 0),
    "negate": ("scale", -1, 0),
}
_ARITHMETIC = {
    "add": "AddV2",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "remainder": "FloorMod",
    "maximum": "Maximum",
    "minimum": "Minimum",
}
"""As TensorFlow calls them."""


def with_module_values(
    signature: SignatureInfo, functions: Mapping[str, Function], arguments: Sequence[str]
) -> SignatureInfo:
    """The signature with the valid values of its inputs; `arguments` are their names in the order of `main`."""
    demands = module_demands(functions, len(arguments))
    feeds = {name: str(number) for number, name in enumerate(arguments)}
    inputs = tuple(
        tensor.model_copy(
            update={"valid": valid_values(tensor, feeds.get(tensor.name, ""), demands)}
        )
        for tensor in signature.inputs
    )
    return signature.model_copy(update={"inputs": inputs})


def module_demands(functions: Mapping[str, Function], count: int) -> Demands:
    """What `main` demands of its last `count` arguments, which are called by their numbers."""
    walk = _Walk(functions)
    before = len(functions[MAIN].arguments) - count
    arguments = functions[MAIN].arguments[before:]
    feeds = [_Value((_origin(number, kind),)) for number, kind in enumerate(arguments)]
    walk.call(MAIN, (*[_UNKNOWN] * before, *feeds), 0)
    return walk.demands


def _origin(number: int, kind: TensorType | str) -> Origin:
    width = kind.shape[-1] if isinstance(kind, TensorType) and kind.shape else None
    return Origin(str(number), columns=None if width is None else Columns(0, width, width))


class _Walk:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.demands: Demands = {}
        self._functions = functions
        self._left = _MAX_OPS

    def call(self, name: str, arguments: Sequence[_Value], depth: int) -> tuple[_Value, ...]:
        function = self._functions[name]
        names = function.body.arguments
        known: _Environment = {n: (v,) for n, v in zip(names, arguments, strict=False)}
        return self._block(function.body, known, name, depth)

    def _block(
        self, block: Block, known: _Environment, function: str, depth: int
    ) -> tuple[_Value, ...]:
        """What a block returns."""
        for op in block.ops:
            self._left -= 1
            if self._left < 0:  # what was found up to here is as true as before
                return ()
            inputs = [_read(known, *operand) for operand in op.operands]
            if op.name in ("func.return", "stablehlo.return"):
                return tuple(inputs)
            place = op.name, f"{function} %{op.results[0][0]}" if op.results else op.name
            for origin, demand in _find(op, inputs):
                self.demands.setdefault((origin.feed, demand), place)
            values = self._results(op, inputs, known, function, depth)
            position = 0
            for name, count in op.results:
                known[name] = (values[position : position + count] + (_UNKNOWN,) * count)[:count]
                position += count
        return ()

    def _results(
        self, op: Op, inputs: Sequence[_Value], known: _Environment, function: str, depth: int
    ) -> tuple[_Value, ...]:
        called = called_functions(op, self._functions)
        if called:
            if op.name != "func.call" or depth == _MAX_CALLS:
                return ()
            return self.call(called[0], inputs, depth + 1)
        for region in op.regions:
            # Of a loop, the values before its first turn: most are the same in all.
            given = inputs if op.name == "stablehlo.while" else ()
            bound: _Environment = {n: (v,) for n, v in zip(region.arguments, given, strict=False)}
            # Not a copy, which would be quadratic in a long function.
            outer = known.maps if isinstance(known, ChainMap) else [known]
            self._block(region, ChainMap(bound, *outer), function, depth)
        return () if op.regions else (_evaluate(op, inputs),)


def _read(known: _Environment, name: str, index: int) -> _Value:
    values = known.get(name, ())
    return values[index] if index < len(values) else _UNKNOWN


# --- values ---------------------------------------------------------------------------------------


def _evaluate(op: Op, inputs: Sequence[_Value]) -> _Value:
    name = op.name.partition(".")[2]
    if name == "constant":
        return _constant(op)
    if name == "iota":
        return _Value(positions=_extent(result_types(op), _number(op.text, "dim")))
    if not inputs:
        return _UNKNOWN
    if name == "convert":
        return inputs[0]
    if name in _MOVES:
        parts = inputs[0].parts if name == "reshape" else ()
        return replace(inputs[0], origins=_move(op, name, inputs), parts=parts)
    if name == "concatenate":
        joined = unite(value.origins for value in inputs)
        return _Value(loosen(joined), parts=tuple(inputs))
    if name in _CHANGES:
        return _Value(change(inputs[0].origins, _CHANGES[name]))
    if name in _ARITHMETIC and len(inputs) == 2:
        return _Value(combine(_ARITHMETIC[name], *map(_tensor, inputs), integer=_is_integer(op)))
    if name == "clamp" and len(inputs) == 3:
        return _clamp(inputs, integer=_is_integer(op))
    if name == "compare" and len(inputs) == 2:
        return _Value(compared=inputs[0].origins or inputs[1].origins)
    if name == "select" and len(inputs) == 3:
        return _select(*inputs)
    return _UNKNOWN


def _move(op: Op, name: str, inputs: Sequence[_Value]) -> Origins:
    types = _operand_types(op)
    shape = types[0].shape if types else ()
    width = shape[-1] if shape else None
    found: tuple[int, int, bool] | None = None
    if name == "slice" and width is not None:
        last = re.search(r"(\d+):(\d+)(:\d+)?\]", op.text)
        found = (int(last[1]), int(last[2]), last[3] is None) if last else None
    elif name.endswith("gather") and len(inputs) > 1 and inputs[1].number is not None:
        number, last_axis = int(inputs[1].number), [len(shape) - 1]
        lists = (_list(op.text, key) for key in ("start_index_map", "collapsed_slice_dims"))
        found = (number, number + 1, False) if all(axes == last_axis for axes in lists) else None
    return tuple(take_part(origin, found, width) for origin in inputs[0].origins)


def _tensor(value: _Value) -> Tensor:
    numbers = None if value.number is None else (value.number,)
    return Tensor((), numbers, origins=value.origins)


def _clamp(inputs: Sequence[_Value], *, integer: bool) -> _Value:
    low, value, high = inputs
    if integer:  # an index within its table: others than those within make no difference
        return _Value(value.origins)
    raised = combine("Maximum", _tensor(value), _tensor(low), integer=False)
    return _Value(combine("Minimum", _tensor(_Value(raised)), _tensor(high), integer=False))


def _select(condition: _Value, one: _Value, other: _Value) -> _Value:
    """Of `x < 0 ? x + size : x`, an index that may count from the end, only the second counts."""
    for value in (one, other):
        if value.origins and value.origins == condition.compared:
            return _Value(value.origins)
    return _Value(unite((one.origins, other.origins)))


def _constant(op: Op) -> _Value:
    match = re.match(r"\s*dense<([^<>]*)> : ", op.text[:_MAX_CONSTANT])
    if match is None:
        return _UNKNOWN
    try:
        numbers = [float(text) for text in re.split(r"[\[\],\s]+", match[1]) if text]
    except ValueError:
        return _UNKNOWN
    counts = numbers == list(range(len(numbers))) and len(numbers) > 1
    return _Value(
        number=numbers[0] if len(numbers) == 1 else None,
        positions=len(numbers) if counts else None,
    )


def _is_integer(op: Op) -> bool:
    types = result_types(op)
    return bool(types) and types[-1].element.lstrip("u").startswith("i")


# --- demands --------------------------------------------------------------------------------------


def _find(op: Op, inputs: Sequence[_Value]) -> Iterator[tuple[Origin, Demand]]:
    name = op.name.partition(".")[2]
    if name in _TABLES and len(inputs) > 1:
        operand, of_axes, collapsed = _TABLES[name]
        yield from _find_indexed(op, inputs[operand], of_axes, collapsed)
    elif name in ("dynamic_slice", "dynamic_update_slice"):
        yield from _find_sliced(op, inputs[1 + (name != "dynamic_slice") :])
    elif name == "case" and inputs:
        yield from _bounded(inputs[0].origins, len(op.regions), "range")
    elif name == "compare" and re.search(r"\b(EQ|NE)\b", op.text):
        for one, other in (inputs, inputs[::-1]):
            if other.positions is not None:
                yield from _bounded(one.origins, other.positions, "range")


_TABLES = {
    "gather": (1, "start_index_map", "collapsed_slice_dims"),
    "dynamic_gather": (1, "start_index_map", "collapsed_slice_dims"),
    "scatter": (1, "scatter_dims_to_operand_dims", "inserted_window_dims"),
}
"""The operand with indices, and the lists that name the axes of the first operand that they are for."""


def _find_indexed(
    op: Op, indices: _Value, of_axes: str, collapsed: str
) -> Iterator[tuple[Origin, Demand]]:
    axes, single, types = _list(op.text, of_axes), _list(op.text, collapsed), _operand_types(op)
    # Components of an index, one for each axis; jax.numpy and torch-mlir concatenate them.
    parts = indices.parts if len(indices.parts) == len(axes) else (indices,) * (len(axes) == 1)
    for axis, part in zip(axes, parts, strict=False):
        extent = _extent(types[:1], axis)
        if extent is not None and axis in single:  # one element of the axis is taken
            yield from _bounded(part.origins, extent, "index")


def _find_sliced(op: Op, starts: Sequence[_Value]) -> Iterator[tuple[Origin, Demand]]:
    types = _operand_types(op)
    taken = result_types(op) if op.name.endswith("dynamic_slice") else types[1:2]
    for axis, start in enumerate(starts):
        extent, part = _extent(types[:1], axis), _extent(taken[-1:], axis)
        if extent is not None and part is not None and extent > part:
            yield from _bounded(start.origins, extent - part + 1, "index")


def _bounded(origins: Origins, limit: int, kind: str) -> Iterator[tuple[Origin, Demand]]:
    for origin in origins:
        bounds = solve(origin.steps, 0, limit) if limit > 0 else None
        if bounds is not None and bounds != (None, None):
            yield origin, Demand(kind, *bounds, part_of(origin))


def _operand_types(op: Op) -> list[TensorType]:
    return list(tensor_types(op.text.rpartition(" : (")[2].partition(" -> ")[0]))


def _extent(types: Sequence[TensorType], axis: int | None) -> int | None:
    shape = types[-1].shape if types else ()
    return shape[axis] if axis is not None and axis < len(shape) else None


def _number(text: str, name: str) -> int | None:
    match = re.search(rf"\b{name} = (\d+)", text)
    return int(match[1]) if match else None


def _list(text: str, name: str) -> list[int]:
    match = re.search(rf"\b{name} = \[([\d, ]*)\]", text)
    return [int(number) for number in match[1].split(",") if number.strip()] if match else []
