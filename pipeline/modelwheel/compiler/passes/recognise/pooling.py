"""Decodes kernels that pool images or reduce rows: XLA's have no vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....dtypes import ElementType
from ....program import ops
from ...ir.emitted import thunks as p
from ...ir.hlo import Instruction, Shape, WindowAxis
from ...ir.match import behind_bitcasts, parameter_of, row_major, scalar_of

_REDUCERS: dict[str, ops.Reducer] = {"maximum": "maximum", "add": "sum"}
# With fewer, vectors would be nearly empty.
_MIN_FEATURES = 4
_MIN_WINDOW = 8


@dataclass(frozen=True)
class _Reduction:
    """A kernel that is one reduction: of its first argument, from a constant on."""

    root: Instruction
    """The `reduce` or `reduce-window`."""
    source: Shape
    """The shape of what is reduced."""
    reducer: ops.Reducer
    initial: float | None


def pooling(instruction: Instruction, kernel: p.Kernel) -> p.Pooling | None:
    """The pooling of images, or of sequences, that a kernel computes; None if it does anything else.

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
    """
    found = _reduction(instruction, kernel, "reduce-window")
    if found is None:
        return None
    root, source = found.root, found.source
    last = len(source.dimensions) - 1
    pooled = range(1, last)
    plain = (
        last in (2, 3)
        and row_major(source, root.shape)
        and is_plain(root.window, pooled)
        and source.dimensions[last] >= _MIN_FEATURES
    )
    if not plain:
        return None
    windows = [root.window[axis] for axis in pooled]
    return p.Pooling(
        operations=kernel.operations,
        reducer=found.reducer,
        initial=found.initial,
        input=kernel.arguments[0],
        output=kernel.results[0],
        batch=source.dimensions[0],
        features=source.dimensions[last],
        in_size=sides([source.dimensions[axis] for axis in pooled], 1),
        out_size=sides([root.shape.dimensions[axis] for axis in pooled], 1),
        window=sides([window.size for window in windows], 1),
        stride=sides([window.stride for window in windows], 1),
        pad_low=sides([window.pad_low for window in windows], 0),
    )


def mean_of_images(instruction: Instruction, kernel: p.Kernel) -> p.Pooling | None:
    """The sum over all places of images, times a factor, that a kernel computes; None if it does anything else.

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
    """
    found = mean_of_values(instruction, kernel)
    if found is None or found[0].opcode != "parameter" or len(kernel.arguments) != 1:
        return None
    return found[1]


def mean_of_values(
    instruction: Instruction, kernel: p.Kernel
) -> tuple[Instruction, p.Pooling] | None:
    """Matches mean(f(x)): the instruction f(x), and the pooling that reads it."""
    if instruction.opcode != "fusion" or not kernel.arguments or len(kernel.results) != 1:
        return None
    root = behind_bitcasts(instruction.called_root)
    root, factor = _scaled(root)
    root = behind_bitcasts(root)
    if root.opcode != "reduce" or len(root.operands) != 2:
        return None
    source, initial = root.operands
    shape = source.shape
    last = shape.rank - 1
    plain = (
        last >= 2
        and sorted(root.dimensions) == list(range(1, last))
        and row_major(shape, root.shape)
        and all(s.element_type == ElementType.FLOAT32 for s in (shape, root.shape))
        and shape.dimensions[last] >= _MIN_FEATURES
        and reducer_of(root) == "sum"
        and scalar_of(initial) == 0.0
    )
    if not plain:
        return None
    size = (shape.dimensions[1], math.prod(shape.dimensions[2:last]))
    return source, p.Pooling(
        operations=kernel.operations,
        reducer="sum",
        initial=0.0,
        input=kernel.arguments[0],
        output=kernel.results[0],
        batch=shape.dimensions[0],
        features=shape.dimensions[last],
        in_size=size,
        out_size=(1, 1),
        window=size,
        stride=(1, 1),
        pad_low=(0, 0),
        factor=factor,
    )


def _scaled(node: Instruction) -> tuple[Instruction, float]:
    """The value that an instruction multiplies by one number, and the number."""
    if node.opcode != "multiply":
        return node, 1.0
    one, other = node.operands
    for value, repeated in ((one, other), (other, one)):
        number = scalar_of(repeated, finite=True)
        if number is not None:
            return value, number
    return node, 1.0


def scaling(fusion: Instruction) -> float | None:
    """The number that a fusion multiplies its only operand by; None if it does anything else."""
    value, factor = _scaled(behind_bitcasts(fusion.called_root))
    plain = len(fusion.operands) == 1 and parameter_of(value) is not None
    return factor if plain and value.shape.element_type == ElementType.FLOAT32 else None


def row_reduction(instruction: Instruction, kernel: p.Kernel) -> p.RowReduction | None:
    """The reduction of rows that a kernel computes; None if it does anything else.

    XLA reduces long rows in windows first, and then their results (TreeReductionRewriter in
    xla/service/tree_reduction_rewriter.cc).

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
    """
    if found := _reduction(instruction, kernel, "reduce-window"):
        row = _windows_of_rows(found)
    elif found := _reduction(instruction, kernel, "reduce"):
        row = _whole_rows(found)
    else:
        return None
    if row is None or row.window < _MIN_WINDOW:
        return None
    return p.RowReduction(
        operations=kernel.operations,
        reducer=found.reducer,
        initial=found.initial,
        input=kernel.arguments[0],
        output=kernel.results[0],
        rows=found.source.elements // row.size,
        size=row.size,
        windows=row.windows,
        window=row.window,
        pad_low=row.pad_low,
    )


@dataclass(frozen=True)
class _Row:
    size: int
    windows: int
    window: int
    pad_low: int


def _windows_of_rows(found: _Reduction) -> _Row | None:
    """The windows of a `reduce-window` along the axis that varies fastest."""
    root, order = found.root, found.source.minor_to_major
    axis = order[0]
    window = root.window[axis]
    plain = (
        root.shape.minor_to_major == order
        and is_plain(root.window, (axis,))
        and (window.stride) == window.size
    )
    size, windows = found.source.dimensions[axis], root.shape.dimensions[axis]
    return _Row(size, windows, window.size, window.pad_low) if plain else None


def _whole_rows(found: _Reduction) -> _Row | None:
    """The axes of a `reduce`, if they vary fastest."""
    order, reduced = found.source.minor_to_major, set(found.root.dimensions)
    kept = [axis for axis in order if axis not in reduced]
    numbers = {axis: number for number, axis in enumerate(sorted(kept))}
    fastest = [axis for axis in order if axis in reduced]
    plain = order == (*fastest, *kept) and found.root.shape.minor_to_major == tuple(
        numbers[axis] for axis in kept
    )
    size = math.prod(found.source.dimensions[axis] for axis in reduced)
    return _Row(size, 1, size, 0) if plain and size else None


def _reduction(instruction: Instruction, kernel: p.Kernel, opcode: str) -> _Reduction | None:
    if instruction.opcode != "fusion" or len(kernel.arguments) != 2 or len(kernel.results) != 1:
        return None
    root = instruction.called_root
    if root.opcode != opcode or len(root.operands) != 2:
        return None
    # The fusion has nothing else: its parameters are the operands, in order.
    operands = root.operands
    if [(o.opcode, o.parameter_number) for o in operands] != [("parameter", 0), ("parameter", 1)]:
        return None
    reducer, initial = reducer_of(root), instruction.operands[1]
    floats = all(s.element_type == ElementType.FLOAT32 for s in (operands[0].shape, root.shape))
    value = scalar_of(initial)
    if reducer is None or not floats or value is None:
        return None
    if math.isnan(value) or (math.isinf(value) and (reducer, value > 0) != ("maximum", False)):
        return None
    return _Reduction(root, operands[0].shape, reducer, None if math.isinf(value) else value)


def reducer_of(root: Instruction) -> ops.Reducer | None:
    """The operation that reduces windows, in a computation of two parameters and one operation."""
    operation = root.called_root
    numbers = sorted(
        operand.parameter_number for operand in operation.operands if operand.opcode == "parameter"
    )
    return _REDUCERS.get(operation.opcode) if numbers == [0, 1] else None


def sides(values: Sequence[int], neutral: int) -> tuple[int, int]:
    """One number for rows and one for columns; a sequence is an image with one column."""
    return (values[0], values[1] if len(values) > 1 else neutral)


def is_plain(windows: Sequence[WindowAxis], pooled: Sequence[int]) -> bool:
    """Whether only the axes `pooled` have windows, and nothing is dilated."""
    undilated = all(
        w.window_dilation == 1 and w.base_dilation == 1 and not w.reversed for w in windows
    )
    single = all(
        (w.size, w.stride, w.pad_low, w.pad_high) == (1, 1, 0, 0)
        for axis, w in enumerate(windows)
        if axis not in pooled
    )
    return undilated and single
