"""The values that the inputs of an ONNX graph can have: indices within the table that they select from, and others
that follow from how they are used, as `compiler/tensors/uses.py` says.

Bodies of loops and branches are followed once, with what enters them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from onnx import helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from ....model.inspection import SignatureInfo
from ...tensors.column_moves import loosen, take_part
from ...tensors.columns import Columns, hull
from ...tensors.demands import Demands
from ...tensors.origins import Origins, change, combine, follow_compared, lose, select, unite
from ...tensors.uses import (
    ARITHMETIC,
    Kinds,
    Use,
    bounded,
    find_scales,
    find_uses,
    indexed,
    selected,
    spans,
)
from ...tensors.valid import tables_of, valid_values
from ...tensors.values import MAX_POSITIONS, Origin, Step, Tensor, in_turns, is_short
from .operators.onnx_graph import subgraphs

_MAX_DEPTH = 16
_MOVES = frozenset(
    {
        *("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice"),
        *("Expand", "Tile", "Split", "Gather", "GatherElements", "GatherND", "Resize", "Upsample"),
        *(
            "ReduceMax",
            "ReduceMin",
            "MaxPool",
            "AveragePool",
            "Pad",
            "DepthToSpace",
            "SpaceToDepth",
        ),
        *("Dropout", "TopK"),
    }
)
"""Operations whose results hold values of their first input only, or some between."""
_KEEP = frozenset({"Identity", "Cast", "Dropout"})
_CHANGES: Mapping[str, Step] = {
    "Round": ("round", 0, 0),
    "Floor": ("floor", 0, 0),
    "Ceil": ("ceil", 0, 0),
    "Abs": ("abs", 0, 0),
    "Neg": ("scale", -1, 0),
    "Relu": ("at_least", 0, 0),
}
_NAMES = {
    **{op: op for op in ("Add", "Sub", "Mul", "Div", "Equal", "Less", "Greater", "Cast", "Pow")},
    **{op: op for op in ("Log", "Sqrt", "Asin", "Acos", "Atanh", "Acosh")},
    "Mod": "FloorMod",
    "Max": "Maximum",
    "Min": "Minimum",
    "LessOrEqual": "LessEqual",
    "GreaterOrEqual": "GreaterEqual",
    "Not": "LogicalNot",
    "Unsqueeze": "ExpandDims",
    **{op: op for op in ("Identity", "Reshape", "Squeeze", "Tile")},
    "Expand": "BroadcastTo",
}
"""What TensorFlow calls the same operations."""
_STEPS = frozenset({"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"})
_TRUTHS = frozenset(
    {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or"}
)
_NO_VALUES = frozenset(
    {*_TRUTHS, "ArgMax", "ArgMin", "Shape", "Size", "NonZero", "OneHot", "IsNaN"}
)
_FOLDED: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Sqrt": np.sqrt,
    "Neg": np.negative,
}


def with_valid_values(signature: SignatureInfo, graph: Any) -> SignatureInfo:
    """The signature with what is known about the values of its inputs, and the tables that they select from."""
    walk = _Walk()
    walk.graph(graph, {}, 0)
    names = {tensor.name: tensor.name for tensor in signature.inputs}
    inputs = tuple(
        tensor.model_copy(update={"valid": valid_values(tensor, tensor.name, walk.demands)})
        for tensor in signature.inputs
    )
    tables = tables_of(names, walk.demands)
    return signature.model_copy(update={"inputs": inputs, "tables": tables})


@dataclass(frozen=True)
class _Value:
    """The known facts about a tensor, with NumPy's name of its element type."""

    tensor: Tensor
    kind: str = ""


_UNKNOWN = _Value(Tensor(data=True))
_Known: TypeAlias = dict[str, _Value]


@dataclass
class _Walk:
    demands: Demands = field(default_factory=dict)

    def graph(self, graph: Any, outside: Mapping[str, _Value], depth: int) -> None:
        """Follows the nodes of a graph; `outside` is what it sees of the graphs around it."""
        known: _Known = {**outside}
        known |= {tensor.name: _constant(tensor) for tensor in graph.initializer}
        declared = {value.name: value for value in graph.value_info}
        if not depth:
            for value in graph.input:
                known.setdefault(value.name, _fed(value))
        for node in graph.node:
            inputs = [
                known.get(name, _UNKNOWN) if name else _Value(Tensor()) for name in node.input
            ]
            result = self._node(node, inputs)
            for number, name in enumerate(filter(None, node.output)):
                own = result if not number or node.op_type == "Split" else _UNKNOWN
                known[name] = _declare(own, declared.get(name))
            if depth < _MAX_DEPTH:
                for inner in subgraphs(node):
                    self.graph(inner, {**known, **_entering(node, inner, inputs)}, depth + 1)

    def _node(self, node: Any, inputs: Sequence[_Value]) -> _Value:
        with suppress(ValueError, IndexError, TypeError, KeyError):  # a damaged file
            result = _evaluate(node, inputs)
            place = node.op_type, node.name or next(iter(node.output), "")
            for origin, demand in _find(node, inputs, result):
                self.demands.setdefault((origin.feed, demand), place)
            return result
        return _UNKNOWN


def _entering(node: Any, inner: Any, inputs: Sequence[_Value]) -> _Known:
    """The values of the inputs of a loop's body before its first turn."""
    names = [value.name for value in inner.input]
    if node.op_type not in ("Loop", "Scan"):
        return {}
    values = list(inputs)
    if node.op_type == "Loop":
        values[:1] = [_Value(Tensor(data=bool(inputs and inputs[0].tensor.data)), "int64")]
    scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
    for number in range(len(values) - scanned):
        tensor = values[number].tensor
        values[number] = replace(
            values[number], tensor=replace(tensor, origins=in_turns(tensor.origins))
        )
    return dict(zip(names, values, strict=False))


def _fed(value: Any) -> _Value:
    kind = value.type.tensor_type
    shape = tuple(dim.dim_value or None for dim in kind.shape.dim)
    width = shape[-1] if shape else None
    columns = None if not width or width < 0 else Columns(0, width, width)
    return _Value(
        Tensor(shape, origins=(Origin(value.name, columns=columns),), data=True),
        _type_name(kind.elem_type),
    )


def _declare(value: _Value, info: Any) -> _Value:
    """With the shape and the type that the file says."""
    if info is None or not info.type.HasField("tensor_type"):
        return value
    kind = info.type.tensor_type
    shape = tuple(dim.dim_value or None for dim in kind.shape.dim)
    tensor = value.tensor if value.tensor.shape is not None else replace(value.tensor, shape=shape)
    return _Value(tensor, value.kind or _type_name(kind.elem_type))


def _type_name(kind: int) -> str:
    try:
        return str(helper.tensor_dtype_to_np_dtype(kind).name)
    except KeyError:
        return ""


def _constant(tensor: Any) -> _Value:
    shape, kind = tuple(tensor.dims), _type_name(tensor.data_type)
    known = Tensor(shape, dynamic=False)
    if not is_short(shape, integer="int" in kind) or not kind or uses_external_data(tensor):
        return _Value(known, kind)
    try:
        numbers = numpy_helper.to_array(tensor).ravel().tolist()
    except (TypeError, ValueError, OSError):  # in a file beside it, or damaged
        return _Value(known, kind)
    return _Value(Tensor(shape, tuple(numbers), dynamic=False), kind)


# --- values ---------------------------------------------------------------------------------------


def _evaluate(node: Any, inputs: Sequence[_Value]) -> _Value:
    op = node.op_type
    if op in ("Constant", "ConstantOfShape"):
        return _constants(node)
    tensors = [value.tensor for value in inputs]
    kind = _kind(node, inputs)
    if not any(tensor.data for tensor in tensors) or op in ("Shape", "Size"):
        return _Value(_fold(node, tensors), kind)
    shape = tensors[0].shape if op in _KEEP or op in _CHANGES or op in _STEPS else None
    origins = _carry(node, tensors, integer="int" in kind)
    compared = follow_compared(_NAMES.get(op, ""), tensors)
    return _Value(Tensor(shape, origins=origins, data=True, compared=compared), kind)


def _constants(node: Any) -> _Value:
    for attribute in node.attribute:
        if attribute.name == "value" and node.op_type == "Constant":
            return _constant(attribute.t)
        if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
            array = np.asarray(helper.get_attribute_value(attribute))
            kind = "int64" if "int" in attribute.name else "float32"
            return _Value(Tensor(array.shape, tuple(array.ravel().tolist()), dynamic=False), kind)
    return _Value(Tensor(dynamic=False))


def _kind(node: Any, inputs: Sequence[_Value]) -> str:
    op = node.op_type
    if op == "Cast":
        return _type_name(_attribute(node, "to", 0))
    if op in _TRUTHS:
        return "bool"
    if op in _NO_VALUES:
        return "int64"
    of = {"Where": 1, "DequantizeLinear": 1}.get(op, 0)
    return inputs[of].kind if of < len(inputs) else ""


def _fold(node: Any, tensors: Sequence[Tensor]) -> Tensor:
    """The values that do not depend on those of inputs."""
    op, first = node.op_type, tensors[0] if tensors else Tensor()
    values = [tensor.value for tensor in tensors]
    if op == "Range":
        return _range(tensors)
    if op in ("Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten") and values:
        kept = first.shape if op in ("Identity", "Cast") else _reshaped(node, tensors)
        return replace(first, shape=kept)
    if op in _FOLDED and None not in values and all(t.shape is not None for t in tensors):
        arrays = [_array(tensor) for tensor in tensors]
        with np.errstate(all="ignore"):
            result = np.asarray(_FOLDED[op](*arrays))
        return Tensor(result.shape, tuple(result.ravel().tolist()), dynamic=False)
    same = op in ("DequantizeLinear", *_FOLDED, "Div")
    return Tensor(first.shape if same else None, dynamic=False, positions=first.positions)


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    shape = [extent or 0 for extent in tensor.shape or ()]
    return np.asarray(tensor.value, np.float64).reshape(shape)


def _range(tensors: Sequence[Tensor]) -> Tensor:
    ends = [int(tensor.value[0] or 0) for tensor in tensors if tensor.value]
    if len(ends) < len(tensors) or len(range(*ends)) > MAX_POSITIONS:
        return Tensor(dynamic=False, positions=True)
    numbers = tuple(range(*ends))
    return Tensor((len(numbers),), numbers, dynamic=False)


def _reshaped(node: Any, tensors: Sequence[Tensor]) -> tuple[int | None, ...] | None:
    """The shape of known elements with other axes: only whether they are the last one is of use."""
    first = tensors[0]
    if first.value is None:
        return None
    axes = tensors[1].value if node.op_type == "Unsqueeze" and len(tensors) > 1 else None
    axes = axes or tuple(
        int(n) for a in node.attribute if a.name == "axes" for n in helper.get_attribute_value(a)
    )
    if node.op_type != "Unsqueeze" or first.shape is None or None in axes:
        return (len(first.value),)
    rank = len(first.shape) + len(axes)
    places = {int(axis or 0) % rank for axis in axes}
    rest = iter(first.shape)
    return tuple(1 if axis in places else next(rest) for axis in range(rank))


def _carry(node: Any, tensors: Sequence[Tensor], *, integer: bool) -> Origins:
    """The inputs whose values the first result of a node holds."""
    op, first = node.op_type, tensors[0]
    if op in _KEEP:
        return first.origins
    if op in _MOVES:
        part = _TAKES[op](node, tensors) if op in _TAKES else None
        return tuple(_take(origin, part) for origin in first.origins)
    if op == "Concat":
        return loosen(unite(tensor.origins for tensor in tensors))
    if op in _CHANGES:
        return change(first.origins, _CHANGES[op])
    if op == "Where" and len(tensors) == 3:
        return select(*tensors)
    if op == "Clip":
        return _clip(node, tensors, integer=integer)
    if op == "BatchNormalization" and len(tensors) >= 5:
        return _normalized(node, tensors)
    if op in _STEPS and len(tensors) == 2:
        return combine(_NAMES[op], *tensors, integer=integer)
    if integer and op not in _NO_VALUES:
        return lose(unite(tensor.origins for tensor in tensors))
    return ()


def _clip(node: Any, tensors: Sequence[Tensor], *, integer: bool) -> Origins:
    origins = tensors[0].origins
    for number, (name, op) in enumerate((("min", "Maximum"), ("max", "Minimum")), start=1):
        limit = tensors[number] if number < len(tensors) else Tensor()
        limits = [a.f for a in node.attribute if a.name == name]
        if limits:
            limit = Tensor((), tuple(limits))
        if limit.value is not None:
            origins = combine(op, Tensor(origins=origins), limit, integer=integer)
    return origins


def _normalized(node: Any, tensors: Sequence[Tensor]) -> Origins:
    """Features are the second axis, which is the last one of rows."""
    mean, variance = tensors[3], tensors[4]
    if mean.value is None or variance.value is None:
        return ()
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    deviation = tuple(float(np.sqrt(max(float(n or 0) + epsilon, 0))) for n in variance.value)
    moved = combine("Sub", tensors[0], mean, integer=False)
    return combine("Div", Tensor(origins=moved), Tensor(variance.shape, deviation), integer=False)


# --- columns --------------------------------------------------------------------------------------

_Part: TypeAlias = tuple[int, int, bool]
"""Where a part of the last axis begins and ends, and whether it is one still."""


def _take(origin: Origin, part: _Part | None) -> Origin:
    """A part of the last axis; negative positions count from its end."""
    columns = origin.columns
    if columns is None:
        return origin
    width = columns.end - columns.first
    if part is not None:
        first, end, kept = part
        end += width if end < 0 or (first < 0 and end == 0) else 0
        part = first + width if first < 0 else first, min(end, width), kept
    return take_part(origin, part, width)


def _numbers(tensor: Tensor) -> list[int] | None:
    if tensor.value is None:
        return None
    return [int(number) for number in tensor.value if number is not None]


def _gathered(node: Any, tensors: Sequence[Tensor]) -> _Part | None:
    """The columns that a Gather with constant indices takes."""
    axis, shape = _attribute(node, "axis", 0), tensors[0].shape
    indices = _numbers(tensors[1])
    if shape is None or axis not in (-1, len(shape) - 1) or indices is None:
        return None
    return (indices[0], indices[0] + 1, False) if len(indices) == 1 else hull(indices)


def _sliced(_: Any, tensors: Sequence[Tensor]) -> _Part | None:
    """The columns that a Slice along the last axis takes."""
    parts, shape = [_numbers(tensor) for tensor in tensors[1:4]], tensors[0].shape
    if len(tensors) != 4 or shape is None or None in parts:
        return None
    starts, ends, axes = (part or [] for part in parts)
    if not len(starts) == len(ends) == len(axes) == 1 or axes[0] not in (-1, len(shape) - 1):
        return None
    return starts[0], ends[0], True


_TAKES: Mapping[str, Callable[[Any, Sequence[Tensor]], _Part | None]] = {
    "Gather": _gathered,
    "Slice": _sliced,
}


def _attribute(node: Any, name: str, default: int) -> int:
    return next(
        (int(helper.get_attribute_value(a)) for a in node.attribute if a.name == name), default
    )


# --- demands --------------------------------------------------------------------------------------


def _find(node: Any, inputs: Sequence[_Value], result: _Value) -> Iterator[Use]:
    op, tensors = node.op_type, [value.tensor for value in inputs]
    if op in ("Gather", "GatherElements", "ScatterElements") and len(tensors) > 1:
        limit = _extent(tensors[0], _attribute(node, "axis", 0))
        if op == "Gather" and not tensors[0].data:
            yield from selected(tensors[1], limit)
        yield from indexed(tensors[1].origins, limit, soft=False)
    elif op == "OneHot" and len(tensors) > 1 and tensors[1].value:
        yield from indexed(tensors[0].origins, int(tensors[1].value[0] or 0), soft=False)
    elif op in ("GatherND", "ScatterND") and len(tensors) > 1:
        known = [extent for extent in (tensors[0].shape or ())[:1] if extent is not None]
        yield from indexed(tensors[1].origins, min(known, default=None), soft=False)
    elif op == "Loop" and tensors:
        yield from bounded(tensors[0].origins, 1, 4, "range")
    elif op == "Clip" and "int" not in result.kind:
        bounds = [a.f for a in node.attribute if a.name in ("min", "max")]
        bounds += [float(n or 0) for tensor in tensors[1:3] for n in tensor.value or ()]
        yield from spans(tensors[0].origins, bounds)
    elif op == "BitShift":
        yield from find_uses("RightShift", tensors, Kinds(inputs[0].kind, result.kind))
    elif op in _NAMES and inputs:
        kinds = Kinds(next((v.kind for v in inputs if v.kind), ""), result.kind)
        yield from find_uses(_NAMES[op], tensors, kinds)
    if _NAMES.get(op) in ARITHMETIC or op == "BatchNormalization":
        yield from find_scales(result.tensor.origins)


def _extent(tensor: Tensor, axis: int) -> int | None:
    """None if it follows from the shapes of inputs; 0 if there is no such axis."""
    shape = tensor.shape
    if shape is None:
        return None
    return shape[axis] if -len(shape) <= axis < len(shape) else 0
