"""The tables of convolutions: axes of one place are left out."""

from __future__ import annotations

import pytest

from modelwheel.codegen.calls import CALLS
from modelwheel.codegen.writer import StepWriter
from modelwheel.program import ops
from modelwheel.program.spatial_axes import SpatialExtents, axes_in_use
from modelwheel.program.steps import Step
from tests.support.programs import ROW, dense, of_bytes


def _convolution(sizes: tuple[int, ...], kernel: tuple[int, ...], pads: tuple[int, ...]) -> Step:
    """Of four features to eight, with a stride of 1."""
    rank = len(sizes)
    image = ops.Axes(batch=0, feature=rank + 1, spatial=tuple(range(1, rank + 1)))
    out_sizes = [
        size + 2 * pad - (window - 1) for size, window, pad in zip(sizes, kernel, pads, strict=True)
    ]
    windows = tuple(
        ROW.model_copy(update={"size": window, "pad_low": pad, "pad_high": pad})
        for window, pad in zip(kernel, pads, strict=True)
    )
    return Step(
        op=ops.Convolution(
            input_axes=image,
            kernel_axes=ops.Axes(batch=rank, feature=rank + 1, spatial=tuple(range(rank))),
            output_axes=image,
            windows=windows,
            feature_groups=1,
        ),
        inputs={"input": dense((2, *sizes, 4), 0), "kernel": dense((*kernel, 4, 8), 1)},
        outputs={"out": dense((2, *out_sizes, 8), 2)},
        operations=1,
    )


def _extents(step: Step) -> SpatialExtents:
    assert isinstance(step.op, ops.Convolution)
    return SpatialExtents.of(step.op, step)


@pytest.mark.parametrize(
    ("sizes", "kernel", "pads", "axes"),
    [
        ((1, 9), (1, 3), (0, 1), [1]),
        ((9, 1), (3, 1), (1, 0), [0]),
        ((1, 1, 9), (1, 1, 3), (0, 0, 1), [2]),
        ((5, 1, 9), (3, 1, 3), (0, 0, 1), [0, 2]),
        ((5, 9), (1, 1), (0, 0), [0, 1]),
        # One place of the result, but more of the input or of the kernel; or of padding alone.
        ((3, 9), (3, 3), (0, 1), [0, 1]),
        ((1, 9), (3, 3), (1, 1), [0, 1]),
        ((1, 9), (1, 3), (1, 1), [0, 1]),
        # There is one axis at least, unless there is none at all.
        ((1, 1), (1, 1), (0, 0), [1]),
        ((9,), (3,), (1,), [0]),
        ((), (), (), []),
    ],
)
def test_axes_of_one_place_are_not_used(
    sizes: tuple[int, ...], kernel: tuple[int, ...], pads: tuple[int, ...], axes: list[int]
) -> None:
    assert axes_in_use([_extents(_convolution(sizes, kernel, pads))]) == axes


def test_layers_of_a_chain_have_the_same_axes() -> None:
    single = _extents(_convolution((1, 9), (1, 1), (0, 0)))
    narrow = _extents(_convolution((3, 9), (3, 1), (0, 0)))
    assert axes_in_use([single, single]) == [1]
    assert axes_in_use([narrow, single]) == [0, 1]


@pytest.mark.parametrize(
    ("sizes", "kernel", "pads"),
    [((1, 9), (1, 3), (0, 1)), ((9, 1), (3, 1), (1, 0)), ((1, 1, 9), (1, 1, 3), (0, 0, 1))],
)
def test_the_table_is_that_of_a_line(
    sizes: tuple[int, ...], kernel: tuple[int, ...], pads: tuple[int, ...]
) -> None:
    tables = []
    for step in (_convolution(sizes, kernel, pads), _convolution((9,), (3,), (1,))):
        writer = StepWriter(CALLS, prefix="b")
        writer.write([step])
        tables += writer.tables
    assert tables[0] == tables[1]


@pytest.mark.parametrize("operations", [1, 1_000_000])
def test_convolutions_of_bytes_are_in_parts_if_they_have_work(operations: int) -> None:
    step = of_bytes(_convolution((8, 8), (3, 3), (1, 1)))
    writer = StepWriter(CALLS, prefix="b")
    (call,) = writer.write([step.model_copy(update={"operations": operations})])
    start = "byte_convolution<std::int8_t, std::int32_t>(b_convolution_0, 0, "
    if operations > 1:
        start = start.replace("(b_", "({threads, 2}, b_").replace("tion<", "tion_in_parts<")
        size = "byte_convolution_part_scratch<std::int8_t, std::int32_t>(b_convolution_0, 2)"
        assert writer.scratch.parts == [size]
    assert call.startswith(f"  {start}")
