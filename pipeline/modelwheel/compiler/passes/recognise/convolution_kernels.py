"""Convolutions that XLA has kernels for.

    %2 = kernel %0, %1 {symbol=convolution}    =>    %2 f32[3,4,6] = convolution %0 f32[3,5,4], %1 f32[8,2,6]

XLA leaves to its library what that can compute (PotentiallyImplementedAsEigenConvolution in
xla/service/cpu/ir_emission_utils.cc), not reversed windows, for example. Its own kernels compute one element after the
other without vectors; those of the runtime compute every convolution.

Where the window is longer than the input, XLA exchanges the two (SwapConvOperands in
xla/hlo/transforms/simplifiers/algebraic_simplifier.cc): the rows of a call become the features of the result. That is
undone, because vectors run along features.

When: of 32-bit and 64-bit floats, with one to three spatial axes. Bits: not those of XLA's kernel; sums have another order.
"""

from __future__ import annotations

from ....dtypes import ElementType
from ....program import ops
from ...ir.graph import Node
from ...ir.match import behind_bitcasts, view_of
from ...ir.product_ops import convolution_op
from .kernel_calls import KernelCall

_TYPES = (ElementType.FLOAT32, ElementType.FLOAT64)
"""The types for which the runtime has kernels with vectors of the CPU; for others XLA's kernel stays."""
_MAX_RANK = 3


def convolution_kernel(call: KernelCall) -> Node | None:
    """The convolution that a kernel computes; None if it does anything else."""
    instruction = call.instruction
    axes = instruction.convolution
    if axes is None or len(call.arguments) != 2 or not call.is_apart:
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
    inputs = [call.typed(n, shapes[n]) for n in range(2)]
    op = convolution_op(axes, instruction.window, instruction.feature_groups)
    source, weights = (behind_bitcasts(operand) for operand in instruction.operands)
    if source.opcode == "constant" and weights.opcode != "constant":
        sizes = [shapes[0].dimensions[axis] for axis in axes.input_spatial]
        if (exchanged := _exchanged(op, sizes)) is not None:
            op, inputs = exchanged, inputs[::-1]
    roles = dict(zip(("input", "kernel"), inputs, strict=True))
    return call.replaced(op, roles, view_of(instruction.shape, call.place))


def _exchanged(op: ops.Convolution, sizes: list[int]) -> ops.Convolution | None:
    """A convolution with the roles of the input and the kernel exchanged; None if it cannot be written so.

    Args:
        op: The convolution.
        sizes: The spatial extents of what is its input.
    """
    reversed_or_single = all(window.reversed or window.size == 1 for window in op.windows)
    if op.feature_groups != 1 or not reversed_or_single:
        return None
    source, kernel, output = op.input_axes, op.kernel_axes, op.output_axes
    return op.model_copy(
        update={
            "input_axes": ops.Axes(
                batch=kernel.feature, feature=kernel.batch, spatial=kernel.spatial
            ),
            "kernel_axes": ops.Axes(
                batch=source.feature, feature=source.batch, spatial=source.spatial
            ),
            "output_axes": ops.Axes(
                batch=output.feature, feature=output.batch, spatial=output.spatial
            ),
            "windows": tuple(map(_exchanged_window, op.windows, sizes)),
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
