"""Computes products of parts of an array for all iterations of a loop at once.

    %3 = while (undefined) {trip_count=5}              %3 f32[10,32] = dot %0 f32[10,16], %1 f32[16,32]
      body(%4):                                        %4 = while (undefined) {trip_count=5}
        %5 f32[2,32] = dot %0+128i f32[2,16],    =>      body(%5):
            %1 f32[16,32]                                  %6+128i into %5 = kernel %3+256i
        %6+128i into %4 = kernel %5                        yield %6
        yield %6

Such a product, of the input of a recurrent layer, then reads its weights once, and not in every iteration.

When: the parts of all iterations are all of the array, or a part of it without gaps, and all else that the product reads is
from before the loop; an epilogue has values for each column only. Results take up to `_MOST_BYTES`. Bits: each row is the
same sum, in the order of a product of more rows.
"""

from __future__ import annotations

from ...dtypes import ElementType
from ...program.aliases import has_all_bytes
from ...program.arrays import Slice
from ...program.ops import Dot, While
from ...program.view import View, dense_strides
from ..ir.graph import INSIDE, Graph, Node, Operand, Result, Value
from ..ir.loops.loop_bodies import body_of, is_inside, may_be_elsewhere

_MOST_BYTES = 384 << 10
"""Of the results of a product in all iterations. Larger ones leave the cache before they are read, and take memory. Those of
16 rows are worth it for calls with fewer, which read the weights once, too."""

_FLOATS = (ElementType.FLOAT32, ElementType.FLOAT64)


class HoistProducts:
    """See above."""

    name = "hoist-products"

    def run(self, graph: Graph) -> int:
        """Moves products; returns how many."""
        moved = 0
        for loop in [node for node in graph.walk() if isinstance(node.op, While)]:
            moved += sum(_moved_out(graph, loop, node) for node in list(body_of(loop)))
        return moved


def _moved_out(graph: Graph, loop: Node, node: Node) -> bool:
    """Puts the product of all iterations before the loop, if a node is that of one."""
    operands = _operands(loop, node)
    if operands is None:
        return False
    result = node.outputs["out"]
    trips = node.inputs["lhs"].view.slice.iterations
    whole = Value(result.value.size * trips)
    place = Operand(whole, View.of_bytes(_part_of_iteration(node)))
    if whole.size > _MOST_BYTES or not may_be_elsewhere(loop, result.value, place):
        return False
    graph.replace_uses(result.value, whole, place.view.slice)
    assert isinstance(node.op, Dot)
    product = graph.merged(node.op.model_copy(update={"lhs_contracting": (1,)}), [node])
    product.operations *= trips
    product.inputs = operands
    rows = _rows(result.view, trips, Slice(allocation=INSIDE, offset=0, size=whole.size))
    product.outputs = {role: Result(whole, rows) for role in node.outputs}
    graph.replace([node], product)
    graph.hoist(product)
    return True


def _operands(loop: Node, node: Node) -> dict[str, Operand] | None:
    """The operands of the product of all iterations; None if a node is of another kind."""
    if not isinstance(node.op, Dot) or not _is_plain(node, node.op):
        return None
    lhs, result = node.inputs["lhs"], node.outputs["out"]
    window = lhs.view.slice
    others = {role: operand for role, operand in node.inputs.items() if role != "lhs"}
    if abs(window.step) != window.size or is_inside(lhs.value, loop):
        return None
    if any(
        is_inside(operand.value, loop) or operand.view.slice.step for operand in others.values()
    ):
        return None
    addend = others.pop("addend", None)
    if addend is not None:
        # That of one row has a value for each column, too.
        columns = result.view.shape[-1]
        if result.view.elements != columns or "shift" in others:
            return None
        view = addend.view.model_copy(update={"shape": (columns,), "strides": (1,)})
        others["shift"] = Operand(addend.value, view)
    rows = _rows(lhs.view, window.iterations, window.whole)
    return {"lhs": Operand(lhs.value, rows), **others}


def _is_plain(node: Node, dot: Dot) -> bool:
    """Whether a product is one of rows that follow each other by a matrix, without gaps, with a value of its own."""
    lhs, rhs = node.inputs["lhs"].view, node.inputs["rhs"].view
    result = node.outputs["out"]
    rank = len(lhs.shape)
    sums = [result.value for role, result in node.outputs.items() if role != "out"]
    return (
        all(view.element_type in _FLOATS for view in (lhs, rhs, result.view))
        and not dot.lhs_batch
        and rank in (1, 2)
        and dot.lhs_contracting == (rank - 1,)
        and len(rhs.shape) == 2
        and rhs.strides == dense_strides(rhs.shape, rhs.order)
        and len(result.view.shape) == rank
        and all(view.is_row_major() and has_all_bytes(view) for view in (lhs, result.view))
        and result.view.slice.size == result.value.size
        and result.base is None
        and not any(value is not result.value and value.users for value in sums)
    )


def _part_of_iteration(node: Node) -> Slice:
    """Where the result of an iteration is among those of all, which have the order of the array."""
    window, size = node.inputs["lhs"].view.slice, node.outputs["out"].value.size
    # Iterations may read the array from its end.
    return Slice(
        allocation=INSIDE,
        offset=0 if window.step > 0 else size * (window.iterations - 1),
        size=size,
        step=size if window.step > 0 else -size,
        iterations=window.iterations,
    )


def _rows(view: View, trips: int, where: Slice) -> View:
    """The rows of an array in all iterations."""
    columns = view.shape[-1]
    return View.dense(where, view.element_type, (view.elements // columns * trips, columns))
