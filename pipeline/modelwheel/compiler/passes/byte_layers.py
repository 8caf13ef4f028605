"""Lets products and convolutions of 8-bit integers compute what follows them, so that their sums are never in memory.

    %3 s32[4,8] = dot %0 s8[4,16], %1 s8[16,8]               %4 s8[4,8] = byte_layer %0, %1, read0=%2 f32[4,8]
    %4 = kernel %3, %2 {symbol=scaled_and_rounded}    =>         {code=(v1 = convert v0; v3 = multiply v1 v2; ..)}

XLA's kernels for that are compiled for each batch size and read four bytes for each one that they write. What is added to the
result in turn, and rounded again, becomes part of it too.

When: rows of the result are those of the sums, and its elements follow from those at the same place, from constants
for each column, and from numbers. Bits: the operations of the kernels in their order, but for fused multiply-adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...dtypes import ElementType
from ...program import ops
from ...program.expr import Expression
from ...program.view import View
from ..ir.erasing import erase_dead
from ..ir.graph import Graph, Node, Operand, Piece, Result
from ..ir.ordering import over_operands, places
from .match.byte_code import ByteCode
from .match.byte_sources import is_whole, read_through
from .recognise.kernel_calls import KernelCall

_SUMS = (ElementType.INT8, ElementType.INT8, ElementType.INT32)


_LONGEST = 64
"""Operations of a code: more would not stay in registers."""


@dataclass(frozen=True)
class _Form:
    """A node as a layer, which has no code if it is a product."""

    op: ops.ByteLayer
    input: Operand
    kernel: Operand
    reads: Sequence[Operand]
    result: Result


class FuseByteLayers:
    """See above."""

    name = "fuse-byte-layers"

    def run(self, graph: Graph) -> int:
        """Fuses; returns how many kernels."""
        erase_dead(graph)  # windows that products do not read any more: who reads a value counts
        total = sum(_fused(graph, node) for node in list(graph.walk()))
        for node in list(graph.walk()):
            read_through(graph, node)
        erase_dead(graph)
        return total


def _fused(graph: Graph, node: Node) -> bool:
    """Whether a node has become part of a layer; otherwise it is as it was."""
    inputs, outputs = dict(node.inputs), dict(node.outputs)
    was_moved = isinstance(node.op, ops.Kernel) and read_through(graph, node)
    if _fuse(graph, node):
        return True
    if was_moved and any(outputs[role] != result for role, result in node.outputs.items()):
        # XLA's kernel has its result over the copy.
        graph.update(node, inputs, outputs)
    return False


def _fuse(graph: Graph, kernel: Node) -> bool:
    """Makes a kernel part of the layer whose result it reads, if it may be."""
    call = KernelCall.of(graph, kernel)
    if call is None or kernel.region is None or call.instruction.name in graph.repeated:
        return False
    for argument in call.arguments:
        layer = argument.value.producer
        if layer is None or layer.region is not kernel.region:
            continue
        new = _joined(graph, layer, call)
        if new is None:
            continue
        out = [Piece.whole(call.result.value)]
        gone = (layer, kernel)
        at = next(places(graph, new, layer, kernel, out, gone), None)
        if at is not None and not over_operands(new, new.outputs["write"], gone):
            for value in list(layer.values):
                for user in set(value.users) - {kernel}:
                    graph.detach(user)  # a copy that nobody reads any more
            graph.replace(gone, new, at)
            return True
    return False


def _joined(graph: Graph, layer: Node, call: KernelCall) -> Node | None:
    """A layer with the work of a kernel; None if it cannot do that."""
    form = _form(layer)
    if form is None or not all(
        user is call.node or not any(value.users for value in user.values)
        for user in form.result.value.users
    ):
        return None
    if any(piece.value is form.result.value for piece, _ in graph.results):
        return None
    op = form.op
    columns = op.shape[-1]
    code = ByteCode(math.prod(op.shape) // columns, columns)
    number = code.sums()
    if op.code.operations:
        number = code.add(op.code, form.reads)
    code.known[form.result.value] = number
    result = code.result_of(call.instruction, call.arguments)
    finished = None if result is None else code.finished(result)
    element = call.instruction.shape.element_type
    if finished is None or element is None or not call.is_whole:
        return None
    reads, expression = finished
    if len(expression.operations) > _LONGEST:
        return None
    new = graph.merged(op.model_copy(update={"code": expression}), [layer, call.node])
    own = {f"read{n}": read for n, read in enumerate(reads)}
    new.inputs = {"input": form.input, "kernel": form.kernel, **own}
    written = View.dense(call.place, element, (code.rows, columns))
    new.outputs = {"write": replace(call.result, view=written, base=None, near=())}
    return new


def _form(node: Node) -> _Form | None:
    """A product of bytes, or such a layer; None of any other node."""
    if isinstance(node.op, ops.ByteLayer):
        reads = [operand for role, operand in node.inputs.items() if role.startswith("read")]
        result = node.outputs["write"]
        return _Form(node.op, node.inputs["input"], node.inputs["kernel"], reads, result)
    if not isinstance(node.op, ops.Dot | ops.Convolution) or "out" not in node.outputs:
        return None
    roles = ("lhs", "rhs") if isinstance(node.op, ops.Dot) else ("input", "kernel")
    source, kernel = (node.inputs[role] for role in roles)
    result = node.outputs["out"]
    views = [source.view, kernel.view, result.view]
    plain = (
        tuple(view.element_type for view in views) == _SUMS
        and all(view.is_row_major(ignoring_unit_axes=False) for view in views)
        and kernel.value.source == "constant"
        and result.base is None
        and not result.near
        and is_whole(Operand(result.value, result.view))
        and (isinstance(node.op, ops.Convolution) or _is_plain(node.op, source.view, kernel.view))
    )
    if not plain:
        return None
    empty = Expression(operations=(), results=())
    op = ops.ByteLayer(layer=node.op, shape=result.view.shape, code=empty)
    return _Form(op, source, kernel, [], result)


def _is_plain(op: ops.Dot, rows: View, weights: View) -> bool:
    """Whether rows are multiplied by a matrix."""
    return (
        not op.lhs_batch
        and len(weights.shape) == 2
        and op.rhs_contracting == (0,)
        and op.lhs_contracting == (len(rows.shape) - 1,)
    )
