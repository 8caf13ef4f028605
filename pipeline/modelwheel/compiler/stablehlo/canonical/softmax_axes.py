"""A softmax along another axis than the last one becomes one along the last axis.

    %s = transpose %scores, dims = [0, 2, 3, 1]              heads are the last axis
    %m = reduce %s ... maximum across dimensions = [2]       %m = reduce %scores ... maximum across dimensions = [3]
    %e = exponential(subtract(%s, broadcast %m))     ->      %e = exponential(subtract(%scores, broadcast %m))
    %t = reduce %e ... add across dimensions = [2]           %t = reduce %e ... add across dimensions = [3]
    %y = divide(%e, broadcast %t)                            %y = transpose(divide(%e, broadcast %t), dims = [0, 2, 3, 1])

Models of graphs add an encoding with the heads last to scores, so that the compiler found no attention. Transposes before the
softmax are undone through the operations on each element that lead to it; that behind it is read by a product where it is. The
order of sums along the axis stays.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op, TensorType
from ..written_functions import number_of
from .dot_general import has_known_shapes, read_contraction
from .draft import Draft, Replacement, reshaped_axes

_REDUCTION = re.compile(r"applies stablehlo\.(\w+) across dimensions = \[(\d+)\]")
_ELEMENTWISE = frozenset(
    f"stablehlo.{n}" for n in ("add", "divide", "multiply", "select", "subtract")
)
_DEEPEST = 8


def put_softmax_last(
    graph: BlockGraph,
    op: Op,
    constants: Collection[str],  # noqa: ARG001 - it need not be of constants
) -> Replacement | None:
    """The last operation of a softmax along an axis that is not the last one."""
    if op.name != "stablehlo.divide" or not has_known_shapes(graph, op):
        return None
    powers, total = graph.operands(op)
    exponential = graph.own.get(powers)
    axis = _reduced_axis(graph, total, powers, "add", 0.0)
    if axis is None or exponential is None or exponential.name != "stablehlo.exponential":
        return None
    distance = graph.own.get(graph.operands(exponential)[0])
    if distance is None or distance.name != "stablehlo.subtract":
        return None
    scores, largest = graph.operands(distance)
    if _reduced_axis(graph, largest, scores, "maximum", -math.inf) != axis:
        return None
    kind = graph.types[scores]
    if not any(extent != 1 for extent in kind.shape[axis + 1 :]):
        return None
    order = _order(graph, op, axis)
    draft = Draft(graph, op)
    made = _softmax(draft, _moved(draft, graph, scores, order, 0))
    return draft.finish_transposed(made, [order.index(a) for a in range(len(order))])


def _reduced_axis(graph: BlockGraph, name: str, of: str, kind: str, start: float) -> int | None:
    """The axis along which a value repeats a reduction of another one, in the places of that; None if it is not that."""
    source = _source(graph, name)
    op = None if source is None else graph.own.get(source[0])
    match = _REDUCTION.search(op.text) if op is not None and op.name == "stablehlo.reduce" else None
    if source is None or op is None or match is None or match[1] != kind:
        return None
    operand, first = graph.operands(op)[:2]
    initial, axis = graph.ops.get(first), int(match[2])
    if operand != of or initial is None or number_of(initial, graph.ops) != start:
        return None
    extents = graph.types[of].shape
    expected = [
        None if a == axis or extents[a] == 1 else a - (a > axis) for a in range(len(extents))
    ]
    return axis if list(source[1]) == expected else None


def _source(graph: BlockGraph, name: str) -> tuple[str, tuple[int | None, ...]] | None:
    """The value that another one repeats, and the axis of that for each of its own; None for axes of one element and repeated ones."""
    shape = graph.types[name].shape
    axes: list[int | None] = [a if extent != 1 else None for a, extent in enumerate(shape)]
    while (op := graph.own.get(name)) is not None and op.name in (o.BROADCAST, o.RESHAPE):
        (operand,) = graph.operands(op)
        extents = graph.types[operand].shape
        if op.name == o.BROADCAST:
            to = o.dimensions(op.text) or []
            known = {axis: n for n, axis in enumerate(to) if extents[n] != 1}
        else:
            groups = reshaped_axes(extents, graph.types[name].shape)
            groups = [(before, after) for before, after in groups if before and after]
            if any(len(before) != 1 or len(after) != 1 for before, after in groups):
                return None
            known = {after[0]: before[0] for before, after in groups}
        axes = [None if axis is None else known.get(axis) for axis in axes]
        name = operand
    return name, tuple(axes)


def _order(graph: BlockGraph, op: Op, axis: int) -> list[int]:
    """The axes with that of the softmax last, and those of a batch first if a product reads it."""
    name = op.results[0][0]
    rest = [a for a in range(len(graph.types[name].shape)) if a != axis]
    for reader in graph.readers(name):
        product = read_contraction(graph, reader)
        if product is not None and product.operands.count(name) == 1:
            batch = product.batch[product.operands.index(name)]
            rest = [*batch, *(a for a in rest if a not in batch)]
            return [*(a for a in rest if a != axis), axis]
    return [*rest, axis]


def _softmax(draft: Draft, scores: str) -> str:
    kind = draft.type(scores)
    last = len(kind.shape) - 1
    largest = draft.reduced(
        scores, [last], "maximum", "0xFF800000" if kind.element == "f32" else "0xFFF0000000000000"
    )
    every = list(range(last))
    distance = draft.binary("subtract", scores, draft.broadcast(largest, every, kind.shape))
    powers = draft.unary("exponential", distance)
    total = draft.broadcast(draft.total(powers, [last]), every, kind.shape)
    return draft.binary("divide", powers, total)


def _moved(draft: Draft, graph: BlockGraph, name: str, order: Sequence[int], depth: int) -> str:
    """A value with its axes in another order, as far as possible without moving anything."""
    if list(order) == list(range(len(order))):
        return name
    op = graph.own.get(name)
    if op is None or depth > _DEEPEST:
        return draft.transpose(name, order)
    operands, kind = graph.operands(op), graph.types[name]
    made = TensorType(tuple(kind.shape[axis] for axis in order), kind.element)
    if op.name == o.TRANSPOSE and (before := o.dimensions(op.text)) is not None:
        return _moved(draft, graph, operands[0], [before[axis] for axis in order], depth + 1)
    if op.name == o.BROADCAST and (to := o.dimensions(op.text)) is not None:
        return draft.spread(operands[0], [list(order).index(axis) for axis in to], made.shape)
    alone = depth == 0 or len(graph.readers(name)) == 1
    same = all(graph.types[operand].shape == kind.shape for operand in operands)
    if op.name not in _ELEMENTWISE or not alone or not same:
        return draft.transpose(name, order)
    moved = [_moved(draft, graph, operand, order, depth + 1) for operand in operands]
    types = o.written(made)
    if op.name == "stablehlo.select":
        types = f"{o.written(draft.type(moved[0]))}, {types}"
    return draft.add(f"{op.name} {', '.join(f'%{operand}' for operand in moved)} : {types}", made)
