"""Products of the parts of one array with one matrix become one product, of which each takes its part.

    %x0 = slice %x [0:1, 0:4, 0:96] : (tensor<64x4x96xf32>) -> tensor<1x4x96xf32>
    %r0 = reshape %x0 : (tensor<1x4x96xf32>) -> tensor<4x96xf32>
    %y0 = dot_general %r0, %w, contracting_dims = [1] x [0]
->
    %y = dot_general %x, %w, contracting_dims = [2] x [0]
    %y0 = reshape (slice %y [0:1, 0:4, 0:48])

A loop over time that an exporter has unrolled multiplies the input of each step with the same weights, which are read again for
each: of a layer of 20 steps with weights of 6.5 MB, these products took 12 ms of 28, and take 2.5 as one. Each product is written as the
whole one, of which XLA keeps one.

It is done if the parts have three quarters of the array or more, so that little is computed in vain. The sums are the same, in an
order that the kernel decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op, TensorType
from .dot_general import Contraction, has_known_shapes, read_contraction
from .draft import Draft, Replacement

_SLICE = "stablehlo.slice"
_RANGES = re.compile(r"\[([\d:, ]*)\] : \(")
_FEWEST = 3
"""Products; two halves gain little."""


@dataclass(frozen=True)
class _Part:
    """A range along one axis of an array."""

    array: str
    axis: int
    first: int
    end: int
    has_axis: bool
    """Whether the value that it is has the axis; if not, it is one element of it."""

    @property
    def length(self) -> int:
        return self.end - self.first


def join_products_of_slices(
    graph: BlockGraph,
    op: Op,
    constants: Collection[str] = (),  # noqa: ARG001 - the matrix need not be constant
) -> Replacement | None:
    """The product of the whole array, and the part of it."""
    found = _read(graph, op)
    if found is None:
        return None
    product, part = found
    extent = graph.types[part.array].shape[part.axis] or 0
    others = _siblings(graph, product, part)
    if len(others) < _FEWEST or 4 * sum(one.length for one in others) < 3 * extent:
        return None
    return _joined(Draft(graph, op), graph, (product, part), graph.types[op.results[0][0]])


def _read(graph: BlockGraph, op: Op) -> tuple[Contraction, _Part] | None:
    """A product whose first operand is a part of an array, along an axis that it does not sum over."""
    product = read_contraction(graph, op)
    if product is None or product.batch[0]:
        return None
    part = _part(graph, product.operands[0])
    if part is None or product.operands[1] == part.array:
        return None
    if part.has_axis:
        return None if part.axis in product.contracting[0] else (product, part)
    return product, part


def _part(graph: BlockGraph, name: str) -> _Part | None:
    op = graph.ops.get(name)
    if op is not None and op.name == o.RESHAPE and has_known_shapes(graph, op):
        part = _sliced(graph, graph.operands(op)[0])
        shape = list(graph.types[graph.operands(op)[0]].shape)
        if part is None or part.length != 1:
            return None
        del shape[part.axis]
        return replace(part, has_axis=False) if tuple(shape) == graph.types[name].shape else None
    return _sliced(graph, name)


def _sliced(graph: BlockGraph, name: str) -> _Part | None:
    """A slice without steps that is shorter along one axis."""
    op = graph.ops.get(name)
    if op is None or op.name != _SLICE or not has_known_shapes(graph, op):
        return None
    array, made = graph.operands(op)[0], graph.types[name].shape
    whole = graph.types[array].shape
    ranges = [o.numbers(one.replace(":", ",")) for one in _ranges(op)]
    axes = [axis for axis, extent in enumerate(made) if extent != whole[axis]]
    if len(axes) != 1 or len(ranges) != len(whole) or len(ranges[axes[0]]) != 2:
        return None
    first, end = ranges[axes[0]]
    return _Part(array, axes[0], first, end, has_axis=True)


def _ranges(op: Op) -> list[str]:
    match = _RANGES.search(op.text)
    return match[1].split(",") if match else []


def _siblings(graph: BlockGraph, product: Contraction, part: _Part) -> list[_Part]:
    """The parts of the array, along the same axis, that are multiplied in the same way; this one, too."""
    found = {}
    for slicing in graph.readers(part.array):
        values = [name for name, _ in slicing.results]
        for name in values:
            of_reshape = [r for reader in graph.readers(name) for r, _ in reader.results]
            for reader in (r for n in (name, *of_reshape) for r in graph.readers(n)):
                other = _read(graph, reader)
                if other is None or other[1].array != part.array or other[1].axis != part.axis:
                    continue
                alike = replace(other[0], operands=product.operands) == product
                if alike and other[0].operands[1] == product.operands[1]:
                    found[other[1].first] = other[1]
    return list(found.values())


def _joined(
    draft: Draft, graph: BlockGraph, what: tuple[Contraction, _Part], kind: TensorType
) -> Replacement:
    product, part = what
    array, matrix = part.array, product.operands[1]
    shape = graph.types[array].shape
    summed = product.contracting[0]
    if not part.has_axis:
        summed = tuple(axis + (axis >= part.axis) for axis in summed)
    whole = replace(
        product,
        operands=(array, matrix),
        contracting=(summed, product.contracting[1]),
        ranks=(len(shape), product.ranks[1]),
    )
    of_matrix = [graph.types[matrix].shape[axis] for axis in whole.free(1)]
    made = TensorType((*(shape[axis] for axis in whole.free(0)), *of_matrix), kind.element)
    result = draft.add(whole.write([graph.types[array], graph.types[matrix]], made), made)
    axis = whole.free(0).index(part.axis)
    ranges = [f"0:{extent}" for extent in made.shape]
    ranges[axis] = f"{part.first}:{part.end}"
    length = (*made.shape[:axis], part.length, *made.shape[axis + 1 :])
    own = TensorType(length, kind.element)
    text = f"{_SLICE} %{result} [{', '.join(ranges)}] : ({o.written(made)}) -> {o.written(own)}"
    if part.has_axis:
        return draft.finish(text)
    return draft.finish(o.reshape(draft.add(text, own), own, kind))
