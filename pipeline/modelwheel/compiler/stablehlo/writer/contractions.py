"""Products of matrices and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import mlir_types as types
from .axes import identity, in_memory
from .builder import Value
from .fold import errors_ignored, foldable
from .mlir_types import DType
from .pointwise import keep_sign
from .reshaping import broadcast_to, numbers, reshape, transpose

_FOLDED_WORK = 1 << 27
"""Multiplications of products that are computed while a module is written."""


def dot_general(
    x: Value,
    y: Value,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: DType | None = None,
) -> Value:
    """Sums of products over pairs of axes.

    The result has the batch axes, then the other axes of `x`, then those of `y`. Transposed operands are read
    where they are.

    Args:
        x, y: Of one element type.
        contract: Axes of both that are summed over.
        batch: Axes of both that go together.
        dtype: Of the sums, by default that of the operands.
    """
    dtype = dtype or x.dtype
    free = [
        [a for a in range(v.rank) if a not in (*contract[i], *batch[i])]
        for i, v in enumerate((x, y))
    ]
    shape = (
        *(x.shape[a] for a in batch[0]),
        *(x.shape[a] for a in free[0]),
        *(y.shape[a] for a in free[1]),
    )
    if x.known is not None and y.known is not None and not batch[0]:
        work = math.prod(shape) * math.prod(x.shape[a] for a in contract[0])
        if foldable([x, y], math.prod(shape)) and work < _FOLDED_WORK:
            with errors_ignored():
                product = np.tensordot(x.known, y.known, (list(contract[0]), list(contract[1])))
            return x.builder.constant(np.asarray(product).astype(dtype))
    places = [
        [[v.axes[a] for a in group[i]] for group in (batch, contract)] for i, v in enumerate((x, y))
    ]
    attributes = (
        "dot_dimension_numbers = #stablehlo.dot<"
        f"lhs_batching_dimensions = {places[0][0]}, rhs_batching_dimensions = {places[1][0]}, "
        f"lhs_contracting_dimensions = {places[0][1]}, rhs_contracting_dimensions = {places[1][1]}>"
    )
    # Free axes come in the order of memory.
    order = [sorted(free[i], key=v.axes.__getitem__) for i, v in enumerate((x, y))]
    result = (
        *(x.shape[a] for a in batch[0]),
        *(x.shape[a] for a in order[0]),
        *(y.shape[a] for a in order[1]),
    )
    operands = [
        (x.builder.stored(v, v.axes), types.tensor(v.dtype, v.stored_shape)) for v in (x, y)
    ]
    (name,) = x.builder.write(
        "stablehlo.dot_general", operands, [types.tensor(dtype, result)], attributes
    )
    made = Value(x.builder, dtype, result, name)
    made = keep_sign(made) if dtype == x.dtype else made  # products of narrower numbers do not wrap
    first, second = len(batch[0]), len(batch[0]) + len(free[0])
    back = [
        *range(first),
        *(first + order[0].index(a) for a in free[0]),
        *(second + order[1].index(a) for a in free[1]),
    ]
    return transpose(made, back)


def matmul(x: Value, y: Value, dtype: DType | None = None) -> Value:
    """The matrix product as NumPy's `matmul` defines it.

    An operand that does not depend on an axis of the batch is not broadcast: its product with all rows of
    the other one is one product.
    """
    if x.rank == 1 or y.rank == 1:
        left = reshape(x, [1, *x.shape]) if x.rank == 1 else x
        right = reshape(y, [*y.shape, 1]) if y.rank == 1 else y
        product = matmul(left, right, dtype)
        rows = product.shape[-2:-1] if x.rank > 1 else ()
        columns = product.shape[-1:] if y.rank > 1 else ()
        return reshape(product, [*product.shape[:-2], *rows, *columns])
    outer = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if all(e == 1 for e in y.shape[:-2]):
        product = dot_general(x, reshape(y, y.shape[-2:]), ([x.rank - 1], [0]), dtype=dtype)
        return reshape(product, [*outer, x.shape[-2], y.shape[-1]])
    if all(e == 1 for e in x.shape[:-2]):
        product = dot_general(reshape(x, x.shape[-2:]), y, ([1], [y.rank - 2]), dtype=dtype)
        last = product.rank - 1  # rows of x come first
        product = transpose(product, [*range(1, last), 0, last])
        return reshape(product, [*outer, x.shape[-2], y.shape[-1]])
    x = broadcast_to(x, (*outer, *x.shape[-2:]))
    y = broadcast_to(y, (*outer, *y.shape[-2:]))
    together = list(range(len(outer)))
    return dot_general(x, y, ([x.rank - 1], [y.rank - 2]), (together, together), dtype)


@dataclass(frozen=True)
class Window:
    """How a kernel moves over the spatial axes; an entry for each of them."""

    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    """Zeros before and behind; negative counts cut off."""
    dilations: tuple[int, ...]
    """Distance of the elements of the kernel."""
    spread: tuple[int, ...] = ()
    """Distance of the elements of the input, with zeros between."""


def paddings(
    padding: str,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """Zeros before and behind each spatial axis, for TensorFlow's `SAME` or `VALID`."""
    if padding != "SAME":
        return ((0, 0),) * len(extents)
    return tuple(
        _same_padding(*axis) for axis in zip(extents, kernel, strides, dilations, strict=True)
    )


def _same_padding(extent: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """One more behind if their number is odd."""
    reach = (-(-extent // stride) - 1) * stride + (kernel - 1) * dilation + 1
    missing = max(reach - extent, 0)
    return missing // 2, missing - missing // 2


def convolution(
    x: Value, kernel: Value, window: Window, groups: int = 1, dtype: DType | None = None
) -> Value:
    """A convolution of [batch, channels, *spatial] by [features, channels / groups, *kernel].

    Computed with channels as the last axis in memory, where what follows finds them.
    """
    spatial = x.rank - 2
    spread = window.spread or (1,) * spatial
    extents = [
        (
            (x.shape[2 + i] - 1) * spread[i]
            + 1
            + sum(window.pads[i])
            - (kernel.shape[2 + i] - 1) * window.dilations[i]
            - 1
        )
        // window.strides[i]
        + 1
        for i in range(spatial)
    ]
    dtype = dtype or x.dtype
    shape = (x.shape[0], kernel.shape[0], *extents)
    last = (0, spatial + 1, *range(1, spatial + 1))
    inner = (spatial + 1, spatial, *range(spatial))
    result = in_memory(shape, last)
    operands = [
        (x.builder.stored(v, axes), types.tensor(v.dtype, in_memory(v.shape, axes)))
        for v, axes in ((x, last), (kernel, inner))
    ]
    places = ", ".join(map(str, range(spatial)))
    comma = ", " if places else ""
    padding = ", ".join(f"[{low}, {high}]" for low, high in window.pads)
    (name,) = x.builder.write(
        "stablehlo.convolution",
        operands,
        [types.tensor(dtype, result)],
        f"dimension_numbers = #stablehlo.conv<[b{comma}{places}, f]x[{places}{comma}i, o]"
        f"->[b{comma}{places}, f]>, window_strides = {numbers(window.strides)}, "
        f"padding = dense<[{padding}]> : tensor<{spatial}x2xi64>, "
        f"lhs_dilation = {numbers(spread)}, rhs_dilation = {numbers(window.dilations)}, "
        f"feature_group_count = {groups} : i64, batch_group_count = 1 : i64",
    )
    return Value(x.builder, dtype, shape, name, order=() if identity(last) else last)
