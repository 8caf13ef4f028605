"""Decodes kernels that only put elements into another order, as from the channels first to the channels last.

    %2 = kernel %0 {symbol=fusion}    =>    %2 f32[1,4,5,3] = copy %0 f32[1,4,5,3]{60,5,1,20}

    fusion:  turned = f32[1,4,5,3]{1,3,2,0} transpose(x), dimensions={0,2,3,1}
             ROOT image = f32[1,4,5,3] copy(turned)

XLA's kernels move one element at a time; the runtime's move squares.

When: neighbours in the result are no neighbours before. XLA has vectors for all others. Bits: the same.
"""

from __future__ import annotations

from ...dtypes import ElementType
from ...program.moves import MAX_LOOPS, loops_of
from ...program.ops import Copy
from ...program.view import View
from ..ir.graph import Graph, Node, Operand
from ..ir.match import view_of
from ..ir.views import Source, source_of, strides_of
from .recognise.kernel_calls import KernelCall

_FLOAT = ElementType.FLOAT32


class DecodeMoves:
    """See above."""

    name = "decode-moves"

    def run(self, graph: Graph) -> int:
        """Replaces kernels; returns how many."""
        moves = [(node, _move(graph, node)) for node in list(graph.walk())]
        for node, move in moves:
            if move is not None:
                graph.replace([node], move)
        return sum(move is not None for _, move in moves)


def _move(graph: Graph, node: Node) -> Node | None:
    """The node that does the same as a kernel; None if it does anything else, or XLA's is as quick."""
    call = KernelCall.of(graph, node)
    if call is None or len(call.arguments) != 1 or not call.is_apart:
        return None
    source = source_of(call.instruction)
    if source.fusion is not None or source.kernel is not call.instruction:
        return None
    new = copy_of(call, source, call.arguments[0])
    if new is None:
        return None
    loops = loops_of(new.inputs["source"].view, new.outputs["destination"].view)
    return new if loops and loops[-1].source != 1 else None


def copy_of(call: KernelCall, source: Source, moved: Operand) -> Node | None:
    """The node that moves what a kernel does, and computes nothing; None if that is no copy of 32-bit floats.

    Args:
        call: The kernel.
        source: What the kernel moves, and how.
        moved: Where that is in memory.
    """
    shape, strides, before = call.instruction.shape, strides_of(source), source.node.shape
    is_whole = moved.view.slice.size == before.elements * _FLOAT.item_bytes
    if strides is None or not is_whole or {shape.element_type, before.element_type} != {_FLOAT}:
        return None
    view = View(
        slice=moved.view.slice,
        element_type=_FLOAT,
        shape=shape.dimensions,
        strides=strides.steps,
        start=strides.start,
    )
    if view.is_row_major():
        own = {"offset": view.slice.offset + view.start * _FLOAT.item_bytes}
        own["size"] = view.elements * _FLOAT.item_bytes
        view = View.dense(view.slice.model_copy(update=own), _FLOAT, view.shape)
    target = view_of(shape, call.place)
    if len(loops_of(view, target)) > MAX_LOOPS:
        return None
    return call.replaced(Copy(), {"source": Operand(moved.value, view)}, target)
