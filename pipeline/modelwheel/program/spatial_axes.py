"""The axes along which the kernels see a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .ops import Axes, Convolution, Window
from .steps import Step


class SpatialExtents(NamedTuple):
    """The spatial axes of a convolution."""

    windows: tuple[Window, ...]
    sizes: tuple[tuple[int, ...], ...]
    """Of the input, the kernel and the output."""

    @classmethod
    def of(cls, op: Convolution, step: Step) -> SpatialExtents:
        """Those of a step."""
        arrays = (
            (op.input_axes, step.inputs["input"].shape),
            (op.kernel_axes, step.inputs["kernel"].shape),
            (op.output_axes, step.outputs["out"].shape),
        )
        return cls(op.windows, tuple(spatial_sizes(axes, shape) for axes, shape in arrays))


def spatial_sizes(axes: Axes, shape: Sequence[int]) -> tuple[int, ...]:
    """The extents of the spatial axes of an array."""
    return tuple(shape[axis] for axis in axes.spatial)


def axes_in_use(chain: Sequence[SpatialExtents]) -> list[int]:
    """The numbers of the spatial axes of convolutions that follow each other, but for those along which there is one
    position and nothing to add.

    Frameworks compute convolutions along one axis as those of images with one row. Kernels divide a result along its
    first axis, and join outputs along its last one.
    """
    axes = list(range(len(chain[0].windows)))
    return [axis for axis in axes if any(_is_used(c, axis) for c in chain)] or axes[-1:]


def _is_used(extents: SpatialExtents, axis: int) -> bool:
    sizes = {size[axis] for size in extents.sizes}
    return sizes != {1} or extents.windows[axis].pad_low != 0
