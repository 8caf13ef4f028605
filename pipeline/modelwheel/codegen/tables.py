"""The members of the tables that kernels read, in the order of their C++ structures. All strides are in elements."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UnsupportedProgramError
from ..program.ops import Convolution, Dot, Pooling, RowReduction
from ..program.steps import Step
from ..program.view import View
from .cpp import braces, cpp_bool, cpp_type, double_or_infinity, spatial
from .panels import COLUMNS as PANEL_COLUMNS
from .panels import Weights
from .strides import ProductViews, dot_axes, in_features, is_of_bytes, pick


def dot_values(step: Step, op: Dot, weights: Weights | None) -> list[object]:
    """The members of a `Dot` of the kernels, whose weights may be packed."""
    axes = dot_axes(step, op)
    (batch, m, k), (_, _, n) = axes.lhs, axes.rhs
    values = [axis.size for axis in (batch, m, n, k)]
    values += [axis.stride for axis in axes.lhs + axes.rhs + axes.out]
    if weights is not None:
        # The stride of k, of lhs or of rhs.
        values[6 if weights.on_left else 8] = PANEL_COLUMNS
        values.append(weights.panel)
    return [*values]


def convolution_values(
    step: Step, op: Convolution, axes: Sequence[int], weights: Weights | None
) -> list[object]:
    """The members of a `Convolution` of the kernels.

    Args:
        step: The step, or one layer of strips.
        op: Its operation.
        axes: The numbers of the spatial axes that the kernels see.
        weights: The kernel, if it is in panels.

    Raises:
        UnsupportedProgramError: It has more than three spatial axes, or different element types.
    """
    rank = len(op.windows)
    views = ProductViews.of(step)
    types = {cpp_type(view) for view in views}
    if rank > 3 or (len(types) != 1 and not is_of_bytes(step)):
        raise UnsupportedProgramError(
            f"a convolution with {rank} spatial axes over {', '.join(sorted(types))} is not supported"
        )
    windows = pick(op.windows, axes)
    places = [pick(side.spatial, axes) for side in (op.input_axes, op.kernel_axes, op.output_axes)]
    source, kernel, output = (view.strides for view in views)
    if weights is not None:
        # Rows are as far apart as a panel is wide; the features of one are neighbours.
        kernel = tuple(stride * PANEL_COLUMNS // weights.columns or 1 for stride in kernel)
    return [
        views.lhs.shape[op.input_axes.batch],
        op.feature_groups,
        in_features(step, op),
        views.sums.shape[op.output_axes.feature],
        len(axes),
        *(spatial(pick(view.shape, own)) for view, own in zip(views, places, strict=True)),
        spatial([w.stride for w in windows]),
        spatial([w.pad_low for w in windows], 0),
        spatial([w.kernel_dilation for w in windows]),
        spatial([w.base_dilation for w in windows]),
        braces([cpp_bool(w.reversed) for w in windows] + ["false"] * (3 - len(axes))),
        source[op.input_axes.batch],
        source[op.input_axes.feature],
        spatial(pick(source, places[0]), 0),
        kernel[op.kernel_axes.batch],
        kernel[op.kernel_axes.feature],
        spatial(pick(kernel, places[1]), 0),
        output[op.output_axes.batch],
        output[op.output_axes.feature],
        spatial(pick(output, places[2]), 0),
        *([] if weights is None else [weights.panel]),
    ]


def reducer(op: Pooling | RowReduction) -> tuple[str, str]:
    """The first members of the table of a reduction."""
    return f"Reducer::k{op.reducer.capitalize()}", double_or_infinity(op.initial)


def pooling_values(op: Pooling, in_size: Sequence[int], in_step: int, output: View) -> list[object]:
    """The members of a `Pooling` of the kernels.

    Args:
        op: The operation.
        in_size: Rows and columns of the input.
        in_step: The stride of the columns of the input.
        output: [batch, rows, columns, features], with planes behind the batch for volumes.
    """
    batch, *_, rows, columns, features = output.shape
    out_size = rows, columns
    return [
        *reducer(op),
        batch,
        features,
        *map(braces, (in_size, op.window, out_size, op.stride, op.pad_low)),
        in_step,
        op.in_factor,
        op.factor,
        *([] if op.padding is None else ["true", op.padding]),
    ]
