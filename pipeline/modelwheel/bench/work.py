"""How much arithmetic a call needs: multiplications and additions of its products and convolutions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..program.program import (
    Attention,
    Branches,
    Conditional,
    Convolution,
    Dot,
    Program,
    Strips,
    Thunk,
    While,
    Window,
)
from ..program.walk import walk


def products(program: Program) -> int:
    """Multiplications and additions in products and convolutions of one run.

    Loops count by their trip count, or once if it is unknown; of branches the largest counts.
    """
    return _products(program.thunks)


def _products(thunks: Iterable[Thunk]) -> int:
    return sum(map(_of_thunk, thunks))


def _of_thunk(thunk: Thunk) -> int:
    match thunk:
        case Dot() | Convolution() | Strips() | Attention():
            return operations_of(thunk)
        case While():
            turns = 1 if thunk.trip_count is None else thunk.trip_count
            return turns * _products(thunk.condition + thunk.body)
        case Branches():
            return sum(map(_products, thunk.branches))
        case Conditional():
            return max(map(_products, thunk.branches), default=0)
        case _:
            return 0


def operations_of(thunk: Thunk) -> int:
    """The operations of a step, without those on the zeros that a transposed convolution has between its input."""
    match thunk:
        case Strips():
            return sum(map(operations_of, thunk.layers))
        case Convolution():
            operations = thunk.operations
            for axis, window in zip(thunk.output_axes.spatial, thunk.windows, strict=True):
                places = thunk.output.shape[axis]
                operations = operations * _taps(window, places) // (places * window.size)
            return operations
        case _:
            return thunk.operations


def _taps(window: Window, places: int) -> int:
    """Along one axis, how often an element of the kernel meets the input or its padding, and not a zero between."""
    if window.base_dilation == 1:
        return places * window.size
    return sum(
        (place * window.stride + tap * window.kernel_dilation - window.pad_low)
        % window.base_dilation
        == 0
        for place in range(places)
        for tap in range(window.size)
    )


def work_of_row(by_batch: Mapping[int, Program]) -> float | None:
    """What one row needs, given the programs of some batch sizes; None without any, or with loops of unknown length.

    The most that any of them has for a row: XLA writes the products of single rows as ordinary loops, which are kernels.
    """
    thunks = [thunk for program in by_batch.values() for thunk in walk(program.thunks)]
    if any(isinstance(thunk, While) and thunk.trip_count is None for thunk in thunks):
        return None
    return max((products(program) / batch for batch, program in by_batch.items()), default=None)
