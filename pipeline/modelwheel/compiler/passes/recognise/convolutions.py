"""Decodes convolutions: XLA's thunks for a library, and the kernels that it has for others.

XLA leaves to its library what that can compute (PotentiallyImplementedAsEigenConvolution in
xla/service/cpu/ir_emission_utils.cc), not reversed windows, for example. Its own kernels compute one element after the
other without vectors; those of the runtime compute every convolution.

Where the window is longer than the input, XLA exchanges the two (SwapConvOperands in
xla/hlo/transforms/simplifiers/algebraic_simplifier.cc): the rows of a call become the features of the result. That is
undone, because vectors run along features.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....dtypes import ElementType
from ....program import ops
from ...ir.emitted import thunks as p
from ...ir.emitted.thunks import Array
from ...ir.hlo import ConvolutionNumbers, Instruction, WindowAxis
from ...ir.match import array_of, behind_bitcasts

_TYPES = (ElementType.FLOAT32, ElementType.FLOAT64)
"""The types for which the runtime has kernels with vectors of the CPU; for others XLA's kernel stays."""
_MAX_RANK = 3


def convolution(
    axes: ConvolutionNumbers,
    windows: Sequence[WindowAxis],
    feature_groups: int,
    source: Array,
    kernel: Array,
    output: Array,
) -> p.Convolution:
    """The convolution of two arrays.

    Args:
        axes: What their axes are.
        windows: Of the spatial axes.
        feature_groups: Parts of the features, each with a kernel of its own.
        source: The input.
        kernel: The weights.
        output: The result.
    """
    per_output = kernel.elements // kernel.shape[axes.kernel_output_feature]
    return p.Convolution(
        operations=2 * output.elements * per_output,
        input=source,
        kernel=kernel,
        output=output,
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


def convolution_kernel(instruction: Instruction, kernel: p.Kernel) -> p.Convolution | None:
    """The convolution that a kernel computes; None if it does anything else.

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
    """
    axes = instruction.convolution
    if axes is None or len(kernel.arguments) != 2 or len(kernel.results) != 1:
        return None
    shapes = [*(operand.shape for operand in instruction.operands), instruction.shape]
    plain = (
        all(shape.element_type in _TYPES for shape in shapes)
        and 1 <= len(axes.input_spatial) <= _MAX_RANK
        and instruction.batch_groups == 1
        and all(all(shape.dimensions) for shape in shapes)
    )
    if not plain:
        return None
    arrays = map(array_of, shapes, (*kernel.arguments, *kernel.results))
    found = convolution(axes, instruction.window, instruction.feature_groups, *arrays)
    source, weights = (behind_bitcasts(operand) for operand in instruction.operands)
    exchanged = source.opcode == "constant" and weights.opcode != "constant"
    return _exchanged(found) if exchanged else found


def _exchanged(c: p.Convolution) -> p.Convolution:
    """`c` with the roles of the input and the kernel exchanged, if it can be written so."""
    reversed_or_single = all(window.reversed or window.size == 1 for window in c.windows)
    if c.feature_groups != 1 or not reversed_or_single:
        return c
    source, kernel, output = c.input_axes, c.kernel_axes, c.output_axes
    sizes = [c.input.shape[axis] for axis in source.spatial]
    return c.model_copy(
        update={
            "input": c.kernel,
            "kernel": c.input,
            "input_axes": ops.Axes(
                batch=kernel.feature, feature=kernel.batch, spatial=kernel.spatial
            ),
            "kernel_axes": ops.Axes(
                batch=source.feature, feature=source.batch, spatial=source.spatial
            ),
            "output_axes": ops.Axes(
                batch=output.feature, feature=output.batch, spatial=output.spatial
            ),
            "windows": tuple(map(_exchanged_window, c.windows, sizes)),
        }
    )


def _exchanged_window(w: ops.Window, size: int) -> ops.Window:
    """The window if an input of `size` elements slides over what was the kernel.

    Tap t meets element i where i * base_dilation = out * stride + (w.size - 1 - t) * kernel_dilation - pad_low.
    """
    longer = (size - 1) * w.base_dilation - (w.size - 1) * w.kernel_dilation
    return ops.Window(
        size=size,
        stride=w.stride,
        pad_low=w.pad_low + longer,
        pad_high=w.pad_high + longer,
        kernel_dilation=w.base_dilation,
        base_dilation=w.kernel_dilation,
        reversed=True,
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
