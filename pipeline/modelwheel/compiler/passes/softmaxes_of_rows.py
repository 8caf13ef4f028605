"""Makes one step of the softmax of long rows, as networks with thousands of classes end with.

    %4 f32[40,6906] = dot %2, %3
    %5 = kernel %1, %4 {symbol=add}                       %4 f32[40,6906] = dot %2, %3
    %6 = row_reduction %5 {reducer=maximum}         =>    %9 f32[40,6906] = softmax %4 f32[40,6906], bias=%1 f32[6906]
    %7 = kernel %6, %1, %4 {symbol=exponential}
    %8 = row_reduction %7 {reducer=sum}
    %9 = kernel %7, %8 {symbol=divide}

XLA reads or writes all elements seven times, and adds a bias twice. The kernel of the runtime does all with a row while it is
in a cache.

When: with enough elements, after attention, which has softmaxes of its own. Bits: the exponential has the errors that `activation.h`
states, sums of a row are of vectors, and elements are multiplied by one over the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

from ...dtypes import ElementType
from ...program import ops
from ...program.view import View
from ..ir.erasing import erase_dead
from ..ir.graph import Graph, Node, Operand, Piece
from ..ir.hlo import Instruction
from ..ir.match import Value, keeps_memory, row_major
from ..ir.numbering import Numbering
from ..ir.ordering import between, may_pass
from .match.softmaxes import Softmax, softmax_of
from .recognise.kernel_calls import KernelCall

_FLOAT = ElementType.FLOAT32
# With fewer, the passes of XLA's kernels are in the first-level cache, and few enough.
_MIN_ELEMENTS = 1 << 12
_MIN_COLUMNS = 64


class FuseSoftmaxes:
    """See above."""

    name = "fuse-softmaxes"

    def run(self, graph: Graph) -> int:
        """Replaces kernels; returns how many softmaxes there are."""
        if graph.module is None:
            return 0
        finder = _Finder(graph)
        fused = [(call.node, made) for call in finder.calls if (made := finder.fused(call))]
        for node, made in fused:
            graph.replace([node], made)
        if fused:
            erase_dead(graph)
        return len(fused)


class _Finder:
    """Looks for softmaxes among the kernels of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        calls = (KernelCall.of(graph, node) for node in graph.walk())
        self._calls = {
            call.instruction: call
            for call in calls
            if call is not None and call.instruction.name not in graph.repeated
        }

    @property
    def calls(self) -> Iterable[KernelCall]:
        """The kernels that XLA has made of one instruction each."""
        return self._calls.values()

    @cached_property
    def _numbering(self) -> Numbering:
        assert self._graph.module is not None
        return Numbering(self._graph.module)

    def fused(self, call: KernelCall) -> Node | None:
        """The softmax that a kernel ends; None if it does anything else."""
        shape = call.instruction.shape
        if not call.is_whole or shape.element_type != _FLOAT or shape.elements < _MIN_ELEMENTS:
            return None
        softmax = softmax_of(lambda: self._numbering, Value(call.instruction))
        if softmax is None or softmax.scale != 1 or softmax.kept is not None:
            return None
        columns = softmax.source.shape.dimensions[-1] if softmax.source.shape.rank else 0
        if columns < _MIN_COLUMNS or not row_major(softmax.source.shape):
            return None
        rows = math.prod(softmax.source.shape.dimensions) // columns
        return self._written(call, softmax, rows, columns)

    def _written(self, call: KernelCall, softmax: Softmax, rows: int, columns: int) -> Node | None:
        source = self._operand(softmax.source, softmax.fusions, rows * columns)
        if source is None or not self._may_read(source, call.node):
            return None
        inputs = {"input": Operand(source.value, _dense(source, (rows, columns)))}
        if softmax.added is not None:
            vector = _repeated(softmax.added, columns)
            if vector is None:
                return None
            bias = self._operand(vector, softmax.fusions, columns)
            # A constant, or an input: it is there wherever the node runs.
            if bias is None or bias.value.producer is not None:
                return None
            inputs["bias"] = Operand(bias.value, _dense(bias, (columns,)))
        view = View.dense(call.place, _FLOAT, (rows, columns))
        return call.replaced(ops.Softmax(), inputs, view)

    def _operand(
        self, instruction: Instruction, fusions: Iterable[Instruction], elements: int
    ) -> Operand | None:
        """The value of an instruction outside of fusions, as one of some fusions reads it."""
        for fusion in fusions:
            call = self._calls.get(fusion)
            if call is None or len(call.arguments) != len(fusion.operands):
                continue
            for number, operand in enumerate(fusion.operands):
                argument = call.arguments[number]
                is_whole = argument.view.slice.size == elements * _FLOAT.item_bytes
                if is_whole and _behind(operand, instruction):
                    return argument
        return None

    def _may_read(self, source: Operand, node: Node) -> bool:
        """Whether a value is still there where a node runs."""
        producer = source.value.producer
        if producer is None or producer.region is not node.region:
            return False
        reads = [Piece.whole(source.value)]
        return may_pass(self._graph, between(producer, node), reads=reads, without=(node,))


def _dense(operand: Operand, shape: tuple[int, ...]) -> View:
    return View.dense(operand.view.slice, _FLOAT, shape)


def _behind(operand: Instruction, instruction: Instruction) -> bool:
    """Whether an operand is the value of an instruction, perhaps under other names."""
    while operand is not instruction and (keeps_memory(operand) or operand.opcode == "bitcast"):
        (operand,) = operand.operands
    return operand is instruction


def _repeated(value: Value, columns: int) -> Instruction | None:
    """The vector outside of fusions that a value has in each row; None if it is anything else."""
    node = value.node
    if node.opcode != "broadcast" or node.dimensions != (node.shape.rank - 1,):
        return None
    (operand,) = value.operands
    while (source := operand.source()) is not None:
        operand = source
    is_vector = operand.node.shape.elements == columns and operand.fusion is None
    return operand.node if is_vector else None
