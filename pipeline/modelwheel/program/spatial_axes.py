"""The axes along which the kernels see a convolution."""

from __future__ import annotations

from collections.abc import Sequence

from .program import Convolution


def axes_in_use(chain: Sequence[Convolution]) -> list[int]:
    """The numbers of the spatial axes of convolutions that follow each other, but for those along which there is one
    place and nothing to add.

    Frameworks compute convolutions along one axis as those of images with one row. Kernels divide a result along its
    first axis, and join outputs along its last one.
    """
    axes = list(range(len(chain[0].windows)))
    return [axis for axis in axes if any(_uses(c, axis) for c in chain)] or axes[-1:]


def _uses(c: Convolution, axis: int) -> bool:
    sizes = {
        array.shape[axes.spatial[axis]]
        for array, axes in (
            (c.input, c.input_axes),
            (c.kernel, c.kernel_axes),
            (c.output, c.output_axes),
        )
    }
    return sizes != {1} or c.windows[axis].pad_low != 0
