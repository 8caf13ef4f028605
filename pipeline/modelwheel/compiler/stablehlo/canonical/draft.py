"""The lines that a rule puts in the place of an operation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op, TensorType


@dataclass(frozen=True)
class Replacement:
    """Operations in the place of one; the last one computes its result."""

    lines: tuple[str, ...]
    """Without indentation."""


class Draft:
    """Writes the operations before the last one; each has a new name."""

    def __init__(self, graph: BlockGraph, op: Op) -> None:
        self._graph = graph
        self._root = op.results[0][0]
        self._lines: list[str] = []
        self._made: dict[str, TensorType] = {}

    def type(self, name: str) -> TensorType:
        """The type of a value of the module or of this draft."""
        return self._made[name] if name in self._made else self._graph.types[name]

    def finish(self, text: str) -> Replacement:
        """The replacement whose last operation is this."""
        return Replacement((*self._lines, f"%{self._root} = {text}"))

    def finish_transposed(self, name: str, order: Sequence[int]) -> Replacement:
        """The replacement whose last operation is a transpose of this value."""
        source = self.type(name)
        made = TensorType(tuple(source.shape[axis] for axis in order), source.element)
        return self.finish(o.transpose(name, source, made, order))

    def add(self, text: str, kind: TensorType) -> str:
        """The name of the result of an operation."""
        name = f"{self._root}{PLACE}{len(self._lines)}"
        self._lines.append(f"%{name} = {text}")
        self._made[name] = kind
        return name

    def reshape(self, name: str, shape: Sequence[int | None]) -> str:
        """A value with another shape; itself if it has that."""
        source = self.type(name)
        made = TensorType(tuple(shape), source.element)
        return name if made == source else self.add(o.reshape(name, source, made), made)

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """A value with its axes in another order; itself if that is the same."""
        if list(order) == list(range(len(order))):
            return name
        source = self.type(name)
        made = TensorType(tuple(source.shape[axis] for axis in order), source.element)
        return self.add(o.transpose(name, source, made, order), made)

    def broadcast(self, name: str, axes: Sequence[int], shape: Sequence[int | None]) -> str:
        """A value repeated along further axes; itself if there are none."""
        source = self.type(name)
        made = TensorType(tuple(shape), source.element)
        if made == source and list(axes) == list(range(len(axes))):
            return name
        return self.add(o.broadcast(name, source, made, axes), made)

    def spread(self, name: str, axes: Sequence[int], shape: Sequence[int | None]) -> str:
        """A value repeated along further axes, whose own axes may be in another order."""
        order = sorted(range(len(axes)), key=axes.__getitem__)
        return self.broadcast(self.transpose(name, order), sorted(axes), shape)

    def unary(self, op: str, name: str) -> str:
        """An operation of one value."""
        kind = self.type(name)
        return self.add(f"stablehlo.{op} %{name} : {o.written(kind)}", kind)

    def binary(self, op: str, left: str, right: str) -> str:
        """An operation of two values of one type."""
        kind = self.type(left)
        return self.add(f"stablehlo.{op} %{left}, %{right} : {o.written(kind)}", kind)

    def number(self, value: float, element: str) -> str:
        """A scalar."""
        kind = TensorType((), element)
        return self.add(f"stablehlo.constant dense<{value:e}> : {o.written(kind)}", kind)

    def total(self, name: str, axes: Sequence[int]) -> str:
        """The sum along some axes."""
        return self.reduced(name, axes, "add", "0.000000e+00")

    def reduced(self, name: str, axes: Sequence[int], op: str, start: str) -> str:
        """A reduction along some axes, from a number as MLIR writes it."""
        source = self.type(name)
        scalar = TensorType((), source.element)
        first = self.add(f"stablehlo.constant dense<{start}> : {o.written(scalar)}", scalar)
        shape = tuple(extent for axis, extent in enumerate(source.shape) if axis not in axes)
        made = TensorType(shape, source.element)
        types = f"({o.written(source)}, {o.written(scalar)}) -> {o.written(made)}"
        applied = f"applies stablehlo.{op} across dimensions = {list(axes)}"
        return self.add(f"stablehlo.reduce(%{name} init: %{first}) {applied} : {types}", made)

    def without(self, name: str, axes: Collection[int]) -> str:
        """A value without axes along which it is repeated (see `repeated_axes`), at any of their positions."""
        kind = self.type(name)
        kept = [axis for axis in range(len(kind.shape)) if axis not in axes]
        shape = [kind.shape[axis] for axis in kept]
        if len(kept) == len(kind.shape):
            return name
        op = self._graph.ops.get(name)
        if all(kind.shape[axis] == 1 for axis in axes):
            return self.reshape(name, shape)
        assert op is not None, "it is repeated along these axes"
        operand = next(iter(self._graph.operands(op)), "")
        if op.name == o.BROADCAST:
            to = o.dimensions(op.text) or []
            inner = self.without(operand, {n for n, axis in enumerate(to) if axis in axes})
            return self.broadcast(inner, [kept.index(axis) for axis in to if axis in kept], shape)
        if op.name == o.TRANSPOSE:
            order = o.dimensions(op.text) or []
            gone = {order[axis] for axis in axes}
            left = [axis for axis in range(len(order)) if axis not in gone]
            inner = self.without(operand, gone)
            return self.transpose(inner, [left.index(order[axis]) for axis in kept])
        if op.name == o.CONVERT:
            inner = self.without(operand, axes)
            made = TensorType(tuple(shape), kind.element)
            types = f"({o.written(self.type(inner))}) -> {o.written(made)}"
            return self.add(f"{o.CONVERT} %{inner} : {types}", made)
        if op.name == o.RESHAPE:
            return self._without_of_reshape(operand, kind, set(axes))
        first = self._graph.types[name]  # a constant of one number
        text = op.text.rpartition(" : ")[0].strip()
        made = TensorType(tuple(shape), first.element)
        return self.add(f"stablehlo.constant {text} : {o.written(made)}", made)

    def _without_of_reshape(self, operand: str, kind: TensorType, axes: set[int]) -> str:
        groups = reshaped_axes(self._graph.types[operand].shape, kind.shape)
        groups = [(before, after) for before, after in groups if before and axes & {*after}]
        # Of axes that a reshape has split, some may be left.
        every = axes | {axis for _, after in groups for axis in after}
        inner = self.without(operand, {axis for before, _ in groups for axis in before})
        left = [axis for axis in range(len(kind.shape)) if axis not in every]
        plain = self.reshape(inner, [kind.shape[axis] for axis in left])
        kept = [axis for axis in range(len(kind.shape)) if axis not in axes]
        shape = [kind.shape[axis] for axis in kept]
        return self.broadcast(plain, [kept.index(axis) for axis in left], shape)


PLACE = "$$"
"""Between the name of an operation and the number of a value that replaces it; `canonical_form` makes the names unique."""


def repeated_axes(graph: BlockGraph, name: str) -> frozenset[int]:
    """The axes of a value along which all its elements are the same by what computes it.

    Axes of one element count only if a broadcast has made them.
    """
    kind, op = graph.types.get(name), graph.ops.get(name)
    if kind is None or op is None:
        return frozenset()
    every = frozenset(range(len(kind.shape)))
    if op.name == "stablehlo.constant":
        return every if _is_number(op.text) else frozenset()
    operands = graph.operands(op)
    if len(operands) != 1 or operands[0] not in graph.types:
        return frozenset()
    source, inner = graph.types[operands[0]], repeated_axes(graph, operands[0])
    if op.name == o.CONVERT:
        return inner
    axes = o.dimensions(op.text)
    if op.name == o.BROADCAST and axes is not None:
        fixed = (a for n, a in enumerate(axes) if n not in inner and source.shape[n] != 1)
        alone = (a for n, a in enumerate(axes) if kind.shape[a] == 1 and n not in inner)
        return every - {*fixed, *alone}
    if op.name == o.TRANSPOSE and axes is not None:
        return frozenset(n for n, axis in enumerate(axes) if axis in inner)
    if op.name == o.RESHAPE:
        groups = reshaped_axes(source.shape, kind.shape)
        return frozenset(
            axis
            for before, after in groups
            if before and all(axis in inner for axis in before)
            for axis in after
        )
    return frozenset()


def _is_number(text: str) -> bool:
    return "dense<[" not in text and 'dense<"' not in text and "dense<" in text


def reshaped_axes(
    source: Sequence[int | None], made: Sequence[int | None]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The axes before and after a reshape that have the same elements, as small groups as possible.

    Axes of one element are groups of their own: before or after, the other side is empty.
    """
    if None in source or None in made or math.prod(map(int, filter(None, source))) == 0:
        return [(tuple(range(len(source))), tuple(range(len(made))))]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    left = [axis for axis, extent in enumerate(source) if extent != 1]
    right = [axis for axis, extent in enumerate(made) if extent != 1]
    groups += [((axis,), ()) for axis, extent in enumerate(source) if extent == 1]
    groups += [((), (axis,)) for axis, extent in enumerate(made) if extent == 1]
    for before, after in _aligned([source[a] or 0 for a in left], [made[a] or 0 for a in right]):
        groups.append((tuple(left[n] for n in before), tuple(right[n] for n in after)))
    return groups


def _aligned(left: list[int], right: list[int]) -> list[tuple[range, range]]:
    """Pairs of runs of extents that have the same products."""
    ends = [list(itertools.accumulate(extents, lambda a, b: a * b)) for extents in (left, right)]
    cuts = sorted({*ends[0]} & {*ends[1]})
    ranges, first = [], (0, 0)
    for cut in cuts:
        last = ends[0].index(cut) + 1, ends[1].index(cut) + 1
        ranges.append((range(first[0], last[0]), range(first[1], last[1])))
        first = last
    return ranges
