"""Finds what a StableHLO module demands of the values of its arguments: indices within the tables that they select from.

XLA clamps other indices, so that every index beyond a table shows the same row, and random numbers would hardly
show another. Only what `compiler/tensors/origins.py` follows in graphs is followed here; nothing is executed.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from ...model.inspection import SignatureInfo
from ..tensors.column_moves import loosen, take_part
from ..tensors.columns import Columns
from ..tensors.demands import Demands
from ..tensors.origins import Origins, bare, change, combine, lose, unite
from ..tensors.uses import Demand, Kinds, find_scales, find_uses, indexed, selected, spans
from ..tensors.valid import tables_of, valid_values
from ..tensors.values import Origin, Step, Tensor, in_turns
from .mlir_text import Block, Function, Op, TensorType, result_types, tensor_types
from .module_walk import MAIN, called_functions

_MAX_OPS = 200_000
_MAX_CALLS = 64
_MAX_CONSTANT = 4096
"""Characters of a constant whose numbers are read."""


@dataclass(frozen=True)
class _Value:
    """The known facts about a tensor."""

    origins: Origins = ()
    numbers: tuple[float, ...] = ()
    """What the elements are: one number for all, or those along one axis; empty if they are not known."""
    last: bool = True
    """Whether that axis is the last one."""
    constant: bool = False
    """Whether no input decides about it."""
    positions: bool = False
    """Whether it counts from 0 along an axis whose extent is not fixed."""
    parts: tuple[_Value, ...] = ()
    """Of a concatenation."""
    compared: Origins = ()
    """Of a truth value: what was compared with a constant."""

    @property
    def number(self) -> float | None:
        """The number that every element is, if that is known."""
        return self.numbers[0] if len(self.numbers) == 1 else None


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
_USES = {
    **_ARITHMETIC,
    "convert": "Cast",
    "log": "Log",
    "log_plus_one": "Log1p",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "power": "Pow",
    "shift_left": "LeftShift",
    "shift_right_arithmetic": "RightShift",
    "shift_right_logical": "RightShift",
}
"""As TensorFlow calls them."""
_COMPARISONS = {
    "EQ": "Equal",
    "NE": "NotEqual",
    "LT": "Less",
    "LE": "LessEqual",
    "GT": "Greater",
    "GE": "GreaterEqual",
}
_MAX_POSITIONS = 1 << 16


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
    tables = tables_of(feeds, demands)
    return signature.model_copy(update={"inputs": inputs, "tables": tables})


def module_demands(functions: Mapping[str, Function], count: int) -> Demands:
    """The demands of `main` on its last `count` arguments, which are called by their numbers."""
    walk = _Walk(functions)
    before = len(functions[MAIN].arguments) - count
    arguments = functions[MAIN].arguments[before:]
    feeds = [_Value((_origin(number, kind),)) for number, kind in enumerate(arguments)]
    walk.call(MAIN, (*[_Value(constant=True)] * before, *feeds), 0)
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
        self,
        block: Block,
        known: _Environment,
        function: str,
        depth: int,
        *,
        condition: bool = False,
    ) -> tuple[_Value, ...]:
        """The results of a block; `condition` is whether a loop goes on by it."""
        for op in block.ops:
            self._left -= 1
            if self._left < 0:  # what was found up to here is as true as before
                return ()
            inputs = [_read(known, *operand) for operand in op.operands]
            if op.name in ("func.return", "stablehlo.return"):
                return tuple(inputs)
            place = op.name, f"{function} %{op.results[0][0]}" if op.results else op.name
            values = self._results(op, inputs, known, function, depth)
            for origin, demand in _find(op, inputs, values, condition=condition):
                self.demands.setdefault((origin.feed, demand), place)
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
        for number, region in enumerate(op.regions):
            # Of a loop, the values before its first turn: most are the same in all.
            values = _entering(op, inputs) if op.name == "stablehlo.while" else ()
            bound: _Environment = {n: (v,) for n, v in zip(region.arguments, values, strict=False)}
            # Not a copy, which would be quadratic in a long function.
            outer = known.maps if isinstance(known, ChainMap) else [known]
            decides = op.name == "stablehlo.while" and not number
            inside = ChainMap(bound, *outer)
            self._block(region, inside, function, depth, condition=decides)
        return () if op.regions else (_evaluate(op, inputs),)


def _entering(loop: Op, inputs: Sequence[_Value]) -> Iterator[_Value]:
    """The values of the variables of a loop before its first turn."""
    turn = loop.regions[-1]
    results = turn.ops[-1].operands if turn.ops else []
    for number, value in enumerate(inputs):
        argument = turn.arguments[number : number + 1]
        kept = number < len(results) and [results[number][0]] == argument
        yield value if kept else replace(value, origins=in_turns(value.origins))


def _read(known: _Environment, name: str, index: int) -> _Value:
    values = known.get(name, ())
    return values[index] if index < len(values) else _UNKNOWN


# --- values ---------------------------------------------------------------------------------------


def _evaluate(op: Op, inputs: Sequence[_Value]) -> _Value:
    name = op.name.partition(".")[2]
    if name == "constant":
        return _constant(op)
    if name == "iota":
        return _iota(op)
    if name == "dynamic_iota":
        return _Value(constant=True, positions=True)
    if not inputs:
        return _UNKNOWN
    result = _follow(op, name, inputs)
    return replace(result, constant=all(value.constant for value in inputs))


def _follow(op: Op, name: str, inputs: Sequence[_Value]) -> _Value:
    if name == "convert":
        return inputs[0]
    if name in _MOVES:
        parts = inputs[0].parts if name == "reshape" else ()
        moved = replace(inputs[0], origins=_move(op, name, inputs), parts=parts)
        return _broadcast(op, moved) if name == "broadcast_in_dim" else moved
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
    return _Value(lose(unite(value.origins for value in inputs))) if _is_integer(op) else _UNKNOWN


def _iota(op: Op) -> _Value:
    axis, types = _number(op.text, "dim"), result_types(op)
    count = _extent(types, axis) or 0
    if count > _MAX_POSITIONS:
        return _Value(constant=True)
    last = bool(types) and axis == len(types[-1].shape) - 1
    return _Value(numbers=tuple(map(float, range(count))), last=last, constant=True)


def _broadcast(op: Op, value: _Value) -> _Value:
    axes, types = _list(op.text, "dims"), result_types(op)
    last = bool(types) and axes[-1:] == [len(types[-1].shape) - 1]
    return replace(value, last=value.last and last)


def _move(op: Op, name: str, inputs: Sequence[_Value]) -> Origins:
    types = _operand_types(op)
    shape = types[0].shape if types else ()
    width = shape[-1] if shape else None
    columns: tuple[int, int, bool] | None = None
    if name == "slice" and width is not None:
        last = re.search(r"(\d+):(\d+)(:\d+)?\]", op.text)
        columns = (int(last[1]), int(last[2]), last[3] is None) if last else None
    elif name.endswith("gather") and len(inputs) > 1 and inputs[1].number is not None:
        number, last_axis = int(inputs[1].number), [len(shape) - 1]
        lists = (_list(op.text, key) for key in ("start_index_map", "collapsed_slice_dims"))
        columns = (number, number + 1, False) if all(axes == last_axis for axes in lists) else None
    return tuple(take_part(origin, columns, width) for origin in inputs[0].origins)


def _tensor(value: _Value) -> Tensor:
    shape = (len(value.numbers),) if len(value.numbers) > 1 and value.last else ()
    return Tensor(
        shape,
        value.numbers or None,
        origins=value.origins,
        data=not value.constant,
        compared=value.compared,
        positions=value.positions,
    )


def _clamp(inputs: Sequence[_Value], *, integer: bool) -> _Value:
    low, value, high = inputs
    if integer:  # an index within its table: others than those within make no difference
        return _Value(value.origins)
    raised = combine("Maximum", _tensor(value), _tensor(low), integer=False)
    return _Value(combine("Minimum", _tensor(_Value(raised)), _tensor(high), integer=False))


def _select(condition: _Value, left: _Value, right: _Value) -> _Value:
    """Of `x < 0 ? x + size : x`, an index that may count from the end, only the second counts."""
    for value in (left, right):
        if value.origins and bare(value.origins) == bare(condition.compared):
            return _Value(value.origins)
    return _Value(unite((left.origins, right.origins)))


def _constant(op: Op) -> _Value:
    match = re.match(r"\s*dense<([^<>]*)> : ", op.text[:_MAX_CONSTANT])
    if match is None:
        return _Value(constant=True)
    try:
        numbers = [float(text) for text in re.split(r"[\[\],\s]+", match[1]) if text]
    except ValueError:
        return _Value(constant=True)
    types = result_types(op)
    shape = [extent for extent in (types[-1].shape if types else ()) if extent != 1]
    known = len(numbers) == 1 or len(shape) == 1
    last = bool(types) and len(numbers) > 1 and types[-1].shape[-1] == len(numbers)
    return _Value(numbers=tuple(numbers) if known else (), last=last, constant=True)


def _is_integer(op: Op) -> bool:
    types = result_types(op)
    return bool(types) and types[-1].element.lstrip("u").startswith("i")


# --- demands --------------------------------------------------------------------------------------


def _find(
    op: Op, inputs: Sequence[_Value], values: Sequence[_Value], *, condition: bool
) -> Iterator[tuple[Origin, Demand]]:
    name = op.name.partition(".")[2]
    if name in ("gather", "dynamic_gather") and len(inputs) > 1 and inputs[0].constant:
        yield from _find_table(op, inputs[1])
    if not any(value.origins for value in inputs):
        return
    if name in _TABLES and len(inputs) > 1:
        operand, of_axes, collapsed = _TABLES[name]
        yield from _find_indexed(op, inputs[operand], of_axes, collapsed)
    elif name in ("dynamic_slice", "dynamic_update_slice"):
        yield from _find_sliced(op, inputs[1 + (name != "dynamic_slice") :])
    elif name == "case" and inputs:
        yield from indexed(inputs[0].origins, len(op.regions), soft=True)
    elif name == "compare":
        direction = next(iter(re.findall(r"\b(LT|LE|GT|GE|EQ|NE)\b", op.text)), "")
        if direction:
            tensors = list(map(_tensor, inputs))
            yield from find_uses(_COMPARISONS[direction], tensors, _kinds(op), condition=condition)
    elif name == "clamp" and not _is_integer(op):
        numbers = [n for value in (inputs[0], *inputs[2:3]) for n in value.numbers]
        yield from spans(inputs[1].origins if len(inputs) > 1 else (), numbers)
    elif name in _USES:
        yield from find_uses(_USES[name], list(map(_tensor, inputs)), _kinds(op))
        if name in _ARITHMETIC and values:
            yield from find_scales(values[0].origins)


def _kinds(op: Op) -> Kinds:
    operands, results = _operand_types(op) or result_types(op), result_types(op)
    names = [_type_name(types[0].element) if types else "" for types in (operands, results)]
    return Kinds(*names)


def _type_name(element: str) -> str:
    """NumPy's name of an element type: `int32` for `i32`."""
    if element == "i1":
        return "bool"
    match = re.fullmatch(r"(u?i|s?i|f)(\d+)", element)
    if match is None:
        return element
    return {"i": "int", "si": "int", "ui": "uint", "f": "float"}[match[1]] + match[2]


def _find_table(op: Op, indices: _Value) -> Iterator[tuple[Origin, Demand]]:
    axes, single = _list(op.text, "start_index_map"), _list(op.text, "collapsed_slice_dims")
    table = _operand_types(op)[:1]
    if table and (table[0].shape, table[0].element) in _FUNCTIONS:
        return
    if len(axes) == 1 and axes == single:
        yield from selected(_tensor(indices), _extent(_operand_types(op)[:1], axes[0]))


_FUNCTIONS = [((256,), "i8"), ((256,), "ui8")]
"""Tables that are functions of a byte, as quantised models have them, not weights."""
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
            yield from indexed(part.origins, extent, soft=False)


def _find_sliced(op: Op, starts: Sequence[_Value]) -> Iterator[tuple[Origin, Demand]]:
    types = _operand_types(op)
    taken = result_types(op) if op.name.endswith("dynamic_slice") else types[1:2]
    for axis, start in enumerate(starts):
        extent, part = _extent(types[:1], axis), _extent(taken[-1:], axis)
        if extent is not None and part is not None and extent > part:
            yield from indexed(start.origins, extent - part + 1, soft=False)


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
