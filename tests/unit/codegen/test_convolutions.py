"""The tables of convolutions: axes of one place are left out."""

from __future__ import annotations

import pytest

from modelwheel.codegen.thunks import ThunkWriter
from modelwheel.program import program as p
from modelwheel.program.spatial_axes import axes_in_use
from tests.support.programs import dense


def _convolution(
    sizes: tuple[int, ...], kernel: tuple[int, ...], pads: tuple[int, ...]
) -> p.Convolution:
    """Of four features to eight, with a stride of 1."""
    rank = len(sizes)
    spatial = tuple(range(1, rank + 1))
    image = p.Axes(batch=0, feature=rank + 1, spatial=spatial)
    places = [
        size + 2 * pad - (window - 1) for size, window, pad in zip(sizes, kernel, pads, strict=True)
    ]
    windows = tuple(
        p.Window(
            size=window,
            stride=1,
            pad_low=pad,
            pad_high=pad,
            kernel_dilation=1,
            base_dilation=1,
            reversed=False,
        )
        for window, pad in zip(kernel, pads, strict=True)
    )
    return p.Convolution(
        operations=1,
        input=dense((2, *sizes, 4), 0),
        kernel=dense((*kernel, 4, 8), 1),
        output=dense((2, *places, 8), 2),
        input_axes=image,
        kernel_axes=p.Axes(batch=rank, feature=rank + 1, spatial=tuple(range(rank))),
        output_axes=image,
        windows=windows,
        feature_groups=1,
    )


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
    assert axes_in_use([_convolution(sizes, kernel, pads)]) == axes


def test_layers_of_a_chain_have_the_same_axes() -> None:
    single, narrow = _convolution((1, 9), (1, 1), (0, 0)), _convolution((3, 9), (3, 1), (0, 0))
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
    for one in (_convolution(sizes, kernel, pads), _convolution((9,), (3,), (1,))):
        writer = ThunkWriter(prefix="b")
        writer.write([one])
        tables += writer.tables
    assert tables[0] == tables[1]
