"""Lets poolings read the rows that they pool in the table that these are looked up in.

    %2 u8[6,64] = lookup %0 u8[50,64], %1 s32[6]
    %3 f32[2,1,1,16] = pooling %2 f32[2,3,1,16] {reducer=sum}

    =>  %3 f32[2,1,1,16] = embedding_bag %0 u8[50,64], %1 s32[6] {pooling={reducer=sum}}

The mean of the words of a sentence is one: the rows of all words are never in memory.

When: always, if nothing else reads the rows. Bits: the same, a pooling takes them in the same order.
"""

from __future__ import annotations

from ...dtypes import ElementType
from ...program.ops import EmbeddingBag, Lookup, Pooling
from ..ir.graph import Graph, Join, Node


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
    nodes = lookup.region.nodes
    return not any(map(_changes_memory, nodes[nodes.index(lookup) + 1 : nodes.index(pool)]))


def _changes_memory(node: Node) -> bool:
    """Whether a node may write over a value, which could be what is looked up."""
    results = node.outputs.values()
    return (
        isinstance(node.op, Join)
        or bool(node.regions)
        or any(result.base is not None or result.near for result in results)
    )
