"""Makes fusions that follow a product element by element part of the product.

    %3 f32[4,8] = dot %0, %1                           %4 f32[4,8] = dot %0, %1, bias=%2 f32[8]
    %4 = kernel %3, %2 {symbol=fusion}          =>             {epilogue={low=0}}

    fusion:  repeated = f32[4,8] broadcast(bias), dimensions={1}
             sum = f32[4,8] add(product, repeated)
             ROOT above = f32[4,8] maximum(sum, zero)

XLA's CPU backend writes the result of a matrix product or convolution to memory; bias, scale, residual and clamp are
kernels of their own that read and write it again, like activation functions. The module has the computation of every such
fusion: where it is what the runtime's kernels can do to a product, in the same order, the product does it.

What several nodes read, XLA finishes in each of them. Such a reader takes the finished value from memory instead, and if
all of them do, nobody reads the product itself any more. So fusions are looked at from the last to the first.

A mean, a padding for a pooling, a product with a vector, or moves may come after that in the same fusion: the product finishes
its values, and the rest of the kernel becomes a pooling, a product or a copy. So does a kernel that only multiplies by a number before a
pooling adds up: the pooling multiplies. A maximum with a number after a pooling of maxima is the number with which its windows begin.

When: always; with fewer than 4 columns XLA's kernel is faster, whose vectors run along all axes. Bits: the same but for fused
multiply-adds in the place of a product and a sum, and the runtime's own activation functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...dtypes import ElementType
from ...program import ops
from ...program.aliases import alias_of
from ...program.view import View
from ..ir.graph import Graph, Node, Operand, Piece, Region, Replacement, Result, Value
from ..ir.hlo import Instruction
from ..ir.match import view_of
from ..ir.ordering import between, may_pass, over_operands, piece_of, places
from ..ir.product_ops import dot_op
from ..ir.views import source_of
from .element_moves import copy_of
from .match.epilogue_parts import Named
from .match.kernel_values import KernelValues, fusion_of, whole
from .match.product_epilogues import Finish, read_parts
from .recognise.kernel_calls import KernelCall
from .recognise.paddings import Padding, padding_of
from .recognise.poolings import Pooled, lower_limit, mean_of_values, scaling
from .recognise.vector_products import ValuesProduct, plain_axes, product_of_values

_FLOAT = ElementType.FLOAT32


class FuseEpilogues:
    """See above."""

    name = "fuse-epilogues"

    def run(self, graph: Graph) -> int:
        """Fuses; returns how many kernels."""
        values = KernelValues(graph)
        return sum(_fuse_in(graph, values, region) for region in list(graph.regions))


def _fuse_in(graph: Graph, values: KernelValues, region: Region) -> int:
    """Fuses the kernels of one sequence; returns how many."""
    total = 0
    # Another kernel may follow what one has become.
    while fused := sum(_fuse(graph, values, node) for node in reversed(list(region.nodes))):
        total += fused
    return total


def _fuse(graph: Graph, values: KernelValues, kernel: Node) -> bool:
    """Makes a kernel part of another node, if it may be."""
    call = fusion_of(graph, kernel)
    if call is None:
        return False
    joined = (
        _Join(graph, values, call, product).replacements(number)
        for product, number in values.products(kernel)
    )
    replacements = (
        next(filter(None, joined), None)
        or _scaled(graph, values, call)
        or _limited(graph, values, call)
    )
    for replacement in replacements:
        graph.replace(replacement.nodes, replacement.node, replacement.at)
    return bool(replacements)


def _scaled(graph: Graph, values: KernelValues, call: KernelCall) -> Sequence[Replacement]:
    """Leaves out a kernel that multiplies by a number what only one pooling adds up."""
    factor, pool = scaling(call.instruction), values.only_reader(call)
    if factor is None or pool is None or not isinstance(pool.op, ops.Pooling):
        return ()
    (source,), read = call.arguments, pool.inputs["input"].view
    fits = (
        pool.op.reducer == "sum"
        and pool.op.in_factor == 1
        and source.view.slice.size == read.slice.size
    )
    if not fits:
        return ()
    new = graph.merged(pool.op.model_copy(update={"in_factor": factor}), [call.node, pool])
    view = read.model_copy(update={"slice": source.view.slice})
    new.inputs, new.outputs = {"input": Operand(source.value, view)}, dict(pool.outputs)
    gone = (call.node, pool)
    if over_operands(new, new.outputs["output"], gone):
        return ()
    if not may_pass(graph, between(*gone), reads=[piece_of(source)], without=gone):
        return ()
    return (Replacement(gone, new),)


def _limited(graph: Graph, values: KernelValues, call: KernelCall) -> Sequence[Replacement]:
    """Leaves out a kernel that takes the maximum of a number and what only it reads of a pooling of maxima."""
    limit = lower_limit(call.instruction)
    pool = call.arguments[0].value.producer if limit is not None else None
    if limit is None or pool is None or not isinstance(pool.op, ops.Pooling):
        return ()
    made, read = pool.outputs["output"], pool.inputs["input"]
    fits = (
        pool.op.reducer == "maximum"
        and made.base is None
        and call.is_whole
        and call.place.size == made.view.slice.size == call.arguments[0].view.slice.size
        and values.is_only_read_by(made.value, call.node)
    )
    if not fits:
        return ()
    first = limit if pool.op.initial is None else max(limit, pool.op.initial)
    new = graph.merged(pool.op.model_copy(update={"initial": first}), [pool, call.node])
    view = made.view.model_copy(update={"slice": call.place})
    new.inputs = dict(pool.inputs)
    new.outputs = {"output": replace(call.result, view=view, base=None, near=())}
    gone = (pool, call.node)
    if over_operands(new, new.outputs["output"], gone):
        return ()
    if not may_pass(graph, between(*gone), reads=[piece_of(read)], without=gone):
        return ()
    return (Replacement(gone, new),)


@dataclass
class _Join:
    """A fusion that may become the epilogue of a product: a rule, which changes nothing."""

    graph: Graph
    values: KernelValues
    call: KernelCall
    product: Node
    _others: list[Replacement] = field(default_factory=list)
    """Of products that are addends of the epilogue."""
    _borrowed: list[Value] = field(default_factory=list)
    """What other kernels have written and this one computes again."""

    @property
    def kernel(self) -> Node:
        """The node of the fusion."""
        return self.call.node

    @property
    def fusion(self) -> Instruction:
        """Its instruction."""
        return self.call.instruction

    def replacements(self, number: int) -> Sequence[Replacement]:
        """The replacements that join the two, in order; none if that is impossible. The product is this argument of the kernel."""
        if (mean := mean_of_values(self.fusion)) is not None:
            return self._finish(number, mean[0], self._mean(mean[1]))
        pool = self.values.only_reader(self.call)
        if pool is not None and (padding := padding_of(self.fusion, pool)) is not None:
            return self._finish_padded(number, padding, pool)
        if (product := product_of_values(self.fusion)) is not None:
            return self._finish(number, product.dot.operands[product.values], self._vector(product))
        if (moved := self._moved(number)) is not None:
            return self._finish(number, *moved)
        return self._finish_all(number)

    # --- what the product computes ----------------------------------------------------------------

    def _parts(self, number: int, node: Instruction) -> Named:
        """The parts of the epilogue up to an instruction of the fusion; empty if it is anything else."""
        parts = read_parts(
            self.graph, self.product, self.kernel, self.fusion, number, node, self._elsewhere
        )
        return parts or {}

    def _finish_all(self, number: int) -> Sequence[Replacement]:
        """Lets the product compute all of the fusion."""
        parts = self._parts(number, self.fusion.called_root)
        out = self.call.result
        # What writes all of it leaves nothing of what XLA's kernel may have changed in its place.
        out = replace(out, base=None if self.call.is_whole else out.base, near=())
        if not parts or (out.base is not None and out.base.value in self.product.values):
            return ()
        node = Finish(self.graph, self.product, parts, self.kernel).at(out)
        at = self._place(self.product, node, writes=out)
        if node is None or at is None or not self._may_be_written(node):
            return ()
        return [*self._others, Replacement([self.product, self.kernel], node, at)]

    def _may_be_written(self, node: Node) -> bool:
        """Whether the result may be over those operands that it is over wherever it is."""
        out = node.outputs["out"]
        near: list[Piece] = []
        assert isinstance(node.op, ops.Dot | ops.Convolution)
        for role, piece in over_operands(node, out, self._gone).items():
            alias = alias_of(node.op, "out", role)
            part = out.view.slice.whole
            if alias is None or (
                alias.exact and (piece.at, piece.size) != (part.offset, part.size)
            ):
                return False
            if not alias.exact:
                near.append(piece)
        node.outputs["out"] = replace(out, near=tuple(near))
        return True

    def _finish(self, number: int, values: Instruction, rest: Node) -> Sequence[Replacement]:
        """Lets the product compute some values of the fusion, which another node reads."""
        node = Finish(self.graph, self.product, self._parts(number, values)).in_place()
        at = self._place(self.product, node)
        (result,) = rest.outputs.values()
        if node is None or at is None or over_operands(rest, result, self._gone):
            return ()
        own = Replacement([self.product], node, at)
        return [*self._others, own, Replacement([self.kernel], rest)]

    def _finish_padded(self, number: int, padding: Padding, pool: Node) -> Sequence[Replacement]:
        """Lets the product compute all but the padding, and the pooling read that."""
        parts = self._parts(number, padding.values)
        node = Finish(self.graph, self.product, parts, self.kernel).in_place()
        at = self._place(self.product, node)
        if node is None or at is None:
            return ()
        new = self.graph.merged(padding.pooling, [pool])
        new.inputs, new.outputs = {"input": self._floats(padding.shape)}, dict(pool.outputs)
        own = Replacement([self.product], node, at)
        return [*self._others, own, Replacement([self.kernel, pool], new)]

    # --- what is left of the kernel ---------------------------------------------------------------

    def _mean(self, pooled: Pooled) -> Node:
        inputs = {"input": self._floats(pooled.source)}
        view = View.dense(self.call.place, _FLOAT, pooled.result)
        return self.call.replaced(pooled.op, inputs, view)

    def _moved(self, number: int) -> tuple[Instruction, Node] | None:
        """The values that the kernel moves after all else, and their copy; in loops, chains compute such parts."""
        source = source_of(self.fusion)
        is_moved = any(move.opcode != "bitcast" for move in source.moves)
        if source.fusion is None or not is_moved or self.kernel.region is not self.graph.body:
            return None
        copy = copy_of(self.call, source, self.call.arguments[number])
        return None if copy is None else (source.node, copy)

    def _vector(self, product: ValuesProduct) -> Node:
        """The product of what another one has computed and a matrix or vector."""
        out, dot = self.product.outputs["out"], product.dot
        operands = [Operand(out.value, out.view), self.call.arguments[product.other]]
        if product.values == 1:
            operands.reverse()
        axes = plain_axes(dot)
        assert axes is not None
        inputs = {
            role: Operand(source.value, view_of(operand.shape, source.view.slice))
            for role, source, operand in zip(("lhs", "rhs"), operands, dot.operands, strict=True)
        }
        return self.call.replaced(dot_op(axes), inputs, view_of(dot.shape, self.call.place))

    def _floats(self, shape: tuple[int, ...]) -> Operand:
        """The result of the product as a row-major array."""
        out = self.product.outputs["out"]
        return Operand(out.value, View.dense(out.view.slice, _FLOAT, shape))

    # --- operands ---------------------------------------------------------------------------------

    def _elsewhere(self, node: Instruction) -> Operand | None:
        """The value of an instruction of the fusion that another node than the product has written or can."""
        value = self.values.find(node, self.fusion, self.kernel)
        if value is not None:
            self._borrowed.append(value)
            return whole(value)
        taken = [self.product, *self._finished]
        for product, number in self.values.products(self.kernel):
            if product in taken:
                continue
            parts = read_parts(self.graph, product, self.kernel, self.fusion, number, node)
            new = Finish(self.graph, product, parts or {}).in_place()
            at = self._place(product, new)
            if new is not None and at is not None:
                self._others.append(Replacement([product], new, at))
                out = product.outputs["out"]
                return Operand(out.value, View.of_bytes(out.view.slice))
        return None

    # --- where it runs ----------------------------------------------------------------------------

    @property
    def _finished(self) -> list[Node]:
        """The products that are addends."""
        return [product for other in self._others for product in other.nodes]

    @property
    def _gone(self) -> tuple[Node, ...]:
        return (self.product, self.kernel, *self._finished)

    def _place(self, product: Node, node: Node | None, writes: Result | None = None) -> Node | None:
        """Which of a product and the kernel a node that takes the place of the product may come before.

        Args:
            product: One that the kernel reads.
            node: What it becomes, if it can become anything.
            writes: What of the kernel it writes.
        """
        if node is None:
            return None
        own = [] if writes is None else [Piece.whole(writes.value)]
        # It reads those that come just before the kernel.
        is_late = any(other.at is self.kernel for other in self._others)
        for at in places(self.graph, node, product, self.kernel, own, self._gone):
            if self._lasts_until(at) and not (is_late and at is product):
                return at
        return None

    def _lasts_until(self, node: Node) -> bool:
        """Whether what is borrowed is still there."""
        return all(
            may_pass(
                self.graph,
                between(value.producer, node),
                reads=[Piece.whole(value)],
                without=self._gone,
            )
            for value in self._borrowed
            if value.producer is not None
        )
