"""Values of inputs: bounds that follow from the model or are given, and masks among random values."""

from __future__ import annotations

import numpy as np
import pytest

from modelwheel.model.input_values import usable_columns, usable_masks, usable_ranges
from modelwheel.model.inspection import ColumnValues, Mask, SignatureInfo, TensorInfo, ValidValues
from modelwheel.model.random_inputs import random_input

_VALID = ValidValues(low=0, high=40, masks=(Mask(value=3),), op="ResourceGather", layer="words")
_SIGNATURE = SignatureInfo(
    key="serving_default",
    inputs=(
        TensorInfo(name="a", dtype="int32", shape=(None, 6), valid=_VALID),
        TensorInfo(name="b", dtype="float32", shape=(None, 6)),
    ),
    outputs=(),
)


def test_the_spec_overrides_what_follows_from_the_model() -> None:
    assert usable_ranges(_SIGNATURE, {}) == {"a": (0, 40)}
    assert usable_ranges(_SIGNATURE, {"a": (1, 5), "b": (0, 1)}) == {"a": (1, 5), "b": (0, 1)}


def test_columns_have_bounds_of_their_own() -> None:
    columns = (ColumnValues(first=1, end=3, low=0, high=7),)
    valid = ValidValues(columns=columns, masks=(Mask(value=5),), op="GatherV2", layer="words")
    (a, b) = _SIGNATURE.inputs
    signature = _SIGNATURE.model_copy(update={"inputs": (a, b.model_copy(update={"valid": valid}))})
    assert str(valid) == "0 <= x[1:3] < 7, mask 5 (GatherV2 in 'words')"
    assert usable_columns(signature, {}) == {"b": columns}
    given = {"b[2]": (0.0, 5.0), "b[4:6]": (9.0, 10.0)}
    assert usable_ranges(signature, given) == {"a": (0, 40)}
    own = tuple(
        ColumnValues(first=f, end=e, low=low, high=high)
        for f, e, low, high in ((2, 3, 0, 5), (4, 6, 9, 10))
    )
    assert usable_columns(signature, given) == {"b": (*columns, *own)}
    assert usable_columns(signature, {"b": (0.0, 1.0), **given}) == {"b": own}
    assert usable_masks(signature, given) == {"a": (Mask(value=3),)}


def test_columns_are_drawn_from_their_own_bounds() -> None:
    plain = random_input(3, "b", (50, 6), "float32", None)
    found = random_input(3, "b", (50, 6), "float32", None, (), [(1, 4, 0, 7, 0), (2, 3, 20, 21, 0)])
    assert np.array_equal(found[:, [0, 4, 5]], plain[:, [0, 4, 5]])
    for column, low, high in ((1, 0, 7), (2, 20, 21), (3, 0, 7)):
        values = found[:, column]
        assert low <= values.min() < low + 0.3 * (high - low)
        assert high - 0.3 * (high - low) < values.max() < high


def test_masks_beyond_the_bounds_of_the_spec_are_left_out() -> None:
    assert usable_masks(_SIGNATURE, {}) == {"a": (Mask(value=3),)}
    assert usable_masks(_SIGNATURE, {"a": (2, 5)}) == {"a": (Mask(value=3),)}
    assert usable_masks(_SIGNATURE, {"a": (4, 9)}) == {}


def test_valid_values_name_where_they_come_from() -> None:
    assert str(_VALID) == "0 <= x < 40, mask 3 (ResourceGather in 'words')"


def test_masks_replace_a_quarter_of_elements_or_blocks() -> None:
    single = random_input(0, "a", (500, 6), "int32", (10, 40), [(3, 0)])
    assert 0.2 < np.mean(single == 3) < 0.3
    blocks = random_input(0, "a", (500, 6, 2), "float32", None, [(-1.5, 1)])
    assert set(np.unique(np.sum(blocks == -1.5, axis=-1))) == {0, 2}
    assert 0.2 < np.mean(blocks == -1.5) < 0.3


def test_masks_keep_other_values_and_the_first_rows() -> None:
    plain = random_input(5, "a", (9, 6), "int32", (10, 40), [])
    masked = random_input(5, "a", (9, 6), "int32", (10, 40), [(3, 0)])
    assert np.array_equal(plain[masked != 3], masked[masked != 3])
    fewer = random_input(5, "a", (4, 6), "int32", (10, 40), [(3, 0)])
    assert np.array_equal(fewer, masked[:4])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "float16", "bfloat16", "complex64", "complex128"]
)
def test_the_first_rows_are_the_same_however_many_there_are(dtype: str) -> None:
    """A wheel's self-test draws fewer rows than the build, if rows depend on each other."""
    fewer, more = (random_input(5, "a", (rows, 3), dtype, None) for rows in (2, 7))
    assert np.array_equal(fewer, more[:2])


def test_a_mask_of_a_scalar_or_of_all_axes() -> None:
    assert random_input(0, "a", (), "int32", (0, 2), [(7, 0)]).shape == ()
    whole = random_input(0, "a", (400,), "float32", None, [(9, 1)])
    assert 0.2 < np.mean(whole == 9) < 0.3
