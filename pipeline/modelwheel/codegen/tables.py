"""The members of the tables that kernels read, in the order of their C++ structures."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UnsupportedProgramError
from ..program.program import Convolution, Dot, Fft, Pooling
from .expressions import braces, cpp_bool, cpp_type, reducer, spatial
from .panels import COLUMNS as PANEL_COLUMNS
from .panels import Weights
from .strides import dot_axes, in_features, pick


def dot_values(dot: Dot, weights: Weights | None) -> list[object]:
    """The members of a `Dot` of the kernels, whose weights may be packed."""
    axes = dot_axes(dot)
    (batch, m, k), (_, _, n) = axes.lhs, axes.rhs
    values = [axis.size for axis in (batch, m, n, k)]
    values += [axis.stride for axis in axes.lhs + axes.rhs + axes.out]
    if weights is not None:
        # The stride of k, of lhs or of rhs.
        values[6 if weights.on_left else 8] = PANEL_COLUMNS
        values.append(PANEL_COLUMNS * weights.depth)
    return [*values]


def convolution_values(
    c: Convolution, axes: Sequence[int], weights: Weights | None
) -> list[object]:
    """The members of a `Convolution` of the kernels, over some of its spatial axes.

    Args:
        weights: The kernel, if it is in panels.
    """
    rank = len(c.windows)
    types = {cpp_type(array) for array in (c.input, c.kernel, c.output)}
    if rank > 3 or len(types) != 1:
        raise UnsupportedProgramError(
            f"a convolution with {rank} spatial axes over {', '.join(sorted(types))} is not supported"
        )
    windows = pick(c.windows, axes)
    places = [pick(side.spatial, axes) for side in (c.input_axes, c.kernel_axes, c.output_axes)]
    source, kernel, output = c.input.strides, c.kernel.strides, c.output.strides
    if weights is not None:
        # Rows are as far apart as a panel is wide; the features of one are neighbours.
        kernel = tuple(stride * PANEL_COLUMNS // weights.columns or 1 for stride in kernel)
    return [
        c.input.shape[c.input_axes.batch],
        c.feature_groups,
        in_features(c),
        c.output.shape[c.output_axes.feature],
        len(axes),
        spatial(pick(c.input.shape, places[0])),
        spatial(pick(c.kernel.shape, places[1])),
        spatial(pick(c.output.shape, places[2])),
        spatial([w.stride for w in windows]),
        spatial([w.pad_low for w in windows], 0),
        spatial([w.kernel_dilation for w in windows]),
        spatial([w.base_dilation for w in windows]),
        braces([cpp_bool(w.reversed) for w in windows] + ["false"] * (3 - len(axes))),
        source[c.input_axes.batch],
        source[c.input_axes.feature],
        spatial(pick(source, places[0]), 0),
        kernel[c.kernel_axes.batch],
        kernel[c.kernel_axes.feature],
        spatial(pick(kernel, places[1]), 0),
        output[c.output_axes.batch],
        output[c.output_axes.feature],
        spatial(pick(output, places[2]), 0),
        *([] if weights is None else [PANEL_COLUMNS * weights.depth]),
    ]


def pooling_values(pool: Pooling) -> list[object]:
    """The members of a `Pooling` of the kernels."""
    sides = (pool.in_size, pool.window, pool.out_size, pool.stride, pool.pad_low)
    return [
        *reducer(pool),
        pool.batch,
        pool.features,
        *map(braces, sides),
        pool.in_step or pool.features,
        pool.in_factor,
        pool.factor,
        *([] if pool.padding is None else ["true", pool.padding]),
    ]


def fft_values(fft: Fft) -> list[object]:
    """The members of an `Fft` of the kernels."""
    # `lengths` are those of the real side: the last axis of the complex side has only n / 2 + 1 elements.
    real = fft.input if fft.fft_type == "rfft" else fft.output
    rank = len(fft.lengths)
    batch = real.elements
    for extent in real.shape[len(real.shape) - rank :]:
        batch //= max(extent, 1)
    if any(
        a.minor_to_major != tuple(reversed(range(len(a.shape)))) for a in (fft.input, fft.output)
    ):
        raise UnsupportedProgramError(
            "a Fourier transform over a transposed array is not supported"
        )
    return [f"FftType::k{fft.fft_type.capitalize()}", batch, rank, spatial(fft.lengths)]
