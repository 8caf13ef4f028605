"""Values of inputs: bounds that follow from the model or are given, and masks among random values."""

from __future__ import annotations

import numpy as np

from modelwheel.compiler.input_values import usable_masks, usable_ranges
from modelwheel.compiler.inspection import Mask, SignatureInfo, TensorInfo, ValidValues
from modelwheel.compiler.random_inputs import random_input

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


def test_a_mask_of_a_scalar_or_of_all_axes() -> None:
    assert random_input(0, "a", (), "int32", (0, 2), [(7, 0)]).shape == ()
    whole = random_input(0, "a", (400,), "float32", None, [(9, 1)])
    assert 0.2 < np.mean(whole == 9) < 0.3
