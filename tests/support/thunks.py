"""Thunks made by hand, for tests of what rewrites them."""

from __future__ import annotations

import math
from typing import Any

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.thunks import Array
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Slice

FLOAT = ElementType.FLOAT32


def array(
    shape: tuple[int, ...],
    minor_to_major: tuple[int, ...],
    allocation: int = 0,
    offset: int = 0,
    element_type: ElementType = FLOAT,
) -> Array:
    """An array of some layout."""
    size = math.prod(shape) * element_type.item_bytes
    return Array(
        slice=Slice(allocation=allocation, offset=offset, size=size),
        element_type=element_type,
        shape=shape,
        minor_to_major=minor_to_major,
    )


def dense(shape: tuple[int, ...], allocation: int = 0, offset: int = 0) -> Array:
    """A row-major float array."""
    return array(shape, tuple(reversed(range(len(shape)))), allocation, offset)


def pooling(source: Slice, target: Slice, **changes: Any) -> p.Pooling:
    """The maximum of windows of one element of four features at two by two places; `changes` are its other fields."""
    fields: dict[str, Any] = {
        "operations": 1, "reducer": "maximum", "initial": None, "batch": 1, "features": 4,
        "in_size": (2, 2), "out_size": (2, 2), "window": (1, 1), "stride": (1, 1), "pad_low": (0, 0),
    }  # fmt: skip
    return p.Pooling(input=source, output=target, **(fields | changes))


def pointwise(source: int, kernel: int, output: int) -> p.Convolution:
    """A product of the features of each place with a matrix; the arguments are allocations."""
    image = ops.Axes(batch=0, feature=2, spatial=(1,))
    window = ops.Window(
        size=1, stride=1, pad_low=0, pad_high=0, kernel_dilation=1, base_dilation=1, reversed=False
    )
    return p.Convolution(
        operations=1,
        input=dense((2, 5, 8), source),
        kernel=dense((1, 8, 8), kernel),
        output=dense((2, 5, 8), output),
        input_axes=image,
        kernel_axes=ops.Axes(batch=1, feature=2, spatial=(0,)),
        output_axes=image,
        windows=(window,),
        feature_groups=1,
    )
