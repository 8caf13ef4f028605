"""Products of matrices in the text of a module: which axes go together, and which are free."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op, TensorType

_PAIR = r"\[([\d, ]*)\] x \[([\d, ]*)\]"
_ATTRIBUTES = re.compile(
    rf"(?:, batching_dims = {_PAIR})?, contracting_dims = {_PAIR}(?P<more>.*) : \("
)


@dataclass(frozen=True)
class Contraction:
    """A `dot_general`."""

    operands: tuple[str, str]
    batch: tuple[tuple[int, ...], tuple[int, ...]]
    """Of each operand, those that go together in the same places."""
    contracting: tuple[tuple[int, ...], tuple[int, ...]]
    ranks: tuple[int, int]
    more: str
    """What follows in the text: precision and algorithm."""

    def free(self, side: int) -> list[int]:
        """The axes of an operand that only it has, in order."""
        bound = (*self.batch[side], *self.contracting[side])
        return [axis for axis in range(self.ranks[side]) if axis not in bound]

    def result_axes(self, side: int) -> list[int]:
        """The axes of the result that are the free axes of an operand."""
        first = len(self.batch[0]) + (len(self.free(0)) if side else 0)
        return list(range(first, first + len(self.free(side))))

    def write(self, sources: Sequence[TensorType], made: TensorType) -> str:
        """The operation, for operands of these types."""
        batch, contracting = (
            f"{list(pair[0])} x {list(pair[1])}" for pair in (self.batch, self.contracting)
        )
        axes = f", batching_dims = {batch}" if self.batch[0] else ""
        axes += f", contracting_dims = {contracting}"
        left, right = self.operands
        types = f"({o.written(sources[0])}, {o.written(sources[1])}) -> {o.written(made)}"
        return f"stablehlo.dot_general %{left}, %{right}{axes}{self.more} : {types}"


def read_contraction(graph: BlockGraph, op: Op) -> Contraction | None:
    """A product of values of known shapes; None for another operation."""
    match = _ATTRIBUTES.search(op.text) if op.name == "stablehlo.dot_general" else None
    operands = graph.operands(op) if match else []
    if match is None or len(operands) != 2 or not has_known_shapes(graph, op):
        return None
    left, right, one, other = (tuple(o.numbers(group)) for group in match.groups()[:4])
    first, second = operands
    ranks = len(graph.types[first].shape), len(graph.types[second].shape)
    return Contraction((first, second), (left, right), (one, other), ranks, match["more"])


def has_known_shapes(graph: BlockGraph, op: Op) -> bool:
    """Whether an operation has one result, and all extents of it and of its operands are known."""
    if [count for _, count in op.results] != [1]:
        return False
    names = [op.results[0][0], *graph.operands(op)]
    return all(n in graph.types and None not in graph.types[n].shape for n in names)
