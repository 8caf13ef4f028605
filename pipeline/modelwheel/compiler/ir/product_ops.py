"""XLA's matrix products and convolutions as operations of programs."""

from __future__ import annotations

from collections.abc import Sequence

from ...program import ops
from .hlo import ConvolutionNumbers, DotNumbers, WindowAxis


def dot_op(axes: DotNumbers) -> ops.Dot:
    """The product of two arrays.

    Args:
        axes: What their axes are.
    """
    return ops.Dot(
        lhs_batch=axes.lhs_batch,
        rhs_batch=axes.rhs_batch,
        lhs_contracting=axes.lhs_contracting,
        rhs_contracting=axes.rhs_contracting,
    )


def convolution_op(
    axes: ConvolutionNumbers, windows: Sequence[WindowAxis], feature_groups: int
) -> ops.Convolution:
    """The convolution of two arrays.

    Args:
        axes: What their axes are.
        windows: Of the spatial axes.
        feature_groups: Parts of the features, each with a kernel of its own.
    """
    return ops.Convolution(
        input_axes=ops.Axes(
            batch=axes.input_batch, feature=axes.input_feature, spatial=axes.input_spatial
        ),
        kernel_axes=ops.Axes(
            batch=axes.kernel_input_feature,
            feature=axes.kernel_output_feature,
            spatial=axes.kernel_spatial,
        ),
        output_axes=ops.Axes(
            batch=axes.output_batch, feature=axes.output_feature, spatial=axes.output_spatial
        ),
        windows=tuple(map(_window, windows)),
        feature_groups=feature_groups,
    )


def _window(w: WindowAxis) -> ops.Window:
    return ops.Window(
        size=w.size,
        stride=w.stride,
        pad_low=w.pad_low,
        pad_high=w.pad_high,
        kernel_dilation=w.window_dilation,
        base_dilation=w.base_dilation,
        reversed=w.reversed,
    )
