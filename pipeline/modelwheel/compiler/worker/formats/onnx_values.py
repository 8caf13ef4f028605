"""The values that the inputs of an ONNX graph can have: indices within the table that they select from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeAlias

from onnx import helper, numpy_helper

from ...inspection import ColumnValues, SignatureInfo, ValidValues
from ..columns import Columns, hull

_MOVES = frozenset(
    {
        *("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice"),
        *("Expand", "Tile", "Split"),
    }
)
"""Operations whose results hold values of their first input only."""


def with_valid_values(signature: SignatureInfo, graph: Any) -> SignatureInfo:
    """The signature with bounds for inputs whose values reach indices; branches and loops are not followed."""
    valid = _find(graph)
    inputs = tuple(
        tensor.model_copy(update={"valid": valid.get(tensor.name)}) for tensor in signature.inputs
    )
    return signature.model_copy(update={"inputs": inputs})


_Part: TypeAlias = tuple[int, int, bool]
"""Where a part of the last axis begins and ends, and whether it is one still."""


@dataclass(frozen=True)
class _Held:
    """Values of an input that a tensor holds."""

    name: str
    columns: Columns | None
    """None where columns are not known."""

    def take(self, found: _Part | None) -> _Held:
        """A part of the last axis; negative positions count from its end."""
        columns = self.columns
        if columns is None:
            return self
        width = columns.end - columns.first
        if found is not None:
            first, end, kept = found
            end += width if end < 0 or (first < 0 and end == 0) else 0
            found = first + width if first < 0 else first, min(end, width), kept
        return _Held(self.name, columns.take(found, width))


def _find(graph: Any) -> dict[str, ValidValues]:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    }
    inputs = [value for value in graph.input if value.name not in constants]
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in inputs}
    holds = {value.name: {_Held(value.name, _all_columns(value))} for value in inputs}
    found: dict[str, dict[tuple[int, int] | None, tuple[int, Any]]] = {}
    for node in graph.node:
        read = node.input if node.op_type == "Concat" else node.input[:1]
        held = set[_Held]().union(*(holds.get(name, set()) for name in read))
        if node.op_type in ("Identity", "Cast"):
            holds[node.output[0]] = held
        elif node.op_type in _MOVES or node.op_type == "Concat":
            holds |= {name: {h.take(None) for h in held} for name in node.output}
        if node.op_type in _TAKES and node.input[0] not in constants:
            part = _TAKES[node.op_type](
                node, constants, max((ranks[h.name] for h in held), default=0)
            )
            holds[node.output[0]] = {h.take(part) for h in held}
        position, limit = _limit(node, constants)
        if limit is None or limit < 1:
            continue
        for one in holds.get(node.input[position], ()):
            limits = found.setdefault(one.name, {})
            columns = None if one.columns is None else one.columns.part
            if columns not in limits or limit < limits[columns][0]:
                limits[columns] = limit, node
    return {name: _valid(limits) for name, limits in found.items()}


def _valid(limits: Mapping[tuple[int, int] | None, tuple[int, Any]]) -> ValidValues:
    """Bounds of an input from those of its columns, None standing for all."""
    whole, node = limits.get(None, (None, None))
    columns = []
    for first, end in pairwise(sorted({edge for part in limits for edge in part or ()})):
        here = [
            limit
            for part, limit in limits.items()
            if part is not None and part[0] <= first and end <= part[1]
        ]
        low = min((limit for limit, _ in here), default=None)
        if low is not None and (whole is None or low < whole):
            columns.append(ColumnValues(first=first, end=end, low=0, high=low))
    node = node if node is not None else min(limits.values(), key=itemgetter(0))[1]
    return ValidValues(
        low=None if whole is None else 0,
        high=whole,
        columns=tuple(columns),
        op=node.op_type,
        layer=node.name or node.output[0],
    )


def _all_columns(value: Any) -> Columns | None:
    dims = value.type.tensor_type.shape.dim
    width = dims[-1].dim_value if dims else 0
    return Columns(0, width, width) if width > 0 else None


def _gathered(node: Any, constants: Mapping[str, Any], rank: int) -> _Part | None:
    """The columns that a Gather with constant indices takes."""
    indices_known = len(node.input) == 2 and node.input[1] in constants
    if _attribute(node, "axis", 0) not in (-1, rank - 1) or not indices_known:
        return None
    indices = [int(n) for n in numpy_helper.to_array(constants[node.input[1]]).ravel()]
    return (indices[0], indices[0] + 1, False) if len(indices) == 1 else hull(indices)


def _sliced(node: Any, constants: Mapping[str, Any], rank: int) -> _Part | None:
    """The columns that a Slice along the last axis takes."""
    names = list(node.input[1:4])
    if len(node.input) != 4 or not all(name in constants for name in names):
        return None
    starts, ends, axes = (numpy_helper.to_array(constants[name]).ravel().tolist() for name in names)
    if not len(starts) == len(ends) == len(axes) == 1 or axes[0] not in (-1, rank - 1):
        return None
    return int(starts[0]), int(ends[0]), True


_TAKES: Mapping[str, Callable[[Any, Mapping[str, Any], int], _Part | None]] = {
    "Gather": _gathered,
    "Slice": _sliced,
}


def _attribute(node: Any, name: str, default: int) -> int:
    return next(
        (int(helper.get_attribute_value(a)) for a in node.attribute if a.name == name), default
    )


def _limit(node: Any, constants: Mapping[str, Any]) -> tuple[int, int | None]:
    """The input that holds indices, and how many values they may have; None if that is not known."""
    if node.op_type in ("Gather", "GatherElements") and node.input[0] in constants:
        shape = constants[node.input[0]].dims
        axis = _attribute(node, "axis", 0)
        return 1, shape[axis] if -len(shape) <= axis < len(shape) else None
    if node.op_type == "OneHot" and node.input[1] in constants:
        depth = numpy_helper.to_array(constants[node.input[1]])
        return 0, int(depth.ravel()[0]) if depth.size else None
    return 0, None
