"""Kernels that pool images or reduce rows: only windows that the runtime's kernels slide in the same way."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.passes.recognise.pooling import mean_of_images, pooling, row_reduction
from tests.support.thunks import dense


def _shape(*dimensions: int, order: tuple[int, ...] = (3, 2, 1, 0)) -> SimpleNamespace:
    layout = SimpleNamespace(minor_to_major=order if dimensions else ())
    return SimpleNamespace(element_type=11, dimensions=dimensions, layout=layout)


def _window(size: int = 1, stride: int = 1, low: int = 0, **changes: Any) -> SimpleNamespace:
    plain = {"padding_high": 0, "window_dilation": 1, "base_dilation": 1, "window_reversal": False}
    fields = {**plain, "size": size, "stride": stride, "padding_low": low, **changes}
    return SimpleNamespace(**fields)


def _instruction(number: int, opcode: str, shape: Any, **fields: Any) -> SimpleNamespace:
    rest = {"operand_ids": [], "called_computation_ids": [], "parameter_number": 0, **fields}
    return SimpleNamespace(id=number, name=str(number), opcode=opcode, shape=shape, **rest)


def _module(*computations: list[SimpleNamespace]) -> HloModule:
    """A module whose last computation is its entry."""
    found = [
        SimpleNamespace(id=number, instructions=instructions, root_id=instructions[-1].id)
        for number, instructions in enumerate(computations)
    ]
    return HloModule(SimpleNamespace(computations=found, entry_computation_id=len(found) - 1))


def _reduction(
    opcode: str, source: Any, result: Any, reducer: str, initial: float, **fields: Any
) -> tuple[HloModule, Any, p.Kernel]:
    """A fusion that reduces its first operand, from its second on."""
    scalar = _shape()
    fused = [
        _instruction(0, "parameter", source),
        _instruction(1, "parameter", scalar, parameter_number=1),
        _instruction(2, opcode, result, operand_ids=[0, 1], called_computation_ids=[1], **fields),
    ]
    reduced = [
        _instruction(3, "parameter", scalar),
        _instruction(4, "parameter", scalar, parameter_number=1),
        _instruction(5, reducer, scalar, operand_ids=[3, 4]),
    ]
    fusion = _instruction(8, "fusion", result, operand_ids=[6, 7], called_computation_ids=[0])
    entry = [
        _instruction(6, "parameter", source),
        _instruction(7, "constant", scalar, literal=SimpleNamespace(f32s=[initial])),
        fusion,
    ]
    hlo = _module(fused, reduced, entry)
    kernel = p.Kernel(
        operations=7,
        symbol="pool",
        workgroups=(1, 1, 1),
        arguments=(dense(source.dimensions, 0).slice, dense((), 1).slice),
        results=(dense(result.dimensions, 2).slice,),
    )
    return hlo, fusion, kernel


def _find(
    reducer: str = "maximum",
    initial: float = -math.inf,
    order: tuple[int, ...] = (3, 2, 1, 0),
    **changes: Any,
) -> p.Pooling | None:
    """The pooling of a 5 x 6 image by windows of 3 x 2; `changes` are those of its second window."""
    windows = [_window(), _window(3, 2), _window(2, 2, 1, **changes), _window()]
    source, result = _shape(2, 5, 6, 8, order=order), _shape(2, 2, 3, 8)
    dimensions = SimpleNamespace(dimensions=windows)
    return pooling(
        *_reduction("reduce-window", source, result, reducer, initial, window=dimensions)
    )


def _rows_of_windows(
    order: tuple[int, ...] = (1, 0), result_order: tuple[int, ...] = (1, 0), **changes: Any
) -> p.RowReduction | None:
    """The sums of windows of 32 over rows of 100, padded on both sides."""
    window = _window(**{"size": 32, "stride": 32, "low": 14, "padding_high": 14, **changes})
    dimensions = SimpleNamespace(dimensions=[_window(), window])
    source, result = _shape(3, 100, order=order), _shape(3, 4, order=result_order)
    return row_reduction(
        *_reduction("reduce-window", source, result, "add", 0.0, window=dimensions)
    )


def _whole_rows(
    order: tuple[int, ...], result_order: tuple[int, ...], axes: tuple[int, ...], size: int = 10
) -> p.RowReduction | None:
    """The largest elements of some axes of a 2 x 3 x 4 x `size` array."""
    extents = (2, 3, 4, size)
    source = _shape(*extents, order=order)
    kept = [extent for axis, extent in enumerate(extents) if axis not in axes]
    result = _shape(*kept, order=result_order)
    return row_reduction(
        *_reduction("reduce", source, result, "maximum", -math.inf, dimensions=list(axes))
    )


def test_the_windows_of_a_pooling() -> None:
    found = _find()
    assert found is not None
    assert (found.reducer, found.initial, found.operations) == ("maximum", None, 7)
    assert (found.batch, found.features) == (2, 8)
    assert (found.in_size, found.out_size) == ((5, 6), (2, 3))
    assert (found.window, found.stride, found.pad_low) == ((3, 2), (2, 2), (0, 1))


def test_a_sequence_is_an_image_with_one_column() -> None:
    windows = [_window(), _window(32, 32, 3, padding_high=1), _window()]
    source, result = _shape(2, 60, 8, order=(2, 1, 0)), _shape(2, 2, 8, order=(2, 1, 0))
    dimensions = SimpleNamespace(dimensions=windows)
    made = _reduction("reduce-window", source, result, "add", 0.0, window=dimensions)
    found = pooling(*made)
    assert found is not None
    assert (found.batch, found.features) == (2, 8)
    assert (found.in_size, found.out_size) == ((60, 1), (2, 1))
    assert (found.window, found.stride, found.pad_low) == ((32, 1), (32, 1), (3, 0))


def test_sums_begin_with_a_number() -> None:
    found = _find("add", 0.0)
    assert found is not None
    assert (found.reducer, found.initial) == ("sum", 0.0)
    assert _find("add", -math.inf) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"reducer": "minimum"},
        {"initial": math.nan},
        {"order": (0, 3, 2, 1)},
        {"window_dilation": 2},
        {"base_dilation": 2},
        {"window_reversal": True},
    ],
)
def test_anything_else_stays_a_kernel(changes: dict[str, Any]) -> None:
    assert _find(**changes) is None


def test_the_windows_of_rows() -> None:
    found = _rows_of_windows()
    assert found is not None
    assert (found.reducer, found.initial, found.operations) == ("sum", 0.0, 7)
    assert (found.rows, found.size) == (3, 100)
    assert (found.windows, found.window, found.pad_low) == (4, 32, 14)


def test_the_axes_of_a_reduction_may_be_several() -> None:
    found = _whole_rows((3, 2, 1, 0), (1, 0), (2, 3))
    assert found is not None
    assert (found.reducer, found.initial) == ("maximum", None)
    assert (found.rows, found.size) == (6, 40)
    assert (found.windows, found.window, found.pad_low) == (1, 40, 0)
    assert _whole_rows((3, 1, 2, 0), (2, 1, 0), (3,)) is None  # its result has another order
    assert _whole_rows((3, 1, 2, 0), (1, 2, 0), (3,)) is not None


def test_reductions_of_anything_but_long_rows_stay_kernels() -> None:
    assert _whole_rows((3, 2, 1, 0), (2, 1, 0), (2,)) is None
    assert _whole_rows((3, 2, 1, 0), (2, 1, 0), (3,), size=7) is None
    assert _rows_of_windows(order=(0, 1)) is None
    assert _rows_of_windows(result_order=(0, 1)) is None
    assert _rows_of_windows(stride=16) is None
    assert _rows_of_windows(window_reversal=True) is None


def _mean(
    *, axes: tuple[int, ...] = (1, 2), opcode: str = "add", initial: float = 0.0, factor: Any = 0.25
) -> p.Pooling | None:
    """What becomes of a kernel that reduces images and multiplies the result."""
    scalar, result = _shape(), _shape(2, 8, order=(1, 0))
    number = SimpleNamespace(f32s=[factor])
    fused = [
        _instruction(0, "parameter", _shape(2, 5, 6, 8)),
        _instruction(1, "constant", scalar, literal=SimpleNamespace(f32s=[initial])),
        _instruction(
            2, "reduce", result, operand_ids=[0, 1], called_computation_ids=[1], dimensions=axes
        ),
        _instruction(3, "constant", scalar, literal=number),
        _instruction(4, "broadcast", result, operand_ids=[3]),
        _instruction(5, "multiply", result, operand_ids=[2, 4]),
        _instruction(6, "bitcast", _shape(2, 1, 1, 8), operand_ids=[5]),
    ]
    reduced = [
        _instruction(7, "parameter", scalar),
        _instruction(8, "parameter", scalar, parameter_number=1),
        _instruction(9, opcode, scalar, operand_ids=[7, 8]),
    ]
    fusion = _instruction(11, "fusion", result, operand_ids=[10], called_computation_ids=[0])
    entry = [_instruction(10, "parameter", _shape(2, 5, 6, 8)), fusion]
    hlo = _module(fused, reduced, entry)
    kernel = p.Kernel(
        operations=7,
        symbol="k",
        workgroups=(1, 1, 1),
        arguments=(dense((2, 5, 6, 8), 0).slice,),
        results=(dense((2, 8), 1).slice,),
    )
    return mean_of_images(hlo, fusion, kernel)


def test_a_mean_of_images_is_a_pooling_with_a_factor() -> None:
    found = _mean()
    assert found is not None
    assert (found.batch, found.features, found.reducer) == (2, 8, "sum")
    assert found.in_size == found.window == (5, 6)
    assert found.out_size == (1, 1)
    assert (found.in_factor, found.factor) == (1.0, 0.25)


@pytest.mark.parametrize(
    "changes",
    [
        {"axes": (2, 3)},
        {"axes": (1,)},
        {"opcode": "maximum"},
        {"initial": 1.0},
        {"factor": math.inf},
    ],
)
def test_other_reductions_stay_kernels(changes: dict[str, Any]) -> None:
    assert _mean(**changes) is None
