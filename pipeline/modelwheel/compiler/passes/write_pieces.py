"""Lets products write what is copied into columns of an array there at once.

    %4 f32[9,6] = dot %0, %1                                %6 f32[9,6]{10,1}+16 = dot %0, %1
    %5 = pooling %4 f32[1,3,3,6]                            %5 = pooling %6 f32[1,3,3,6]{30,10,1}+16
    %6 f32[9,4]{10,1} = dot %2, %3                  =>      %7 f32[9,4]{10,1} into %6 = dot %2, %3
    %7 f32[9,6]{10,1}+16 into %6 = copy %4

`WriteConcatenations` makes such copies of what others read too.

When: only poolings of all columns read it besides the copy: they can read rows that are further apart. After epilogues are
fused, so that the product is the one that writes what is copied. Bits: the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ...dtypes import ElementType
from ...program import ops
from ...program.aliases import rows_of
from ...program.view import View
from ..ir.graph import Graph, Node, Operand, Piece, Result, Value
from ..ir.ordering import between, may_pass, over_operands, position
from .match.product_epilogues import Columns, Finish

_FLOAT = ElementType.FLOAT32
_WRITERS = (ops.Dot, ops.Convolution, ops.Copy)


class WritePieces:
    """See above."""

    name = "write-pieces"

    def run(self, graph: Graph) -> int:
        """Leaves out copies; returns how many."""
        copies = [node for node in graph.walk() if isinstance(node.op, ops.Copy)]
        return sum(_write_at_once(graph, copy) for copy in copies)


def _write_at_once(graph: Graph, copy: Node) -> bool:
    """Lets the product that computes what is copied write it where it belongs, if that is possible."""
    columns, chain = _columns_of(copy), _chain(copy)
    if not copy.inputs["source"].view.is_row_major():
        return False
    source = copy.inputs["source"].value
    product = source.producer
    if columns is None or product is None or product.region is not copy.region:
        return False
    if not isinstance(product.op, ops.Dot | ops.Convolution) or not _are_apart(chain):
        return False
    pools = [user for user in source.users if user is not copy]
    if any(piece.value is source for piece, _ in graph.results):
        return False
    if not all(_is_read_whole(source, user) for user in source.users):
        return False
    if not all(_is_pooling(pool, source, columns) for pool in pools):
        return False
    whole = _result_of(chain[-1]).value
    new = Finish(graph, product, {}).in_columns(columns, whole)
    gone = (product, copy)
    if new is None or over_operands(new, new.outputs["out"], gone):
        return False
    versions = {_result_of(node).value for node in chain}
    inside = [
        node
        for node in between(product, copy)
        if node not in chain
        and versions.isdisjoint(operand.value for operand in node.inputs.values())
    ]
    writes = [Piece.whole(whole)]
    if not may_pass(graph, inside, writes=writes, without=gone):
        return False
    _Chain(graph, [node for node in chain if node is not copy], whole).take(
        new, product, copy, columns
    )
    return True


@dataclass(frozen=True)
class _Chain:
    """The nodes that write columns of an array, in order."""

    graph: Graph
    nodes: Sequence[Node]
    whole: Value

    def take(self, new: Node, product: Node, copy: Node, columns: Columns) -> None:
        """Puts a node, which writes what a copy does, in the place of a product."""
        old = [_result_of(node).value for node in (*self.nodes, copy)]
        order = sorted((*self.nodes, product), key=position)
        values = [Value(self.whole.size, home=self.whole.home) for _ in order[:-1]]
        values.append(self.whole)
        (source,) = (operand.value for operand in copy.inputs.values())
        readers = {user for value in old if value is not self.whole for user in value.users}
        for reader in (*readers.difference(self.nodes, [copy]), *source.users):
            if reader is not copy:
                # What it reads is there in the array as it is then.
                at = sum(position(node) < position(reader) for node in order) - 1
                self._read(reader, source, {*old, source} - {self.whole}, values[at], columns)
        self.graph.detach(copy)
        for number, node in enumerate(order):
            base = Piece(values[number - 1], 0, self.whole.size) if number else None
            is_new = node is product
            outputs = _with_value(new if is_new else node, values[number], base)
            if is_new:
                new.outputs, new.covers = outputs, new.covers | copy.covers
            else:
                self.graph.update(node, node.inputs, outputs)
        self.graph.replace([product], new)

    def _read(
        self, reader: Node, source: Value, old: set[Value], value: Value, columns: Columns
    ) -> None:
        """Lets a node read an array instead of what it was or of what is in columns of it."""
        inputs = dict(reader.inputs)
        for role, operand in inputs.items():
            if operand.value is source:
                inputs[role] = Operand(value, _in_columns(operand.view, columns))
            elif operand.value in old:
                inputs[role] = Operand(value, operand.view)
        self.graph.update(reader, inputs, reader.outputs)


def _in_columns(images: View, columns: Columns) -> View:
    """The view of a pooling's images in columns of an array."""
    *outer, last = images.strides
    strides = (*(step // columns.count * columns.step for step in outer), last)
    return images.model_copy(update={"slice": columns.slice, "strides": strides})


def _with_value(node: Node, value: Value, base: Piece | None) -> dict[str, Result]:
    """The results of a node that writes to another version of the array."""
    main = _role_of(node)
    return {
        role: replace(result, value=value, base=base if role == main else None)
        for role, result in node.outputs.items()
    }


# --- which copies -------------------------------------------------------------------------------------


def _result_of(node: Node) -> Result:
    return node.outputs[_role_of(node)]


def _role_of(node: Node) -> str:
    return "destination" if isinstance(node.op, ops.Copy) else "out"


def _chain(copy: Node) -> list[Node]:
    """The nodes that write into one array, one after the other, among them a copy."""
    chain = [copy]
    while (base := _result_of(chain[0]).base) is not None:
        before = base.value.producer
        if before is None or not _is_version(base.value, before, copy):
            break
        chain.insert(0, before)
    while True:
        value = _result_of(chain[-1]).value
        after = [user for user in value.users if _is_next(value, user, copy)]
        if len(after) != 1:
            return chain
        chain += after


def _is_next(value: Value, node: Node, copy: Node) -> bool:
    if not isinstance(node.op, _WRITERS):
        return False
    result = _result_of(node)
    return (
        result.base is not None
        and result.base.value is value
        and _is_version(result.value, node, copy)
    )


def _is_version(value: Value, node: Node, copy: Node) -> bool:
    """Whether a node, in the region of a copy, writes columns of the array that it writes too."""
    return (
        isinstance(node.op, _WRITERS)
        and node.region is copy.region
        and _result_of(node).value is value
        and value.size == _result_of(copy).value.size
    )


def _columns_of(node: Node) -> Columns | None:
    """Where in the rows of an array a node writes; None if it does not write such columns."""
    result = _result_of(node)
    view, elements = result.view, result.value.size // _FLOAT.item_bytes
    rows = rows_of(view)
    if view.element_type != _FLOAT or rows is None or not rows.count or view.slice.step:
        return None
    step = elements // rows.count
    if step * rows.count != elements or rows.start:
        return None
    if rows.count > 1 and rows.period != step * _FLOAT.item_bytes:
        return None
    first, count = view.slice.offset // _FLOAT.item_bytes, rows.length // _FLOAT.item_bytes
    return Columns(rows.count, first, count, step) if first + count <= step else None


def _are_apart(chain: Sequence[Node]) -> bool:
    """Whether the nodes of a chain, of which at least two are there, write other columns of rows of one length."""
    slices = [_columns_of(node) for node in chain]
    known = sorted((part for part in slices if part is not None), key=lambda part: part.first)
    return (
        1 < len(known) == len(slices)
        and len({part.step for part in known}) == 1
        and all(left.first + left.count <= right.first for left, right in pairwise(known))
    )


def _is_read_whole(source: Value, user: Node) -> bool:
    """Whether one operand of a node is all of a value, and nothing else of the node has to do with it."""
    read = [operand.view.slice for operand in user.inputs.values() if operand.value is source]
    return list(user.used).count(source) == 1 and [(part.size, part.step) for part in read] == [
        (source.size, 0)
    ]


def _is_pooling(node: Node, source: Value, columns: Columns) -> bool:
    """Whether a node pools images whose features are the columns."""
    images = node.inputs.get("input")
    return (
        isinstance(node.op, ops.Pooling)
        and node.region is not None
        and images is not None
        and images.value is source
        and images.view.is_row_major()
        and images.view.shape[-1] == columns.count
    )
