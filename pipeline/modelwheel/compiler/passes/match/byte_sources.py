"""Finds the bytes that a product of 32-bit integers reads, behind XLA's kernels that only convert, repeat or surround them.

The canonical form of modules has windows of one byte each (`compiler/stablehlo/canonical/kept_bytes.py`), into which XLA puts
the padding of images where it can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....dtypes import ElementType
from ....program import ops
from ....program.view import View
from ...ir.graph import Graph, Node, Operand, Result, Value
from ...ir.hlo import Instruction, Shape, WindowAxis
from ...ir.match import behind_bitcasts, row_major, same_layout, view_of
from ...ir.ordering import between, may_pass, piece_of
from ..recognise.kernel_calls import KernelCall

BYTE, WIDE, FLOAT = ElementType.INT8, ElementType.INT32, ElementType.FLOAT32
_LOWEST = -128
_READERS = (ops.Kernel, ops.Dot, ops.Convolution, ops.ByteLayer, ops.Pooling)
"""What may read bytes in the place of copies of them."""


@dataclass(frozen=True)
class ByteSource:
    """Bytes in memory."""

    operand: Operand
    pads: tuple[tuple[int, int], ...] = ()
    """How many elements are put before and behind them along each axis; empty if none are."""
    padding: int = 0
    """The value of these elements."""


@dataclass(frozen=True)
class Bytes:
    """Finds the bytes that a node reads."""

    graph: Graph
    node: Node

    def behind(self, operand: Operand) -> Operand | None:
        """The bytes that are the values of an operand; None if it may be anything else."""
        if operand.view.element_type in (WIDE, FLOAT):
            call = self._maker(operand)
            if call is None or not _is_conversion(call.instruction):
                return None
            converted = self._source(call, operand.view.model_copy(update={"element_type": BYTE}))
            if converted is None:
                return None
            operand = converted
        while (call := self._maker(operand)) is not None:
            around = _surrounded(call.instruction)
            if around is None or any(map(any, around.pads)):
                break
            source = self._source(call, operand.view)
            if source is None:
                break
            operand = source
        return operand

    def around(self, operand: Operand) -> ByteSource | None:
        """The bytes that are the values of an operand, without what XLA puts around them; None if it may be anything else."""
        bytes_ = self.behind(operand)
        if bytes_ is None:
            return None
        call = self._maker(bytes_)
        around = None if call is None else _surrounded(call.instruction)
        if call is None or around is None or len(around.pads) != len(operand.view.shape):
            return ByteSource(bytes_)
        place = call.arguments[0].view.slice
        source = self._source(call, view_of(around.shape, place))
        inner = None if source is None else self.behind(source)
        return (
            ByteSource(bytes_) if inner is None else ByteSource(inner, around.pads, around.padding)
        )

    def _maker(self, operand: Operand) -> KernelCall | None:
        """The kernel that has written all of an operand, in the region of the node."""
        maker = operand.value.producer
        call = None if maker is None else KernelCall.of(self.graph, maker)
        if call is None or maker is None or not call.is_whole or not is_whole(operand):
            return None
        if maker.region is not self.node.region or call.instruction.name in self.graph.repeated:
            return None
        return call if call.arguments else None

    def _source(self, call: KernelCall, view: View) -> Operand | None:
        """The first argument of a kernel, as a view; None if it is not there any more when the node runs."""
        source = call.arguments[0]
        found = Operand(source.value, view.model_copy(update={"slice": source.view.slice}))
        nodes = between(call.node, self.node)
        reads = [piece_of(found)]
        return found if may_pass(self.graph, [call.node, *nodes], reads=reads) else None


def read_through(graph: Graph, user: Node) -> bool:
    """Lets a node read bytes in the place of copies of them that kernels make; returns whether it did read any."""
    found = False
    for value in dict.fromkeys(operand.value for operand in user.inputs.values()):
        call = None if value.producer is None else KernelCall.of(graph, value.producer)
        around = None if call is None or not call.is_whole else _surrounded(call.instruction)
        if call is None or around is None or any(map(any, around.pads)) or not call.arguments:
            continue
        if not _may_read(graph, call, user):
            continue
        source, copy = call.arguments[0], value
        inputs = {
            role: operand.moved(source.value, source.view.slice.offset)
            if operand.value is copy
            else operand
            for role, operand in user.inputs.items()
        }
        outputs = {role: _apart(result, copy) for role, result in user.outputs.items()}
        graph.update(user, inputs, outputs)
        found = True
    return found


def _apart(result: Result, value: Value) -> Result:
    """A result that XLA has put in the place of a value, of which it has nothing: it may as well be anywhere else."""
    near = tuple(piece for piece in result.near if piece.value is not value)
    is_over = result.base is not None and result.base.value is value
    return replace(result, near=near, base=None if is_over else result.base)


def _may_read(graph: Graph, call: KernelCall, user: Node) -> bool:
    """Whether a node that reads the copy of bytes may read them where they are."""
    copy, source = call.result.value, call.arguments[0]
    over = [r for r in user.outputs.values() if r.base is not None and r.base.value is copy]
    if user.region is not call.node.region or user.regions or user.carried:
        return False
    if not isinstance(user.op, _READERS):
        return False
    if any(not is_whole(Operand(result.value, result.view)) for result in over):
        return False
    nodes = [call.node, *between(call.node, user), user]
    return may_pass(graph, nodes, reads=[piece_of(source)], without=[call.node])


def is_whole(operand: Operand) -> bool:
    """Whether a view has all elements of its value, without gaps."""
    view = operand.view
    part = view.slice
    return (
        (part.offset, part.size, part.step) == (0, operand.value.size, 0)
        and view.elements * view.element_type.item_bytes == part.size
        and view.ordered(view.order) == view
    )


def _is_conversion(kernel: Instruction) -> bool:
    """Whether a kernel converts all bytes of its first argument."""
    node = _computed(kernel)
    if node.opcode != "convert" or node.shape.element_type not in (WIDE, FLOAT):
        return False
    (source,) = node.operands
    return source.shape.element_type == BYTE and _is_first(source, node)


@dataclass(frozen=True)
class _Surrounded:
    """A kernel that copies its first argument, bytes, and puts others around them."""

    shape: Shape
    """Of the bytes."""
    pads: tuple[tuple[int, int], ...]
    padding: int


def _surrounded(kernel: Instruction) -> _Surrounded | None:
    """The bytes that a kernel puts around the bytes of its first argument, which may be nothing; None if it computes anything else."""
    node = _computed(kernel)
    if node.opcode not in ("reduce-window", "pad") or node.shape.element_type != BYTE:
        return None
    source, initial = node.operands
    if not _is_first_argument(source) or not row_major(source.shape, node.shape):
        return None
    if kernel is not node and initial.opcode == "parameter":
        initial = kernel.operands[initial.parameter_number]
    if not isinstance(initial.value, int):
        return None
    if node.opcode == "pad":
        pads = tuple((axis.low, axis.high) for axis in node.padding)
        plain = all(axis.interior == 0 and min(axis.low, axis.high) >= 0 for axis in node.padding)
    else:
        # Each window has one byte and holes; one that begins outside has nothing but the initial value.
        pads = tuple((w.pad_low // w.size, w.pad_high // w.size) for w in node.window)
        plain = initial.value == _LOWEST and _is_largest(node) and all(map(_is_single, node.window))
    return _Surrounded(source.shape, pads, initial.value) if plain else None


def _is_largest(window: Instruction) -> bool:
    """Whether the largest element of each window is taken."""
    (reducer,) = window.called
    return reducer.root.opcode == "maximum" and all(
        operand.opcode == "parameter" for operand in reducer.root.operands
    )


def _is_single(w: WindowAxis) -> bool:
    """Whether windows have one element each along an axis, which comes first in them."""
    whole = (w.stride, w.base_dilation, w.window_dilation) == (w.size, w.size, 1)
    return whole and w.pad_low % w.size == 0 and w.pad_high % w.size == w.size - 1


def _computed(kernel: Instruction) -> Instruction:
    """The instruction of a kernel of one operation; perhaps its value has another shape in the end."""
    return behind_bitcasts(kernel.called_root) if kernel.opcode == "fusion" else kernel


def _is_first(source: Instruction, node: Instruction) -> bool:
    """Whether a value is the first argument of the kernel that only computes a node, element by element."""
    return _is_first_argument(source) and same_layout(source.shape, node.shape)


def _is_first_argument(value: Instruction) -> bool:
    source = behind_bitcasts(value)
    return source.opcode == "parameter" and source.parameter_number == 0
