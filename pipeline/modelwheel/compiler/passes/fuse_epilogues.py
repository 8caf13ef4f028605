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

A mean, a padding for a pooling, or a product with a vector may come after that in the same fusion: the product finishes its
values, and the rest of the kernel becomes a pooling or a product. So does a kernel that only multiplies by a number before a
pooling adds up: the pooling multiplies.

When: always; with fewer than 4 columns XLA's kernel is faster, whose vectors run along all axes. Bits: the same but for fused
multiply-adds in the place of a product and a sum, and the runtime's own activation functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...dtypes import ElementType
from ...program import ops
from ...program.aliases import alias_of
from ...program.view import View
from ..ir.graph import Graph, Node, Operand, Piece, Region, Result, Value
from ..ir.hlo import Instruction
from ..ir.match import view_of
from ..ir.ordering import may_pass, over_operands, piece_of
from ..ir.product_ops import dot_op
from .match.epilogue_parts import Named
from .match.kernel_values import KernelValues, between, fusion_of, is_before, whole
from .match.product_epilogues import finished, read_parts, with_parts
from .recognise.kernel_calls import KernelCall
from .recognise.paddings import Padding, padding_of
from .recognise.poolings import Pooled, mean_of_values, scaling
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
    return any(
        _Join(graph, values, call, product).done(number)
        for product, number in values.products(kernel)
    ) or _scale(graph, values, call)


def _scale(graph: Graph, values: KernelValues, call: KernelCall) -> bool:
    """Leaves out a kernel that multiplies by a number what only one pooling adds up."""
    factor, pool = scaling(call.instruction), values.only_reader(call)
    if factor is None or pool is None or not isinstance(pool.op, ops.Pooling):
        return False
    (source,), read = call.arguments, pool.inputs["input"].view
    fits = (
        pool.op.reducer == "sum"
        and pool.op.in_factor == 1
        and source.view.slice.size == read.slice.size
    )
    if not fits:
        return False
    new = graph.merged(pool.op.model_copy(update={"in_factor": factor}), [call.node, pool])
    view = read.model_copy(update={"slice": source.view.slice})
    new.inputs, new.outputs = {"input": Operand(source.value, view)}, dict(pool.outputs)
    gone = (call.node, pool)
    if over_operands(new, new.outputs["output"], gone):
        return False
    if not may_pass(graph, between(*gone), reads=[piece_of(source)], without=gone):
        return False
    graph.replace(gone, new)
    return True


@dataclass(frozen=True)
class _Finished:
    """A product with an epilogue, and the node that it comes before."""

    product: Node
    node: Node
    at: Node


@dataclass
class _Join:
    """A fusion that may become the epilogue of a product."""

    graph: Graph
    values: KernelValues
    call: KernelCall
    product: Node
    _others: list[_Finished] = field(default_factory=list)
    """Products that are addends of the epilogue."""
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

    def done(self, number: int) -> bool:
        """Joins the two, if that is possible; the product is this argument of the kernel."""
        if (mean := mean_of_values(self.fusion)) is not None:
            return self._finish(number, mean[0], self._mean(mean[1]))
        pool = self.values.only_reader(self.call)
        if pool is not None and (padding := padding_of(self.fusion, pool)) is not None:
            return self._finish_padded(number, padding, pool)
        if (product := product_of_values(self.fusion)) is not None:
            return self._finish(number, product.dot.operands[product.values], self._vector(product))
        return self._finish_all(number)

    # --- what the product computes ----------------------------------------------------------------

    def _parts(self, number: int, node: Instruction) -> Named:
        """The parts of the epilogue up to an instruction of the fusion; empty if it is anything else."""
        parts = read_parts(
            self.graph, self.product, self.kernel, self.fusion, number, node, self._elsewhere
        )
        return parts or {}

    def _finish_all(self, number: int) -> bool:
        """Lets the product compute all of the fusion."""
        parts = self._parts(number, self.fusion.called_root)
        out = self.call.result
        # What writes all of it leaves nothing of what XLA's kernel may have changed in its place.
        out = replace(out, base=None if self.call.is_whole else out.base, near=())
        if out.base is not None and out.base.value in self.product.values:
            return False
        node = with_parts(self.graph, self.product, self.kernel, parts, out) if parts else None
        at = None if node is None else self._place(self.product, node, writes=out)
        if node is None or at is None or not self._may_be_written(node):
            return False
        self._replace(node, at)
        return True

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

    def _finish(self, number: int, values: Instruction, rest: Node) -> bool:
        """Lets the product compute some values of the fusion, which another node reads."""
        node = finished(self.graph, self.product, None, self._parts(number, values))
        at = None if node is None else self._place(self.product, node)
        (result,) = rest.outputs.values()
        if node is None or at is None or over_operands(rest, result, self._gone):
            return False
        self._replace(node, at, rest)
        return True

    def _finish_padded(self, number: int, padding: Padding, pool: Node) -> bool:
        """Lets the product compute all but the padding, and the pooling read that."""
        parts = self._parts(number, padding.values)
        node = finished(self.graph, self.product, self.kernel, parts)
        at = None if node is None else self._place(self.product, node)
        if node is None or at is None:
            return False
        new = self.graph.merged(padding.pooling, [pool])
        new.inputs, new.outputs = {"input": self._floats(padding.shape)}, dict(pool.outputs)
        self._replace(node, at)
        self.graph.replace([self.kernel, pool], new)
        return True

    def _replace(self, node: Node, at: Node, rest: Node | None = None) -> None:
        for other in self._others:
            self.graph.replace([other.product], other.node, at=other.at)
        if any(result.value in self.kernel.values for result in node.outputs.values()):
            self.graph.replace([self.product, self.kernel], node, at=at)
        else:
            self.graph.replace([self.product], node, at=at)
        if rest is not None:
            self.graph.replace([self.kernel], rest)

    # --- what is left of the kernel ---------------------------------------------------------------

    def _mean(self, pooled: Pooled) -> Node:
        inputs = {"input": self._floats(pooled.source)}
        view = View.dense(self.call.place, _FLOAT, pooled.result)
        return self.call.replaced(pooled.op, inputs, view)

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
        """What an instruction of the fusion computes, but another node than the product has written or can."""
        value = self.values.find(node, self.fusion, self.kernel)
        if value is not None:
            self._borrowed.append(value)
            return whole(value)
        taken = [self.product, *(other.product for other in self._others)]
        for product, number in self.values.products(self.kernel):
            if product in taken:
                continue
            parts = read_parts(self.graph, product, self.kernel, self.fusion, number, node)
            new = finished(self.graph, product, None, parts or {})
            at = None if new is None else self._place(product, new)
            if new is not None and at is not None:
                self._others.append(_Finished(product, new, at))
                out = product.outputs["out"]
                return Operand(out.value, View.of_bytes(out.view.slice))
        return None

    # --- where it runs ----------------------------------------------------------------------------

    @property
    def _gone(self) -> tuple[Node, ...]:
        return (self.product, self.kernel, *(other.product for other in self._others))

    def _place(self, product: Node, node: Node, writes: Result | None = None) -> Node | None:
        """Which of a product and the kernel a node that takes the place of the product may come before.

        Args:
            product: One that the kernel reads.
            node: What it becomes.
            writes: What of the kernel it writes.
        """
        kernel, inside = self.kernel, between(product, self.kernel)
        own = [] if writes is None else [Piece.whole(writes.value)]
        operands = [operand for role, operand in node.inputs.items() if role not in product.inputs]
        is_early = (
            all(is_before(operand.value, product) for operand in operands)
            and not any(other.at is kernel for other in self._others)
            and may_pass(self.graph, inside, writes=own, without=self._gone)
        )
        if is_early and self._lasts_until(product):
            return product
        reads = list(map(piece_of, product.inputs.values()))
        is_late = may_pass(self.graph, inside, reads=reads, without=self._gone)
        return kernel if is_late and self._lasts_until(kernel) else None

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
