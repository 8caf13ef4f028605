"""What callers may pass to inputs: bounds of the spec, or those that follow from the model."""

from __future__ import annotations

from modelwheel.model.input_values import valid_values
from modelwheel.model.inspection import ColumnValues, Mask, SignatureInfo, TensorInfo, ValidValues

TABLE = ValidValues(low=0, high=9000, masks=(Mask(value=-1),), op="GatherV2", layer="embedding")
COLUMN = ColumnValues(first=1, end=2, low=0, high=7)


def _signature(valid: ValidValues | None) -> SignatureInfo:
    return SignatureInfo(
        key="serving_default",
        inputs=(TensorInfo(name="x", dtype="int32", shape=(None, 3), valid=valid),),
        outputs=(),
    )


def test_what_follows_from_the_model_is_valid() -> None:
    assert valid_values(_signature(TABLE), {}) == {"x": TABLE}


def test_anything_is_valid_where_nothing_is_known() -> None:
    assert valid_values(_signature(None), {}) == {}
    assert valid_values(_signature(ValidValues(masks=(Mask(value=-1),))), {}) == {}


def test_what_the_author_says_counts() -> None:
    assert valid_values(_signature(TABLE), {"x": (1, 50)}) == {"x": ValidValues(low=1, high=50)}
    assert valid_values(_signature(None), {"x": (1, 50)}) == {"x": ValidValues(low=1, high=50)}


def test_columns_have_bounds_of_their_own() -> None:
    model = ValidValues(columns=(COLUMN,))
    found = valid_values(_signature(model), {"x[0]": (2, 3)})["x"]
    assert found.bounds is None
    assert [(c.first, c.low, c.high) for c in found.columns] == [(1, 0, 7), (0, 2, 3)]
