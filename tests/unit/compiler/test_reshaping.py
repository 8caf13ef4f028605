"""Shapes of values whose axes are in another order in memory: elements stay where they are if they can."""

from __future__ import annotations

import numpy as np
import pytest

from modelwheel.compiler.stablehlo.writer.builder import Builder, Value
from modelwheel.compiler.stablehlo.writer.reshaping import reshape, transpose


def _features_first(builder: Builder, *shape: int) -> Value:
    """An argument that has its features last in memory."""
    stored = [shape[0], *shape[2:], shape[1]]
    return transpose(builder.argument("x", np.dtype("float32"), stored), [0, 3, 1, 2])


def _elements(value: Value) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Where each element of a value is in memory."""
    stored = np.arange(value.size).reshape(value.stored_shape)
    return np.transpose(stored, value.axes)


@pytest.mark.parametrize(
    "shape", [(2, 3, 4, 5, 6), (2, 12, 30), (2, 12, 1, 30), (1, 2, 6, 2, 5, 6), (2, 3, 4, 30)]
)
def test_parts_of_axes_stay_in_memory(shape: tuple[int, ...]) -> None:
    builder = Builder()
    x = _features_first(builder, 2, 12, 5, 6)
    found = reshape(x, shape)
    assert found.shape == shape
    assert found.origin is None
    np.testing.assert_array_equal(_elements(found), _elements(x).reshape(shape))
    assert _transposes(builder) == 0


@pytest.mark.parametrize("shape", [(2, 4, 90), (24, 5, 6), (720,), (2, 24, 15)])
def test_others_are_put_in_order_and_the_way_back_is_free(shape: tuple[int, ...]) -> None:
    builder = Builder()
    x = _features_first(builder, 2, 12, 5, 6)
    found = reshape(x, shape)
    assert found.origin is x
    assert _transposes(builder) == 1
    assert reshape(found, x.shape) is x
    assert reshape(found, (2, 3, 4, 5, 6)).origin is None
    assert _transposes(builder) == 1


def test_what_has_no_elements_has_any_shape() -> None:
    assert reshape(_features_first(Builder(), 2, 12, 0, 6), (0, 3, 4)).shape == (0, 3, 4)


def _transposes(builder: Builder) -> int:
    return builder.module({}).text.count("stablehlo.transpose")
