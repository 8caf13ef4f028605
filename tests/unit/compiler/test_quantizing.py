"""Scales of layers of 8-bit integers: what they lose, and that zero stays zero."""

from __future__ import annotations

import numpy as np
import pytest

from modelwheel.compiler.formats.quantizing import (
    DataRange,
    FloatLayer,
    as_bfloat16,
    as_bytes,
    bfloat16_error,
    weights_error,
)


def test_each_feature_of_the_weights_has_a_scale() -> None:
    weights = np.array([[1.0, 100.0], [-0.5, 0.0]], np.float32)
    values, scales = as_bytes(FloatLayer("w", weights, 1, 2))
    assert values.dtype == np.int8
    np.testing.assert_array_equal(values, [[127, 127], [-64, 0]])
    np.testing.assert_allclose(scales, [1 / 127, 100 / 127], rtol=1e-6)
    assert weights_error(FloatLayer("w", weights, 1, 2)) < 1e-4


def test_a_feature_of_zeros_has_a_scale_too() -> None:
    values, scales = as_bytes(FloatLayer("w", np.zeros((3, 2), np.float32), 1, 3))
    assert not values.any()
    assert np.all(scales > 0)


@pytest.mark.parametrize(("low", "high"), [(0.0, 4.0), (-1.0, 3.0), (2.0, 3.0), (-3.0, -2.0)])
def test_zero_is_one_of_the_integers(low: float, high: float) -> None:
    """Windows find it beyond an image, and `relu` leaves much of it."""
    data = DataRange()
    data.add(np.random.default_rng(0).uniform(low, high, 5000).astype(np.float32))
    scale, zero, error = data.choose()
    assert 0 <= zero <= 255
    assert scale > 0
    assert error < 1e-4


def test_values_that_are_rare_do_not_decide_the_scale() -> None:
    """The square error is least if a few of them are cut off."""
    values = np.random.default_rng(0).normal(size=60000).astype(np.float32)
    values[7] = 8.0
    data = DataRange()
    data.add(values)
    scale, _, _ = data.choose()
    assert scale < 0.9 * (8.0 - float(values.min())) / 255


def test_values_that_are_not_finite_do_not_count() -> None:
    data = DataRange()
    data.add(np.array([1.0, np.inf, np.nan, -1.0], np.float32))
    data.add(np.array([], np.float32))
    scale, zero, _ = data.choose()
    assert scale == pytest.approx(2 / 255, rel=0.6)
    assert 0 < zero < 255


def test_data_that_are_always_zero_lose_nothing() -> None:
    assert DataRange().choose() == (1.0, 0, 0.0)


@pytest.mark.parametrize(
    ("shape", "channels", "worth"),
    [
        ((256, 512), 256, True),
        ((16, 8, 3, 3), 8, True),
        ((512, 1, 3, 3), 512, False),  # a filter for each feature
        ((1024, 10), 1024, False),
        ((8, 100), 8, False),  # few weights
    ],
)
def test_few_products_are_not_worth_it(
    shape: tuple[int, ...], channels: int, *, worth: bool
) -> None:
    layer = FloatLayer("w", np.ones(shape, np.float32), 0, channels)
    assert layer.gains_by("int8") == worth
    endless = FloatLayer("w", np.full(shape, np.inf, np.float32), 0, channels)
    assert not endless.gains_by("int8")


@pytest.mark.parametrize(
    ("shape", "gains"),
    [
        ((256, 512), True),
        ((300, 1000), True),
        ((64, 16, 3, 3), False),  # a convolution
        ((4096, 40), False),  # few columns
        ((1024, 65), False),  # a last panel that is mostly zeros
        ((100, 100), False),  # few weights
    ],
)
def test_large_products_gain_by_bfloat16(shape: tuple[int, ...], *, gains: bool) -> None:
    layer = FloatLayer("w", np.ones(shape, np.float32), 1, shape[0])
    assert layer.gains_by("bf16") == gains
    largest = np.full(shape, np.finfo(np.float32).max)
    assert not FloatLayer("w", largest, 1, shape[0]).gains_by("bf16")  # it becomes infinite


def test_bfloat16_numbers_are_the_nearest_ones() -> None:
    """Of two neighbours; in the middle, the even one."""
    values = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    values[0, :4] = [1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8), 0]
    found = as_bfloat16(values)
    below = values.view(np.uint32) & np.uint32(0xFFFF0000)
    for other in (below, below + np.uint32(1 << 16)):
        assert (np.abs(found - values) <= np.abs(other.view(np.float32) - values)).all()
    assert found[0, :4].tolist() == [1, 1 + 2**-6, -1, 0]
    assert not (found.view(np.uint32) & 0xFFFF).any()
    error = bfloat16_error(FloatLayer("w", values, 1, 64)) ** 0.5
    assert 0.001 < error < 2**-8
