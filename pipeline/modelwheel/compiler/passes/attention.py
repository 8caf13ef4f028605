"""Makes scores, their softmax and the products with the values one node.

    %4 = kernel %3, %0 {symbol=split_heads}
    ...
    %8 f32[2,3,4,64] = dot %4, %7                      %4 f32[8,18] = dot .., shift=%0 f32[18]
    %9 = kernel %8 {symbol=scale}                      ...
    ...                                          =>    %6 f32[2,3,4,7] = attention query=%4 f32[2,3,4,6],
    %14 = kernel %9, %13 {symbol=divide}                      key=%5 .., value=%3 .. {scale=0.5}
    %15 f32[2,3,4,7] = dot %14, %10
    %16 = kernel %15 {symbol=join_heads}

XLA computes one after the other for all heads, and copies queries, keys, values and the result so that the rows of each head
follow each other. The runtime's kernel computes some rows of a head at a time, and reads and writes heads where they are.
What is added to queries, keys and values becomes the epilogue of the products that they are.

When: the softmax is one of scores along the keys, and nothing else reads what is between. Of other operands than plain products
and copies, the memory is read that XLA's kernel writes. Bits: sums are in the order of the runtime's kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...dtypes import ElementType
from ...program import ops
from ..ir.graph import Graph, Node, Operand, Piece, Region, Result
from ..ir.graph import Value as GraphValue
from ..ir.hlo import Instruction, Module
from ..ir.numbering import Numbering
from ..ir.ordering import between, may_pass, over_operands, piece_of, position
from ..ir.views import Source, source_of, strides_in_result, strides_of
from .match.attention_masks import Masks
from .match.head_products import HeadProduct, follow, heads_of, last_two_exchanged
from .match.product_epilogues import Finish, read_parts
from .match.softmaxes import Softmax, softmax_of

_FLOAT = ElementType.FLOAT32


class FuseAttention:
    """See above."""

    name = "fuse-attention"

    def run(self, graph: Graph) -> int:
        """Fuses; returns how many nodes of attention there are then."""
        if graph.module is None:
            return 0
        nodes = _Nodes(graph, graph.module)
        return sum(_fuse(nodes, node) for node in list(graph.walk()))


class _Nodes:
    """The nodes of a graph by the instructions that they compute."""

    def __init__(self, graph: Graph, module: Module) -> None:
        self.graph = graph
        self.module = module
        self.by_name = {
            next(iter(node.covers)): node
            for node in graph.walk()
            if len(node.covers) == 1 and not node.covers & graph.repeated
        }
        self.results = {piece.value for piece, _ in graph.results}
        self._numbering: Numbering | None = None

    @property
    def numbering(self) -> Numbering:
        """The numbers of the module's values."""
        if self._numbering is None:
            self._numbering = Numbering(self.module)
        return self._numbering

    def of(self, instruction: Instruction | None, region: Region | None) -> Node | None:
        """The node of a region that computes an instruction, and nothing else."""
        node = None if instruction is None else self.by_name.get(instruction.name)
        return node if node is not None and node.region is region else None

    def instruction(self, node: Node) -> Instruction | None:
        """The only instruction that a node computes, by itself."""
        (name, *others) = node.covers or ("",)
        known = self.by_name.get(name) is node and not others
        return self.module.instruction(name) if known else None

    def is_only_read_once(self, value: GraphValue) -> bool:
        """Whether one operand of one node is all that reads a value."""
        return value.has_one_use and value not in self.results

    def read_only_by(self, node: Node, readers: Iterable[Node]) -> bool:
        """Whether nothing but some nodes reads what a node computes."""
        users = {user for value in node.values for user in value.users}
        return users <= set(readers) and self.results.isdisjoint(node.values)

    def forget(self, nodes: Iterable[Node]) -> None:
        """Notes that some nodes are replaced."""
        for name in (name for node in nodes for name in node.covers):
            self.by_name.pop(name, None)


def _fuse(nodes: _Nodes, pv: Node) -> bool:
    """Fuses the product with the values, and all before it that only it needs, if it is one of attention."""
    fusion = _fusion(nodes, pv)
    if fusion is None:
        return False
    nodes.forget(fusion.replaced)
    fusion.apply()
    return True


# --- operands -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Queries, keys or values."""

    operand: Operand
    kernel: Node | None = None
    """The kernel that has moved them, which nothing else needs."""
    product: Node | None = None
    """The product that they are, which nothing else reads."""
    finished: Node | None = None
    """What takes the place of both, with an epilogue."""
    is_shared: bool = False
    """Other kernels move the product too; it keeps its place."""
    factor: float = 1.0
    """The kernel has multiplied it by this."""


def _part(
    nodes: _Nodes,
    reader: Node,
    side: str,
    source: Source,
    shape: tuple[int, ...],
    axes: Sequence[int],
    *,
    shares: bool,
) -> _Part:
    """An operand of a product: where it is, or was before a kernel has moved it.

    With `shares`, the kernel need not be the only one that moves a product.
    """
    operand = reader.inputs[side]
    view = operand.view
    plain = _Part(
        Operand(operand.value, heads_of(view.slice, view.start, view.strides, axes, shape))
    )
    kernel, strides = nodes.of(source.kernel, reader.region), strides_of(source)
    if kernel is None or strides is None or not _moves(kernel, operand):
        return plain
    if not nodes.read_only_by(kernel, [reader]):
        return plain
    if source.fusion is not None:
        match = _finished(nodes, kernel, source, shares=shares)
        if match is None:
            return plain
        product, finished = match
        result = finished.outputs["out"]
        where = heads_of(result.view.slice, strides.start, strides.steps, axes, shape)
        is_shared = result.value in product.values
        return _Part(
            Operand(result.value, where), kernel, product, finished, is_shared, source.factor
        )
    if len(kernel.inputs) != 1:
        return plain
    (before,) = kernel.inputs.values()
    if before.view.slice.size != source.node.shape.elements * _FLOAT.item_bytes:
        return plain
    where = heads_of(before.view.slice, strides.start, strides.steps, axes, shape)
    return _Part(Operand(before.value, where), kernel, factor=source.factor)


def _moves(kernel: Node, operand: Operand) -> bool:
    """Whether a node is the kernel that computes all of an operand, and nothing else."""
    if not isinstance(kernel.op, ops.Kernel) or len(kernel.outputs) != 1:
        return False
    (result,) = kernel.outputs.values()
    place = operand.view.slice
    return (
        result.value is operand.value
        and result.base is None
        and (result.view.slice.offset, result.view.slice.size) == (place.offset, place.size)
    )


def _finished(
    nodes: _Nodes, kernel: Node, source: Source, *, shares: bool
) -> tuple[Node, Node] | None:
    """The product that a kernel moves, and it with an epilogue, whose result has the place of the kernel's.

    With `shares`, others may read the product: then the result stays where it is.
    """
    fusion = source.fusion
    assert fusion is not None
    for number, operand in enumerate(kernel.inputs.values()):
        product = operand.value.producer
        if product is None or not isinstance(product.op, ops.Dot | ops.Convolution):
            continue
        if product.op.epilogue or product.region is not kernel.region:
            continue
        is_own = nodes.is_only_read_once(operand.value)
        if not is_own and not shares:
            continue
        parts = read_parts(nodes.graph, product, kernel, fusion, number, source.node)
        if not parts:
            continue
        (result,) = kernel.outputs.values()
        plain = Result(result.value, result.view)
        own = Finish(nodes.graph, product, parts, kernel)
        finished = own.at(plain) if is_own else own.in_place()
        if finished is not None:
            return product, finished
    return None


def _agree(nodes: _Nodes, parts: Iterable[_Part]) -> bool:
    """Whether each product that several kernels move has one epilogue in all of them, and no other readers."""
    shared = [part for part in parts if part.is_shared]
    for part in shared:
        assert part.product is not None
        assert part.finished is not None
        others = [other for other in shared if other.product is part.product]
        kernels = [other.kernel for other in others if other.kernel is not None]
        forms = [(other.finished.op, other.finished.inputs) for other in others if other.finished]
        if forms != [(part.finished.op, part.finished.inputs)] * len(others):
            return False
        if not nodes.read_only_by(part.product, kernels):
            return False
    return True


@dataclass(frozen=True)
class _Finish:
    """A product that gets an epilogue."""

    product: Node
    kernels: tuple[Node, ...]
    """The nodes that it does the work of."""
    node: Node
    """The node that takes the place of all."""

    @classmethod
    def of(cls, graph: Graph, parts: Iterable[_Part]) -> tuple[_Finish, ...]:
        """All of some parts; queries and keys may be the same, and one product may be all three."""
        moved: dict[Node, dict[Node, Node]] = {}
        for part in parts:
            if part.product is not None and part.kernel is not None and part.finished is not None:
                moved.setdefault(part.product, {})[part.kernel] = part.finished
        return tuple(
            cls(product, tuple(kernels), _merged(graph, product, kernels))
            for product, kernels in moved.items()
        )


def _merged(graph: Graph, product: Node, kernels: Mapping[Node, Node]) -> Node:
    """The node that does what a product and the kernels behind it do; each has its own form of it."""
    *_, form = kernels.values()
    if len(kernels) == 1:
        return form
    assert isinstance(form.op, ops.Dot | ops.Convolution)
    node = graph.merged(form.op, [product, *kernels])
    node.inputs, node.outputs = form.inputs, form.outputs
    return node


# --- all of them --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fusion:
    """Nodes that one of attention may replace."""

    graph: Graph
    node: Node
    """That of attention, which is in no region yet."""
    gone: tuple[Node, ...]
    """Those that it replaces, in order; the last one puts the result where it is to be."""
    finished: tuple[_Finish, ...]
    """The products that become operands."""
    masks: Masks

    @property
    def replaced(self) -> list[Node]:
        """All nodes that go."""
        others = (node for one in self.finished for node in (one.product, *one.kernels))
        return [*self.gone, *others]

    def is_possible(self) -> bool:
        """Whether all that is read is still there in the end, and the result is not written over it."""
        replaced, (output,) = self.replaced, self.node.outputs.values()
        if over_operands(self.node, output, replaced):
            return False
        finished = [one.node for one in self.finished]
        read = [operand for node in (self.node, *finished) for operand in node.inputs.values()]
        start = min(replaced, key=position)
        nodes = [node for node in between(start, self.gone[-1]) if node not in replaced]
        return all(self._lasts(piece_of(operand), nodes, replaced) for operand in read)

    def _lasts(self, piece: Piece, nodes: list[Node], replaced: list[Node]) -> bool:
        """Whether some nodes leave bytes as they are: those after the one that computes them."""
        producer = piece.value.producer
        after = nodes[nodes.index(producer) + 1 :] if producer in nodes else nodes
        return may_pass(self.graph, after, reads=[piece], without=replaced)

    def apply(self) -> None:
        """Replaces the nodes."""
        self.masks.insert()
        # First: then nothing reads any more what kernels have moved.
        self.graph.replace(self.gone, self.node)
        for one in self.finished:
            self.graph.replace([one.product, *one.kernels], one.node)


def _fusion(nodes: _Nodes, pv: Node) -> _Fusion | None:
    """The attention that ends with a product; None if it is anything else."""
    product, instruction = HeadProduct.of(pv), nodes.instruction(pv)
    if product is None or instruction is None or instruction.opcode != "dot":
        return None
    match = _softmax_and_values(nodes, product, instruction)
    if match is None:
        return None
    second, softmax, values = match
    qk = nodes.of(softmax.source, pv.region)
    first = None if qk is None else HeadProduct.of(qk)
    inner = [nodes.of(fusion, pv.region) for fusion in softmax.fusions]
    steps = [node for node in inner if node is not None]
    if qk is None or first is None or len(steps) != len(inner) or not follow(first, second):
        return None
    if not all(nodes.read_only_by(step, (*steps, pv)) for step in (qk, *steps)):
        return None
    masks = Masks.of(nodes.graph, nodes.by_name, softmax, first.out.shape)
    if masks is None:
        return None
    sides = (qk, first, softmax.source), (pv, second, values)
    parts = _parts(nodes, *sides, shares=True)
    if not _agree(nodes, parts.values()):
        parts = _parts(nodes, *sides, shares=False)
    finished = _Finish.of(nodes.graph, parts.values())
    moved = {part.kernel for part in parts.values() if part.kernel is not None}
    moved -= {kernel for one in finished for kernel in one.kernels}
    last, output = _output(nodes, pv, second, instruction)
    gone = sorted({qk, *steps, *moved, pv, last}, key=position)
    op = ops.Attention(
        scale=softmax.scale * parts["query"].factor * parts["key"].factor,
        replacement=masks.replacement,
    )
    node = nodes.graph.merged(op, gone)
    node.operations = qk.operations + pv.operations
    node.inputs = {role: part.operand for role, part in parts.items()} | masks.operands
    node.outputs = {"output": output}
    fusion = _Fusion(nodes.graph, node, tuple(gone), finished, masks)
    return fusion if fusion.is_possible() else None


def _parts(
    nodes: _Nodes,
    first: tuple[Node, HeadProduct, Instruction],
    second: tuple[Node, HeadProduct, Instruction],
    *,
    shares: bool,
) -> dict[str, _Part]:
    """Queries, keys and values.

    Args:
        nodes: All nodes.
        first: The product of queries and keys: its node, it, and its instruction.
        second: That of shares and values: its node, it, and the instruction of the values.
        shares: Whether several of them may be parts of one product.
    """
    (qk, scores, instruction), (pv, mixed, values) = first, second
    (*heads, rows, columns) = scores.out.shape
    depth = scores.lhs.shape[scores.op.lhs_contracting[0]]
    batch = (math.prod(heads[:-1]), math.prod(heads[-1:]))
    queries, keys = (source_of(operand, scaled=True) for operand in instruction.operands)
    side = "lhs" if mixed.is_turned else "rhs"
    query, key = scores.lhs_axes, scores.rhs_axes(contracting_first=False)
    value = mixed.rhs_axes(contracting_first=True)
    features = mixed.out.shape[-1]
    return {
        "query": _part(nodes, qk, "lhs", queries, (*batch, rows, depth), query, shares=shares),
        "key": _part(nodes, qk, "rhs", keys, (*batch, columns, depth), key, shares=shares),
        "value": _part(
            nodes, pv, side, source_of(values), (*batch, columns, features), value, shares=shares
        ),
    }


def _softmax_and_values(
    nodes: _Nodes, product: HeadProduct, instruction: Instruction
) -> tuple[HeadProduct, Softmax, Instruction] | None:
    """The product of the softmax of scores, which is on its left side, and the values; the softmax; the values."""
    left, right = instruction.operands
    for form, shares, values in ((product, left, right), (product.turned, right, left)):
        rows, value = form.rows_first(shares)
        softmax = softmax_of(lambda: nodes.numbering, value)
        if softmax is not None and softmax.source.opcode == "dot":
            return rows, softmax, values
    return None


def _output(
    nodes: _Nodes, pv: Node, second: HeadProduct, instruction: Instruction
) -> tuple[Node, Result]:
    """The node that puts the result where it is to be, and its result as heads."""
    (*heads, rows, features) = second.out.shape
    shape = (math.prod(heads[:-1]), math.prod(heads[-1:]), rows, features)
    axes, out, result = range(len(second.out.shape)), second.out, pv.outputs["out"]
    view = heads_of(out.slice, out.start, out.strides, axes, shape)
    plain = pv, Result(result.value, view, result.base)
    if result.base is not None or not nodes.is_only_read_once(result.value):
        return plain
    (kernel,) = result.value.users
    reader = nodes.instruction(kernel)
    if reader is None or kernel.region is not pv.region or not isinstance(kernel.op, ops.Kernel):
        return plain
    source = source_of(reader)
    strides = strides_in_result(source) if source.node is instruction else None
    if strides is None or len(kernel.outputs) != 1 or len(strides.steps) != len(axes):
        return plain
    (moved,) = kernel.outputs.values()
    part = moved.view.slice
    if part.size != out.elements * _FLOAT.item_bytes:
        return plain
    order = last_two_exchanged(len(axes)) if second.is_turned else axes
    is_whole = part.size == moved.value.size and not part.step
    view = heads_of(part, strides.start, strides.steps, order, shape)
    return kernel, Result(moved.value, view, None if is_whole else moved.base)
