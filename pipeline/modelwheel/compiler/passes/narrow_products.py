"""Lets products of 8-bit integers read bytes, which XLA multiplies as 32-bit integers.

    %2 = kernel %0 {symbol=reduce_window}       each window has one element of %0, and a hole
    %3 = kernel %2 {symbol=convert}
    %4 = kernel %1 {symbol=convert}                   =>    %5 s32[4,96] = dot %0 s8[4,48], %1 s8[48,96]
    %5 s32[4,96] = dot %3 s32[4,48], %4 s32[48,96]

The canonical form of modules has such windows, which keep conversions out of the kernels before them
(`compiler/stablehlo/canonical/kept_bytes.py`). Of a single row, XLA's kernel of the product converts both factors itself.

When: one factor is constant, as the kernels of the runtime have it packed. Bits: the same, sums of integers have no order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...program import ops
from ...program.view import View
from ..ir.graph import Graph, Node, Operand
from ..ir.hlo import DotNumbers, Instruction
from ..ir.match import behind_bitcasts, same_layout, view_of
from ..ir.product_ops import dot_op
from .match.byte_sources import BYTE, WIDE, Bytes, is_whole
from .recognise.byte_convolutions import byte_convolution, byte_depthwise
from .recognise.kernel_calls import KernelCall


class NarrowProducts:
    """See above."""

    name = "narrow-products"

    def run(self, graph: Graph) -> int:
        """Replaces products; returns how many."""
        narrowed = 0
        for node in list(graph.walk()):
            new = (
                _narrowed(graph, node)
                or byte_convolution(graph, node)
                or byte_depthwise(graph, node)
            )
            if new is not None:
                graph.replace([node], new)
                narrowed += 1
        return narrowed


def _narrowed(graph: Graph, node: Node) -> Node | None:
    """The product of bytes that a node is; None if it is anything else."""
    product = _step(node) if isinstance(node.op, ops.Dot) else _kernel(graph, node)
    if product is None or product.op.lhs_batch:
        return None
    read = [Bytes(graph, node).behind(operand) for operand in (product.lhs, product.rhs)]
    lhs, rhs = read
    if lhs is None or rhs is None or rhs.value.source != "constant" or not is_whole(rhs):
        return None
    new = graph.merged(product.op, [node])
    new.inputs = {"lhs": lhs, "rhs": rhs}
    (result,) = node.outputs.values()
    base = None if product.is_whole else result.base
    new.outputs = {"out": type(result)(result.value, product.out, base)}
    return new


@dataclass(frozen=True)
class _Product:
    """A product of 32-bit integers, or of bytes that its kernel converts."""

    op: ops.Dot
    lhs: Operand
    rhs: Operand
    out: View
    is_whole: bool


def _step(node: Node) -> _Product | None:
    """XLA's product of 32-bit integers."""
    assert isinstance(node.op, ops.Dot)
    lhs, rhs, out = node.inputs["lhs"], node.inputs["rhs"], node.outputs["out"]
    types = {lhs.view.element_type, rhs.view.element_type, out.view.element_type}
    return _Product(node.op, lhs, rhs, out.view, is_whole=False) if types == {WIDE} else None


def _kernel(graph: Graph, node: Node) -> _Product | None:
    """The product of a vector, for which XLA has a kernel."""
    call = KernelCall.of(graph, node)
    if call is None or not call.is_apart:
        return None
    is_fused = call.instruction.opcode == "fusion"
    dot = behind_bitcasts(call.instruction.called_root) if is_fused else call.instruction
    if dot.opcode != "dot" or dot.dot is None or dot.shape.element_type != WIDE:
        return None
    operands = [
        _argument(call, operand, number, is_fused=is_fused)
        for number, operand in enumerate(dot.operands)
    ]
    lhs, rhs = operands
    if lhs is None or rhs is None:
        return None
    axes, out = dot.dot, view_of(dot.shape, call.place)
    if lhs.value.source == "constant" and _is_vector(dot.operands[1], axes.rhs_contracting):
        swapped = DotNumbers(
            axes.rhs_batch, axes.rhs_contracting, axes.lhs_batch, axes.lhs_contracting
        )
        # Without the axes of one element, both products have one order of results.
        lhs, rhs, axes = rhs, lhs, swapped
        out = View.dense(
            call.place, WIDE, _free(lhs, axes.lhs_contracting) + _free(rhs, axes.rhs_contracting)
        )
    return _Product(dot_op(axes), lhs, rhs, out, call.is_whole)


def _is_vector(operand: Instruction, contracting: tuple[int, ...]) -> bool:
    sizes = operand.shape.dimensions
    return all(size == 1 for axis, size in enumerate(sizes) if axis not in contracting)


def _free(operand: Operand, contracting: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for axis, n in enumerate(operand.view.shape) if axis not in contracting)


def _argument(
    call: KernelCall, factor: Instruction, number: int, *, is_fused: bool
) -> Operand | None:
    """The argument of a kernel that a factor is, perhaps as bytes that the kernel converts."""
    source, element = behind_bitcasts(factor), factor.shape.element_type
    if is_fused:
        if source.opcode == "convert":
            inner = source.operands[0]
            if not same_layout(inner.shape, source.shape):
                return None
            source, element = behind_bitcasts(inner), inner.shape.element_type
        if source.opcode != "parameter":
            return None
        number = source.parameter_number
    if element not in (BYTE, WIDE) or number >= len(call.arguments):
        return None
    shape = factor.shape
    view = View.dense(call.part(number), element, shape.dimensions, shape.minor_to_major)
    return Operand(call.arguments[number].value, view)
