"""Makes concatenations of columns a matter of the nodes that compute the pieces.

    %5 f32[9,4] = dot %0, %1                           %6 f32[9,4]{10,1} = dot %0, %1
    %6 = kernel %5, %4 {symbol=fusion}          =>     %7 f32[9,6]{10,1}+16 into %6 = copy %4 f32[9,6]

    fusion:  ROOT both = f32[9,10] concatenate(x, y), dimensions={1}

XLA concatenates in a kernel of its own, which also computes again what another kernel has computed for other readers. Here
each product or convolution writes its piece into the rows of the whole, with its epilogue; what is in memory already is copied
there. A scale and a shift of each column of the whole, as of a normalization, are parts of these epilogues, and what is in memory
is scaled on the way.

When: at least one piece is the result of a product that nothing else reads; where all are in memory, XLA's kernel copies them
too. Before epilogues are fused: what is copied, the concatenation does not compute from a product any more. Bits: as those of
epilogues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...dtypes import ElementType
from ...program import ops
from ...program.expr import Opcode
from ...program.view import View
from ..ir.graph import Graph, Node, Operand, Piece, Result, Value
from ..ir.hlo import Instruction
from ..ir.match import parameter_of
from ..ir.ordering import between, may_pass, over_operands, places, position
from .match.elementwise_code import Code
from .match.epilogue_parts import Chain, Named
from .match.kernel_values import KernelValues, fusion_of, whole
from .match.product_epilogues import Columns, Finish, read_chain, read_parts

_FLOAT = ElementType.FLOAT32
_OPCODES: Mapping[str, Opcode] = {"scale": "multiply", "shift": "add"}
"""What may be done to all columns of a concatenation."""


class WriteConcatenations:
    """See above."""

    name = "write-concatenations"

    def run(self, graph: Graph) -> int:
        """Replaces kernels; returns how many."""
        values = KernelValues(graph)
        kernels = [node for node in graph.walk() if fusion_of(graph, node) is not None]
        return sum(_write(graph, values, kernel) for kernel in reversed(kernels))


def _write(graph: Graph, values: KernelValues, kernel: Node) -> bool:
    """Writes the pieces elsewhere, if the kernel is a concatenation of columns and that is possible."""
    call = fusion_of(graph, kernel)
    if call is None or not call.is_whole or len(kernel.inputs) != len(call.instruction.operands):
        return False
    root = call.instruction.called_root
    pieces = _behind_columns(root)
    if not _is_of_columns(pieces):
        return False
    columns = pieces.shape.dimensions[pieces.dimensions[0]]
    follows = read_chain(graph, kernel, call.instruction, (pieces, columns), root)
    if follows is None or any(name not in _OPCODES for name, _ in follows):
        return False
    whole = call.result.value
    return _Concatenation(graph, values, kernel, call.instruction, whole, pieces, follows).done()


def _behind_columns(node: Instruction) -> Instruction:
    """The value that an instruction scales and shifts by a number for each column."""
    while node.opcode in ("multiply", "add"):
        values = [operand for operand in node.operands if operand.opcode != "broadcast"]
        if len(values) != 1:
            break
        (node,) = values
    return node


def _is_of_columns(root: Instruction) -> bool:
    """Whether an instruction puts the rows of arrays in one order beside each other."""
    order = root.shape.minor_to_major
    return (
        root.opcode == "concatenate"
        and root.shape.element_type == _FLOAT
        and root.dimensions[0] == order[0]
        and all(o.shape.minor_to_major == order for o in root.operands)
    )


@dataclass(frozen=True)
class _Writer:
    """The node that writes a piece."""

    node: Node
    """It is in no region yet, and its result has no base."""
    product: Node | None = None
    """What it takes the place of; None of a copy."""
    is_early: bool = False
    """Whether it runs where that did, not where the kernel does."""

    @property
    def role(self) -> str:
        """That of the result."""
        (first, *_) = self.node.outputs
        return first


@dataclass(frozen=True)
class _Concatenation:
    graph: Graph
    values: KernelValues
    kernel: Node
    fusion: Instruction
    whole: Value
    pieces: Instruction
    """The concatenation in the computation of the fusion."""
    follows: Chain
    """The parts of an epilogue of all columns: operands with a value for each."""

    def done(self) -> bool:
        """Writes the pieces elsewhere, if that is possible."""
        writers: list[_Writer] = []
        for node, columns in self._pieces():
            taken = [writer.product for writer in writers if writer.product is not None]
            writer = self._written(node, columns, taken) or self._copied(node, columns)
            if writer is None:
                return False
            writers.append(writer)
        products = [writer for writer in writers if writer.product is not None]
        copies = [writer for writer in writers if writer.product is None]
        if not products:
            return False
        early = [writer for writer in products if writer.is_early]
        early.sort(key=lambda writer: position(writer.product) if writer.product else -1)
        late = [writer for writer in products if not writer.is_early]
        self._apply([*early, *late, *copies])
        return True

    def _apply(self, writers: Sequence[_Writer]) -> None:
        """Puts writers, in the order in which they run, in the place of the products and the kernel."""
        graph, size, home = self.graph, self.whole.size, self.whole.home
        base: Piece | None = None
        for writer in writers:
            value = self.whole if writer is writers[-1] else Value(size, home=home)
            result = replace(writer.node.outputs[writer.role], value=value, base=base)
            writer.node.outputs[writer.role] = result
            if "accumulator" in writer.node.outputs:
                writer.node.outputs["accumulator"] = replace(result, base=None)
            base = Piece(value, 0, size)
        *others, last = writers
        # All write a part of the value; one covers it.
        last.node.covers |= self.kernel.covers
        gone = [self.kernel] if last.product is None else [last.product, self.kernel]
        at = last.product if last.is_early else self.kernel
        graph.replace(gone, last.node, at=at)
        for writer in others:
            if writer.product is None:
                graph.insert(writer.node, last.node)
            else:
                graph.replace(
                    [writer.product],
                    writer.node,
                    at=writer.product if writer.is_early else last.node,
                )

    def _pieces(self) -> Iterator[tuple[Instruction, Columns]]:
        """The operands of the concatenation, and where they are to be."""
        (axis,), shape = self.pieces.dimensions, self.pieces.shape
        step, first = shape.dimensions[axis], 0
        for node in self.pieces.operands:
            count = node.shape.dimensions[axis]
            yield node, Columns(shape.elements // step, first, count, step)
            first += count

    def _written(
        self, node: Instruction, columns: Columns, taken: Sequence[Node]
    ) -> _Writer | None:
        """The product that can write a piece, of which nothing else reads the result."""
        for product, number in self.values.products(self.kernel):
            is_plain = getattr(product.op, "epilogue", None) is None and product not in taken
            if not is_plain:
                continue
            then = self._follows(columns)
            parts = read_parts(
                self.graph, product, self.kernel, self.fusion, number, node, then=then
            )
            if parts is not None and (writer := self._in_columns(product, parts, columns)):
                return writer
        return None

    def _in_columns(self, product: Node, parts: Named, columns: Columns) -> _Writer | None:
        new = Finish(self.graph, product, parts).in_columns(columns, self.whole)
        gone = (product, self.kernel)
        if new is None or over_operands(new, new.outputs["out"], gone):
            return None
        writes = [Piece.whole(self.whole)]
        at = next(places(self.graph, new, *gone, writes, gone), None)
        return None if at is None else _Writer(new, product, is_early=at is product)

    def _copied(self, node: Instruction, columns: Columns) -> _Writer | None:
        """The copy of a value in memory that is a piece."""
        source = self._in_memory(node)
        if (
            source is None
            or source.view.slice.size != columns.rows * columns.count * _FLOAT.item_bytes
        ):
            return None
        shape = (columns.rows, columns.count)
        rows = Operand(source.value, View.dense(source.view.slice, _FLOAT, shape))
        view = View(
            slice=columns.slice, element_type=_FLOAT, shape=shape, strides=(columns.step, 1)
        )
        if self.follows:
            writer, role = self._scaling(rows, columns), "write0"
        else:
            writer, role = Node(ops.Copy(), {"source": rows}), "destination"
        writer.origin = self.kernel.origin
        result = Result(self.whole, view)
        writer.outputs = {role: result}
        return None if over_operands(writer, result, (self.kernel,)) else _Writer(writer)

    def _scaling(self, rows: Operand, columns: Columns) -> Node:
        """The node that does to some columns of the whole what the fusion does; it has no result yet."""
        code = Code()
        number = code.number("read", read=rows)
        for name, part in self._follows(columns):
            repeated = {"element_type": _FLOAT, "shape": rows.view.shape, "strides": (0, 1)}
            view = part.view.model_copy(update=repeated)
            other = code.number("read", read=Operand(part.value, view))
            number = code.number(_OPCODES[name], number, other)
        reads, expression = code.finished([number])
        node = Node(ops.Elementwise(code=expression))
        node.inputs = {f"read{number}": read for number, read in enumerate(reads)}
        return node

    def _follows(self, columns: Columns) -> list[tuple[str, Operand]]:
        """The parts that follow in some of the columns, from the first of these on."""
        parts = []
        for name, part in self.follows:
            assert isinstance(part, Operand)
            item = _FLOAT.item_bytes
            offset = part.view.slice.offset + columns.first * item
            update = {"offset": offset, "size": columns.count * item}
            own = part.view.slice.model_copy(update=update)
            parts.append((name, Operand(part.value, View.of_bytes(own))))
        return parts

    def _in_memory(self, node: Instruction) -> Operand | None:
        number, arguments = parameter_of(node), list(self.kernel.inputs.values())
        if number is not None and len(arguments) == len(self.fusion.operands):
            return arguments[number]
        value = self.values.find(node, self.fusion, self.kernel)
        if value is None or value.producer is None:
            return None
        inside = between(value.producer, self.kernel)
        reads = [Piece.whole(value)]
        if not may_pass(self.graph, inside, reads=reads, without=(self.kernel,)):
            return None
        return whole(value)
