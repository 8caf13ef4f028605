"""Which parts of a kernel's arguments some first rows of its results are computed from, as its HLO says.

All arrays are divided into as many equal chunks of their memory. For a number of chunks, each instruction is followed from
the result back to what it reads: its first chunks are enough of some operands, and all of others may be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

from ....program.ops import RowsApart
from ...ir.hlo import Instruction, Shape


class _Need(Enum):
    """How much of a value is needed for the first chunks of the result."""

    FIRST = auto()
    ALL = auto()


def rows_apart(instruction: Instruction) -> Iterator[RowsApart]:
    """For some numbers of chunks, the arguments of a kernel of which the first chunks are enough; the most useful ones."""
    parameters, body = _parts(instruction)
    shapes = [one.shape for one in (*body, *parameters)]
    leads = ((shape, _lead(shape)) for shape in shapes)
    counts = {shape.dimensions[axis] for shape, axis in leads if axis is not None}
    found: list[RowsApart] = []
    for count in sorted(counts - {0, 1}, reverse=True):
        needs = _needs(body, count)
        first = [n for n, one in enumerate(parameters) if needs.get(one) is not _Need.ALL]
        useful = any(needs.get(parameters[n]) is _Need.FIRST for n in first)
        new = RowsApart(count=count, arguments=tuple(first))
        if useful and not any(_says_more(old, new) for old in found):
            found.append(new)
    yield from found


def _says_more(one: RowsApart, other: RowsApart) -> bool:
    return one.count % other.count == 0 and set(other.arguments) <= set(one.arguments)


def _parts(instruction: Instruction) -> tuple[Sequence[Instruction], Sequence[Instruction]]:
    """A kernel's operands, and the instructions that it computes; the last one is the result."""
    if instruction.opcode != "fusion":
        return instruction.operands, (instruction,)
    (computation,) = instruction.called
    others = (one for one in computation.instructions if one is not computation.root)
    return computation.parameters, (*others, computation.root)


def _needs(body: Sequence[Instruction], count: int) -> Mapping[Instruction, _Need]:
    """How much of each value is needed for the first chunks of the last one."""
    needs: dict[Instruction, _Need] = {}

    def note(value: Instruction, need: _Need) -> None:
        divides = value.shape.elements % count == 0 and value.shape.elements > 0
        if need is _Need.ALL or not (divides or value.shape.tuple_shapes):
            needs[value] = _Need.ALL
        else:
            needs.setdefault(value, need)

    note(body[-1], _Need.FIRST)
    for one in reversed(body):
        need = needs.get(one)
        if need is None:
            continue
        first = _first_of(one, count) if need is _Need.FIRST else ()
        for number, operand in enumerate(one.operands):
            note(operand, _Need.FIRST if number in first else _Need.ALL)
    return needs


def _first_of(one: Instruction, count: int) -> Sequence[int]:
    """The numbers of the operands whose first chunks are enough for those of a value."""
    if one.opcode in _IN_ORDER:
        return [n for n, operand in enumerate(one.operands) if _is_alike(operand.shape, one.shape)]
    if one.opcode == "bitcast":
        return (0,)
    if one.opcode in ("tuple", "get-tuple-element"):
        return range(len(one.operands))
    rule = _RULES.get(one.opcode)
    shapes = [one.shape, *(operand.shape for operand in one.operands)]
    if rule is None or not all(map(_is_row_major, shapes)):
        return ()
    return rule(one, count)


# --- shapes -------------------------------------------------------------------------------------------


def _lead(shape: Shape) -> int | None:
    """The first axis with more than one element; None of a single element, or of a tuple."""
    if shape.tuple_shapes:
        return None
    return next((axis for axis, extent in enumerate(shape.dimensions) if extent != 1), None)


def _is_row_major(shape: Shape) -> bool:
    shapes = shape.tuple_shapes or (shape,)
    return all(one.minor_to_major == tuple(reversed(range(one.rank))) for one in shapes)


def _is_alike(a: Shape, b: Shape) -> bool:
    """Whether two arrays have their elements in one order."""
    return (a.dimensions, a.minor_to_major) == (b.dimensions, b.minor_to_major)


def _splits(shape: Shape, axis: int, count: int) -> bool:
    """Whether chunks are parts of one axis."""
    return _lead(shape) == axis and shape.dimensions[axis] % count == 0


def _same_lead(one: Instruction, count: int) -> int | None:
    """The axis that chunks of a value and of its first operand are parts of, in the same way; None if there is none."""
    axis, read = _lead(one.shape), one.operands[0].shape
    if axis is None or not _splits(one.shape, axis, count) or not _splits(read, axis, count):
        return None
    return axis if read.dimensions[axis] == one.shape.dimensions[axis] else None


# --- instructions -------------------------------------------------------------------------------------

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

_Rule: TypeAlias = Callable[[Instruction, int], Sequence[int]]


def _reshape(_: Instruction, __: int) -> Sequence[int]:
    return (0,)


def _broadcast(one: Instruction, count: int) -> Sequence[int]:
    axis, read = _lead(one.shape), one.operands[0].shape
    if axis is None or not _splits(one.shape, axis, count) or axis not in one.dimensions:
        return ()
    own = one.dimensions.index(axis)
    is_same = read.dimensions[own] == one.shape.dimensions[axis]
    return (0,) if is_same and _splits(read, own, count) else ()


def _transpose(one: Instruction, count: int) -> Sequence[int]:
    axis, read = _lead(one.shape), one.operands[0].shape
    if axis is None or not _splits(one.shape, axis, count):
        return ()
    return (0,) if _splits(read, one.dimensions[axis], count) else ()


def _reduce(one: Instruction, count: int) -> Sequence[int]:
    arrays = range(len(one.operands) // 2)
    results = one.shape.tuple_shapes or (one.shape,)
    axis = _lead(one.operands[0].shape)
    if axis is None or axis in one.dimensions:
        return ()
    kept = axis - sum(other < axis for other in one.dimensions)
    reads = [one.operands[n].shape for n in arrays]
    whole = all(_splits(read, axis, count) for read in reads)
    return arrays if whole and all(_splits(result, kept, count) for result in results) else ()


def _concatenate(one: Instruction, count: int) -> Sequence[int]:
    axis = _lead(one.shape)
    if axis is None or axis in one.dimensions:
        return ()
    if not all(_splits(value.shape, axis, count) for value in (one, *one.operands)):
        return ()
    return range(len(one.operands))


def _pad(one: Instruction, count: int) -> Sequence[int]:
    axis = _same_lead(one, count)
    if axis is None:
        return ()
    sides = one.padding[axis]
    return () if sides.low or sides.high or sides.interior else (0,)


def _slice(one: Instruction, count: int) -> Sequence[int]:
    axis = _same_lead(one, count)
    return () if axis is None or one.slices[axis].stride != 1 or one.slices[axis].start else (0,)


def _reverse(one: Instruction, count: int) -> Sequence[int]:
    axis = _same_lead(one, count)
    return () if axis is None or axis in one.dimensions else (0,)


def _dynamic_slice(one: Instruction, count: int) -> Sequence[int]:
    # As long as the array along that axis, it begins at 0 whatever its index is.
    return () if _same_lead(one, count) is None else (0,)


def _dynamic_update_slice(one: Instruction, count: int) -> Sequence[int]:
    axis, update = _same_lead(one, count), one.operands[1].shape
    if axis is None or update.dimensions[axis] != one.shape.dimensions[axis]:
        return ()
    return (0, 1) if _splits(update, axis, count) else ()


def _reduce_window(one: Instruction, count: int) -> Sequence[int]:
    axis = _same_lead(one, count)
    if axis is None or len(one.operands) != 2 or one.shape.tuple_shapes:
        return ()
    window = one.window[axis]
    plain = (window.size, window.stride, window.pad_low, window.pad_high, window.base_dilation)
    return (0,) if plain == (1, 1, 0, 0, 1) else ()


def _gather(one: Instruction, count: int) -> Sequence[int]:
    """Of indices, if those of a row are apart."""
    numbers, axis = one.gather, _lead(one.shape)
    if numbers is None or axis != 0 or numbers.operand_batching_dims or 0 in numbers.offset_dims:
        return ()
    indices = one.operands[1].shape
    if numbers.index_vector_dim == 0 or not _splits(one.shape, 0, count):
        return ()
    is_same = indices.dimensions[0] == one.shape.dimensions[0]
    return (1,) if is_same and _splits(indices, 0, count) else ()


_RULES: Mapping[str, _Rule] = {
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "transpose": _transpose,
}
"""For arrays in row-major order."""
