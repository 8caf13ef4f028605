"""Lets poolings read the rows that they pool in the table that these are looked up in.

    %2 u8[6,64] = lookup %0 u8[50,64], %1 s32[6]
    %3 f32[2,1,1,16] = pooling %2 f32[2,3,1,16] {reducer=sum}

    =>  %3 f32[2,1,1,16] = embedding_bag %0 u8[50,64], %1 s32[6] {pooling={reducer=sum}}

The mean of the words of a sentence is one: the rows of all words are never in memory.

When: always, if nothing else reads the rows, and table and indices last until the pooling. Bits: the same, a pooling takes them in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import ElementType
from ...program.arrays import overlap
from ...program.ops import EmbeddingBag, Lookup, Pooling
from ..ir.graph import Graph, Node, Value
from ..ir.ordering import between


class FuseEmbeddingBags:
    """See above."""

    name = "fuse-embedding-bags"

    def run(self, graph: Graph) -> int:
        """Fuses; returns how many poolings."""
        return sum(_fuse(graph, node) for node in list(graph.walk()))


def _fuse(graph: Graph, pool: Node) -> bool:
    """Makes one node of a pooling and the look-up whose rows it reads, if it may."""
    if not isinstance(pool.op, Pooling):
        return False
    rows = pool.inputs["input"]
    lookup, view = rows.value.producer, rows.view
    if lookup is None or not isinstance(lookup.op, Lookup) or not _is_alone(graph, lookup, pool):
        return False
    batch, height, width, features = view.shape
    fits = (
        pool.op.padding is None
        and view.is_row_major()
        and not (view.start or view.slice.offset or view.slice.step)
        and features * ElementType.FLOAT32.item_bytes == lookup.outputs["output"].view.shape[1]
        and batch * height * width == lookup.inputs["indices"].view.elements
    )
    if not fits:
        return False
    op = EmbeddingBag(lookup=lookup.op, pooling=pool.op, in_size=(height, width))
    bag = graph.merged(op, [lookup, pool])
    bag.inputs, bag.outputs = dict(lookup.inputs), dict(pool.outputs)
    graph.replace([lookup, pool], bag)
    return True


def _is_alone(graph: Graph, lookup: Node, pool: Node) -> bool:
    """Whether rows are looked up for one pooling, which may look them up itself."""
    (rows,) = lookup.values
    (result,) = pool.outputs.values()
    if lookup.region is not pool.region or lookup.region is None or not rows.has_one_use:
        return False
    if result.near or any(piece.value is rows for piece, _ in graph.results):
        return False
    until = [*between(lookup, pool), pool]
    return all(_stays(graph, operand.value, until) for operand in lookup.inputs.values())


def _stays(graph: Graph, value: Value, nodes: Sequence[Node]) -> bool:
    """Whether nodes write nothing to the memory of a value: what they write may have to be there, as the state of a loop."""
    inner = [child for node in nodes for region in node.regions for child in graph.walk(region)]
    homes = [written.home for node in (*nodes, *inner) for written in node.values]
    own = value.home
    return own is not None and all(home is not None and not overlap(home, own) for home in homes)
