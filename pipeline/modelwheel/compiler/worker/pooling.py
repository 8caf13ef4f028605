"""Decodes kernels that pool images: XLA's have no vectors."""

from __future__ import annotations

import math
from typing import Any

from ...dtypes import ElementType
from .. import program as p
from .hlo import HloModule

_REDUCERS: dict[str, p.Reducer] = {"maximum": "maximum", "add": "sum"}
# With fewer, vectors would be nearly empty.
_MIN_FEATURES = 4


def pooling(hlo: HloModule, instruction: Any, kernel: p.Kernel) -> p.Pooling | None:
    """The pooling that a kernel computes; None if it does anything else.

    Args:
        hlo: The module.
        instruction: The `xla.HloInstructionProto` that XLA made the kernel of.
        kernel: Its call.
    """
    if instruction.opcode != "fusion" or len(kernel.arguments) != 2 or len(kernel.results) != 1:
        return None
    root = hlo.called_root(instruction)
    if root.opcode != "reduce-window" or len(root.operand_ids) != 2:
        return None
    # The fusion has nothing else: its parameters are the operands, in order.
    operands = hlo.operands(root)
    if [(o.opcode, o.parameter_number) for o in operands] != [("parameter", 0), ("parameter", 1)]:
        return None
    source, result = operands[0].shape, root.shape
    initial = hlo.operands(instruction)[1]
    reducer = _reducer(hlo, root)
    plain = (
        reducer is not None
        and initial.opcode == "constant"
        and len(initial.literal.f32s) == 1
        and all(map(_is_image, (source, result)))
        and _is_plain(root.window.dimensions)
        and source.dimensions[3] >= _MIN_FEATURES
    )
    if not plain or reducer is None:
        return None
    value = float(initial.literal.f32s[0])
    if math.isnan(value) or (math.isinf(value) and (reducer, value > 0) != ("maximum", False)):
        return None
    windows = root.window.dimensions[1:3]
    return p.Pooling(
        operations=kernel.operations,
        reducer=reducer,
        initial=None if math.isinf(value) else value,
        input=kernel.arguments[0],
        output=kernel.results[0],
        batch=source.dimensions[0],
        features=source.dimensions[3],
        in_size=(source.dimensions[1], source.dimensions[2]),
        out_size=(result.dimensions[1], result.dimensions[2]),
        window=(windows[0].size, windows[1].size),
        stride=(windows[0].stride or 1, windows[1].stride or 1),
        pad_low=(windows[0].padding_low, windows[1].padding_low),
    )


def _reducer(hlo: HloModule, root: Any) -> p.Reducer | None:
    """What a window is reduced by: a computation of two parameters and one operation."""
    operation = hlo.called_root(root)
    numbers = sorted(
        operand.parameter_number
        for operand in hlo.operands(operation)
        if operand.opcode == "parameter"
    )
    return _REDUCERS.get(operation.opcode) if numbers == [0, 1] else None


def _is_image(shape: Any) -> bool:
    """Whether it has the axes batch, rows, columns and features, without gaps in this order."""
    return shape.element_type == ElementType.FLOAT32 and list(shape.layout.minor_to_major) == [
        *(3, 2, 1, 0)
    ]


def _is_plain(windows: Any) -> bool:
    """Whether only rows and columns are pooled, and nothing is dilated."""
    if len(windows) != 4:
        return False
    pooled = all(
        (w.window_dilation or 1) == 1 and (w.base_dilation or 1) == 1 and not w.window_reversal
        for w in windows
    )
    single = all(
        (w.size, w.stride or 1, w.padding_low, w.padding_high) == (1, 1, 0, 0)
        for w in (windows[0], windows[3])
    )
    return pooled and single
