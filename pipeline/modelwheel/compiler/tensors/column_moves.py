"""Follows operations that take parts of a tensor, or move them: what they do to the columns that its values come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from .columns import hull
from .values import Origin, Tensor

_SAME = frozenset(
    {
        *("Identity", "StopGradient", "Snapshot", "PreventGradient", "CheckNumerics"),
        *("EnsureShape", "PlaceholderWithDefault", "Enter", "Exit", "NextIteration", "Switch"),
    }
)
"""Operations that leave the axes as they are."""


def move(
    op: str, node: Any, inputs: Sequence[Tensor], outputs: int
) -> tuple[tuple[Origin, ...], ...]:
    """The origins of each output of an operation that takes parts of its first input, or moves them."""
    if op in _SAME:
        return (inputs[0].origins,) * outputs
    source = inputs[1] if op == "Split" and len(inputs) > 1 else inputs[0]
    width = source.shape[-1] if source.shape else None
    take = _TAKES.get(op)
    moved = []
    for number in range(outputs):
        part: tuple[int, int, bool] | None = None
        if width is not None and take is not None and source.shape is not None:
            # Constants of a hostile model may have any shape and sign, and nodes any number of inputs.
            with suppress(ValueError, IndexError):
                part = take(node, inputs, number)
        moved.append(tuple(take_part(origin, part, width) for origin in source.origins))
    return tuple(moved)


def loosen(origins: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """The columns where the last axis is another one now."""
    return tuple(take_part(origin, None, None) for origin in origins)


def take_part(origin: Origin, part: tuple[int, int, bool] | None, width: int | None) -> Origin:
    """The part of an origin that is taken from a tensor; see `Columns.take`."""
    columns, lines = origin.columns, origin.lines
    if columns is None:
        return origin
    taken = columns.take(part, width)
    if lines is not None and len(lines) > 1:
        lines = lines[taken.first - columns.first : taken.end - columns.first]
    return replace(origin, columns=taken, lines=lines)


def _strided_slice(node: Any, inputs: Sequence[Tensor], _: int) -> tuple[int, int, bool] | None:
    begin, end, strides = (_numbers(tensor) for tensor in inputs[1:4])
    rank, width = len(inputs[0].shape or ()), (inputs[0].shape or (0,))[-1] or 0
    if begin is None or end is None or strides is None or node.attr["new_axis_mask"].i:
        return None
    last, ellipsis = len(begin) - 1, node.attr["ellipsis_mask"].i
    if last < 0 or ellipsis >> last & 1 or (not ellipsis and len(begin) < rank):
        return 0, width, True  # other axes only
    if node.attr["shrink_axis_mask"].i >> last & 1:
        position = begin[last] % width if width else 0
        return position, position + 1, False
    start = None if node.attr["begin_mask"].i >> last & 1 else begin[last]
    stop = None if node.attr["end_mask"].i >> last & 1 else end[last]
    return hull(range(width)[slice(start, stop, strides[last])])


def _slice(_: Any, inputs: Sequence[Tensor], __: int) -> tuple[int, int, bool] | None:
    begin, size = _numbers(inputs[1]), _numbers(inputs[2])
    if not begin or not size:
        return None
    width = (inputs[0].shape or (0,))[-1] or 0
    return begin[-1], width if size[-1] < 0 else begin[-1] + size[-1], True


def _gather(_: Any, inputs: Sequence[Tensor], __: int) -> tuple[int, int, bool] | None:
    axis, indices = _numbers(inputs[2]) if len(inputs) > 2 else [0], _numbers(inputs[1])
    shape = inputs[0].shape or ()
    if not axis or axis[0] not in (-1, len(shape) - 1) or not indices:
        return None
    span = hull(sorted(indices))
    return (*span[:2], span[2] and list(indices) == sorted(set(indices))) if span else None


def _split(node: Any, inputs: Sequence[Tensor], number: int) -> tuple[int, int, bool] | None:
    axis, shape = _numbers(inputs[0]), inputs[1].shape or ()
    if not axis or axis[0] not in (-1, len(shape) - 1):
        return None
    part = (shape[-1] or 0) // max(node.attr["num_split"].i, 1)
    return number * part, (number + 1) * part, True


def _split_v(_: Any, inputs: Sequence[Tensor], number: int) -> tuple[int, int, bool] | None:
    sizes, axis, shape = _numbers(inputs[1]), _numbers(inputs[2]), inputs[0].shape or ()
    if not sizes or not axis or axis[0] not in (-1, len(shape) - 1) or min(sizes) < 0:
        return None
    return sum(sizes[:number]), sum(sizes[: number + 1]), True


def _unpack(node: Any, inputs: Sequence[Tensor], number: int) -> tuple[int, int, bool] | None:
    last = len(inputs[0].shape or ()) - 1
    return (number, number + 1, False) if node.attr["axis"].i in (-1, last) else None


_TAKES: Mapping[str, Callable[[Any, Sequence[Tensor], int], tuple[int, int, bool] | None]] = {
    "StridedSlice": _strided_slice,
    "Slice": _slice,
    "Gather": _gather,
    "GatherV2": _gather,
    "Split": _split,
    "SplitV": _split_v,
    "Unpack": _unpack,
}


def _numbers(tensor: Tensor) -> list[int] | None:
    if tensor.value is None or None in tensor.value:
        return None
    return [int(number) for number in tensor.value if number is not None]
