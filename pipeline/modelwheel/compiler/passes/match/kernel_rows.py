"""Which parts of a kernel's arguments some first rows of its results are computed from, as its HLO says.

An array is divided into groups of equal chunks of its memory; a batch in front of all else is in one group, and one behind
the steps of a sequence in as many groups as there are steps. For a number of chunks, each instruction is followed from the
result back to what it reads: the first chunks of each group are enough of some operands, and all of others may be needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ....program.ops import RowsApart
from ...ir.hlo import Instruction, Shape

_ALL = 0
"""Instead of a number of groups: all of a value may be needed."""


def rows_apart(instruction: Instruction) -> Iterator[RowsApart]:
    """For some numbers of chunks, the arguments of a kernel of which the first chunks are enough; the most useful ones."""
    parameters, body = _parts(instruction)
    found: list[RowsApart] = []
    for count, groups in _divisions([one.shape for one in (*body, *parameters)]):
        needs = _needs(body, count, groups)
        first = [n for n, one in enumerate(parameters) if needs.get(one) != _ALL]
        own = [needs.get(parameters[n]) for n in first]
        if not any(own) or any(_says_more(old, (count, groups), first) for old in found):
            continue
        of_arguments = tuple(number or 1 for number in own)
        several = of_arguments if set(of_arguments) != {1} else ()
        found.append(
            RowsApart(count=count, arguments=tuple(first), groups=groups, argument_groups=several)
        )
    yield from found


def _divisions(shapes: Sequence[Shape]) -> Sequence[tuple[int, int]]:
    """The numbers of chunks, the largest first, and of groups that axes of some arrays are."""
    found = {
        (shape.dimensions[axis], _before(shape, axis))
        for shape in shapes
        if not shape.tuple_shapes
        for axis in range(shape.rank)
    }
    return sorted((one for one in found if one[0] > 1), key=lambda one: (one[1], -one[0]))


def _says_more(one: RowsApart, division: tuple[int, int], arguments: Sequence[int]) -> bool:
    count, groups = division
    is_finer = one.groups == groups and one.count % count == 0
    return is_finer and set(arguments) <= set(one.arguments)


def _parts(instruction: Instruction) -> tuple[Sequence[Instruction], Sequence[Instruction]]:
    """A kernel's operands, and the instructions that it computes; the last one is the result."""
    if instruction.opcode != "fusion":
        return instruction.operands, (instruction,)
    (computation,) = instruction.called
    others = (one for one in computation.instructions if one is not computation.root)
    return computation.parameters, (*others, computation.root)


def _needs(body: Sequence[Instruction], count: int, groups: int) -> Mapping[Instruction, int]:
    """Of each value that the first chunks of the last one are computed from, in how many groups its first chunks are
    enough, or `_ALL`."""
    needs: dict[Instruction, int] = {}

    def note(value: Instruction, need: int) -> None:
        parts, elements = count * need, value.shape.elements
        divides = need and (value.shape.tuple_shapes or (elements and elements % parts == 0))
        needs[value] = need if divides and needs.get(value, need) == need else _ALL

    note(body[-1], groups)
    for one in reversed(body):
        need = needs.get(one)
        if need is None:
            continue
        first = _first_of(one, count, need) if need else {}
        for number, operand in enumerate(one.operands):
            note(operand, first.get(number, _ALL))
    return needs


def _first_of(one: Instruction, count: int, groups: int) -> Mapping[int, int]:
    """The groups of the operands whose first chunks are enough for those of a value, by number."""
    if one.opcode in _SAME_MEMORY:
        return dict.fromkeys(range(len(one.operands)), groups)
    if one.opcode == "reshape":
        shapes = one.shape, one.operands[0].shape
        return {0: groups} if all(map(_is_row_major, shapes)) else {}
    place = _place(one.shape, count, groups)
    if place is None:
        return {}
    rule = _in_order if one.opcode in _IN_ORDER else _RULES.get(one.opcode)
    found: dict[int, int] = {}
    for number, axis in () if rule is None else rule(one, place.axis):
        read = one.operands[number].shape
        if read.dimensions[axis] == place.extent:
            found[number] = _before(read, axis) * place.groups
    return found


# --- shapes -------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """The axis that groups and chunks are along."""

    axis: int
    extent: int
    groups: int
    """The groups along this axis itself: those of all axes that vary slower are others."""


def _place(shape: Shape, count: int, groups: int) -> _Place | None:
    """Where so many groups of chunks are; None if it is not one axis, or those of a tuple, if they are not alike."""
    one, *others = shape.tuple_shapes or (shape,)
    if any(_place(other, count, groups) != _place(one, count, groups) for other in others):
        return None
    for axis, extent in enumerate(one.dimensions):
        before = _before(one, axis)
        if extent > 1 and before <= groups < before * extent:
            own, rest = divmod(groups, before)
            is_along = not rest and extent % (own * count) == 0
            return _Place(axis, extent, own) if is_along else None
    return None


def _before(shape: Shape, axis: int) -> int:
    """The elements of all axes that vary slower than one."""
    order = shape.minor_to_major
    return math.prod(shape.dimensions[other] for other in order[order.index(axis) + 1 :])


def _is_row_major(shape: Shape) -> bool:
    return shape.minor_to_major == tuple(reversed(range(shape.rank)))


# --- instructions -------------------------------------------------------------------------------------

_SAME_MEMORY = frozenset({"bitcast", "get-tuple-element", "tuple"})
# fmt: off
_IN_ORDER = frozenset(
    {
        "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "copy", "cosine",
        "divide", "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one",
        "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real",
        "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
        "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
    }
)
# fmt: on
"""Each element is computed from those at its place."""

_Axes: TypeAlias = Iterator[tuple[int, int]]
"""The numbers of operands whose first chunks are enough, and the axis of each that they are along. They are if it is as
long as that of the value."""
_Rule: TypeAlias = Callable[[Instruction, int], _Axes]
"""Takes an instruction and the axis of its result."""


def _in_order(one: Instruction, axis: int) -> _Axes:
    for number, operand in enumerate(one.operands):
        if operand.shape.dimensions == one.shape.dimensions:
            yield number, axis


def _broadcast(one: Instruction, axis: int) -> _Axes:
    if axis in one.dimensions:
        yield 0, one.dimensions.index(axis)


def _transpose(one: Instruction, axis: int) -> _Axes:
    yield 0, one.dimensions[axis]


def _reduce(one: Instruction, axis: int) -> _Axes:
    rank = one.operands[0].shape.rank
    kept = [own for own in range(rank) if own not in one.dimensions]
    for number in range(len(one.operands) // 2):
        yield number, kept[axis]


def _concatenate(one: Instruction, axis: int) -> _Axes:
    if axis not in one.dimensions:
        for number in range(len(one.operands)):
            yield number, axis


def _pad(one: Instruction, axis: int) -> _Axes:
    sides = one.padding[axis]
    if not (sides.low or sides.high or sides.interior):
        yield 0, axis


def _slice(one: Instruction, axis: int) -> _Axes:
    if one.slices[axis].stride == 1 and not one.slices[axis].start:
        yield 0, axis


def _reverse(one: Instruction, axis: int) -> _Axes:
    if axis not in one.dimensions:
        yield 0, axis


def _dynamic_slice(_: Instruction, axis: int) -> _Axes:
    # As long as the array along that axis, it begins at 0 whatever its index is.
    yield 0, axis


def _dynamic_update_slice(one: Instruction, axis: int) -> _Axes:
    if one.operands[1].shape.dimensions[axis] == one.shape.dimensions[axis]:
        yield 0, axis
        yield 1, axis


def _reduce_window(one: Instruction, axis: int) -> _Axes:
    if len(one.operands) != 2 or one.shape.tuple_shapes:
        return
    window = one.window[axis]
    plain = (window.size, window.stride, window.pad_low, window.pad_high, window.base_dilation)
    if plain == (1, 1, 0, 0, 1):
        yield 0, axis


def _gather(one: Instruction, axis: int) -> _Axes:
    """Of indices, if those of a row are apart."""
    numbers = one.gather
    if numbers is None or axis != 0 or numbers.operand_batching_dims or 0 in numbers.offset_dims:
        return
    if numbers.index_vector_dim != 0:
        yield 1, 0


_RULES: Mapping[str, _Rule] = {
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "reverse": _reverse,
    "slice": _slice,
    "transpose": _transpose,
}
