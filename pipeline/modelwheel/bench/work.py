"""How much arithmetic a call needs: multiplications and additions of its products and convolutions."""

from __future__ import annotations

from collections.abc import Mapping

from ..program.ops import Attention, ByteLayer, Convolution, Dot, Strips, While, Window
from ..program.program import Program
from ..program.steps import Step
from ..program.walk import total, walk


def products(program: Program) -> int:
    """Multiplications and additions in products and convolutions of one run; see `walk.total` for loops and branches."""
    return total(program.steps, _of_products)


def _of_products(step: Step) -> int:
    is_product = isinstance(step.op, Dot | Convolution | ByteLayer | Strips | Attention)
    return operations_of(step) if is_product else 0


def operations_of(step: Step) -> int:
    """The operations of a step, without those on the zeros that a transposed convolution has between its input."""
    operations, op = step.operations, step.op
    # Strips have none of these.
    if isinstance(op, Convolution):
        for axis, window in zip(op.output_axes.spatial, op.windows, strict=True):
            positions = step.outputs["out"].shape[axis]
            operations = operations * _taps(window, positions) // (positions * window.size)
    return operations


def _taps(window: Window, positions: int) -> int:
    """Along one axis, how often an element of the kernel meets the input or its padding, and not a zero between."""
    if window.base_dilation == 1:
        return positions * window.size
    return sum(
        (position * window.stride + tap * window.kernel_dilation - window.pad_low)
        % window.base_dilation
        == 0
        for position in range(positions)
        for tap in range(window.size)
    )


def work_of_row(by_batch: Mapping[int, Program]) -> float | None:
    """The work of one row, given the programs of some batch sizes; None without any, or with loops of unknown length.

    The most that any of them has for a row: XLA writes the products of single rows as ordinary loops, which are kernels.
    """
    steps = [step for program in by_batch.values() for step in walk(program.steps)]
    if any(isinstance(step.op, While) and step.op.trip_count is None for step in steps):
        return None
    return max((products(program) / batch for batch, program in by_batch.items()), default=None)
