"""Convolutions that XLA has kernels of its own for: those that the runtime's kernels compute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.passes.recognise.convolutions import convolution_kernel
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from tests.support.thunks import dense


def _shape(*dimensions: int, element_type: int = ElementType.FLOAT32) -> SimpleNamespace:
    layout = SimpleNamespace(minor_to_major=tuple(reversed(range(len(dimensions)))))
    return SimpleNamespace(element_type=element_type, dimensions=dimensions, layout=layout)


_PLAIN: dict[str, Any] = {
    "opcode": "convolution",
    "feature_group_count": 2,
    "batch_group_count": 1,
    "convolution_dimension_numbers": SimpleNamespace(
        input_batch_dimension=0,
        input_spatial_dimensions=[1],
        input_feature_dimension=2,
        kernel_spatial_dimensions=[0],
        kernel_input_feature_dimension=1,
        kernel_output_feature_dimension=2,
        output_batch_dimension=0,
        output_spatial_dimensions=[1],
        output_feature_dimension=2,
    ),
}


def _find(
    source: Any = None,
    arguments: int = 2,
    constant: int = 1,
    size: int = 8,
    mirrored: bool = True,
    **changes: Any,
) -> p.Convolution | None:
    """The convolution of 3 x 5 x 4 by a window of 8 in two groups, in a kernel."""
    window = SimpleNamespace(
        size=size,
        stride=2,
        padding_low=4,
        padding_high=5,
        window_dilation=0,
        base_dilation=1,
        window_reversal=mirrored,
    )
    shapes = [source or _shape(3, 5, 4), _shape(size, 2, 6), _shape(3, 4, 6)]
    instructions = [
        SimpleNamespace(
            id=number,
            opcode="constant" if number == constant else "parameter",
            shape=shapes[number],
            operand_ids=[],
        )
        for number in (0, 1)
    ]
    instructions += [
        SimpleNamespace(
            id=2,
            shape=shapes[2],
            operand_ids=[0, 1],
            window=SimpleNamespace(dimensions=[window]),
            **{**_PLAIN, **changes},
        ),
    ]
    entry = SimpleNamespace(id=0, instructions=instructions, root_id=2)
    hlo = HloModule(SimpleNamespace(computations=[entry], entry_computation_id=0))
    parts = [dense(shape.dimensions, number).slice for number, shape in enumerate(shapes)]
    kernel = p.Kernel(
        operations=2304,
        symbol="convolution",
        workgroups=(1, 1, 1),
        arguments=tuple(parts[:arguments]),
        results=(parts[2],),
    )
    return convolution_kernel(hlo, instructions[2], kernel)


def test_a_kernel_that_is_a_convolution() -> None:
    found = _find()
    assert found is not None
    assert [a.slice.allocation for a in found.arrays] == [0, 1, 2]
    assert [a.shape for a in found.arrays] == [(3, 5, 4), (8, 2, 6), (3, 4, 6)]
    assert found.operations == 2 * (3 * 4 * 6) * (8 * 2)
    assert found.feature_groups == 2
    assert found.kernel_axes == ops.Axes(batch=1, feature=2, spatial=(0,))
    window = ops.Window(
        size=8, stride=2, pad_low=4, pad_high=5, kernel_dilation=1, base_dilation=1, reversed=True
    )
    assert found.windows == (window,)


def test_the_operands_that_xla_exchanged_are_exchanged_back() -> None:
    found = _find(constant=0, feature_group_count=1, source=_shape(3, 5, 2))
    assert found is not None
    assert [a.slice.allocation for a in found.arrays] == [1, 0, 2]
    assert found.input_axes == ops.Axes(batch=2, feature=1, spatial=(0,))
    assert found.kernel_axes == ops.Axes(batch=2, feature=0, spatial=(1,))
    assert found.output_axes == ops.Axes(batch=2, feature=0, spatial=(1,))
    window = ops.Window(
        size=5, stride=2, pad_low=1, pad_high=2, kernel_dilation=1, base_dilation=1, reversed=True
    )
    assert found.windows == (window,)
    assert _elements(found) == _elements(_found_as_it_is())


def test_windows_that_are_not_reversed_stay() -> None:
    found = _find(constant=0, feature_group_count=1, source=_shape(3, 5, 2), mirrored=False)
    assert found is not None
    assert [a.slice.allocation for a in found.arrays] == [0, 1, 2]
    single = _find(
        constant=0, feature_group_count=1, source=_shape(3, 5, 2), size=1, mirrored=False
    )
    assert single is not None
    assert [a.slice.allocation for a in single.arrays] == [1, 0, 2]


def _found_as_it_is() -> p.Convolution:
    found = _find(feature_group_count=1, source=_shape(3, 5, 2))
    assert found is not None
    return found


def _elements(c: p.Convolution) -> set[tuple[int, int, int]]:
    """Which elements meet along the axis: the place in the result, in what XLA has as the input, and in the other."""
    (window,) = c.windows
    (axis,) = c.input_axes.spatial
    first = c.arrays[0].slice.allocation == 0
    met = set()
    for out in range(4):
        for tap in range(window.size):
            at = out * window.stride + (window.size - 1 - tap) - window.pad_low
            if 0 <= at < c.input.shape[axis]:
                met.add((out, at, tap) if first else (out, tap, at))
    return met


@pytest.mark.parametrize(
    "changes",
    [
        {"opcode": "fusion"},
        {"arguments": 1},  # both operands are one
        {"batch_group_count": 3},
        {"source": _shape(3, 5, 4, element_type=ElementType.INT32)},
        {"source": _shape(3, 0, 4)},
    ],
)
def test_any_other_kernel_stays(changes: dict[str, Any]) -> None:
    assert _find(**changes) is None
