"""The order of inputs in the interface: sorted, or that of a tf2xla Config, also with inputs that are ignored."""

from __future__ import annotations

import pytest

from modelwheel.assembly.interface import describe_signature
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.frozen_signature import FrozenSignature, FrozenTensor
from modelwheel.model.inspection import ColumnValues, Mask, ValidValues
from modelwheel.model.reference_result import Reference
from modelwheel.request import Extent
from modelwheel.signature import Signature
from modelwheel.spec.interface import InputSection


def _tensor(name: str, shape: tuple[int, ...] = (2,)) -> FrozenTensor:
    return FrozenTensor(name=name, c_name=name, dtype="float32", shape=shape)


def _describe(
    order: tuple[str, ...],
    valid: dict[str, ValidValues] | None = None,
    labels: dict[str, tuple[str, ...]] | None = None,
) -> Signature:
    """The signature of a model whose input b is ignored."""
    frozen = FrozenSignature(
        key="serving_default",
        batch=None,
        inputs=tuple(_tensor(name) for name in order if name != "b"),
        outputs=(_tensor("y"),),
        batched_inputs=(),
        pruned_inputs=("b",),
        ignored_inputs=(_tensor("b"),),
        order=order,
        ordered_by="model",
    )
    reference = Reference(
        independent=False,
        reason="",
        leading_per_row={"y": 0},
        batched_inputs=(),
        rows=(1,),
        valid=valid or {},
    )
    return describe_signature({Extent(1): frozen}, reference, {}, labels)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")])
def test_the_order_of_inputs(order: tuple[str, ...]) -> None:
    found = _describe(order)
    assert [tensor.name for tensor in found.inputs] == list(order)
    assert found.ordered_by == "model"
    assert [tensor.name for tensor in found.inputs if tensor.ignored] == ["b"]


def test_valid_values_of_inputs() -> None:
    columns = (
        ColumnValues(first=1, end=2, low=0, high=7),
        ColumnValues(first=2, end=4, low=1, high=3),
    )
    valid = {
        "a": ValidValues(low=0, high=9, masks=(Mask(value=-1),)),
        "c": ValidValues(columns=columns),
    }
    found = [tensor.valid_text for tensor in _describe(("a", "b", "c"), valid).inputs]
    assert found == ["0 <= x < 9 or x = -1", "", "0 <= x[..., 1] < 7, 1 <= x[..., 2:4] < 3"]


def test_labels_of_outputs() -> None:
    (output,) = _describe(("a", "b"), labels={"y": ("cat", "dog")}).outputs
    assert output.labels == ("cat", "dog")
    with pytest.raises(
        UnsupportedModelError, match=r"labels\.y has 3 labels, but its last axis has 2"
    ):
        _describe(("a", "b"), labels={"y": ("cat", "dog", "owl")})


def test_the_batch_is_on_the_axis_that_the_reference_says() -> None:
    """At two lengths: the reference has the batch first in `extents`, the interface where the model has it."""
    sections = {
        "x": InputSection.model_validate({"shape": [{"buckets": [3, 5], "pad": 0}, "batch", 2]})
    }
    frozen = {
        Extent(4, length): FrozenSignature(
            key="serving_default",
            batch=4,
            inputs=(_tensor("h", (1, 4)), _tensor("x", (length, 4, 2))),
            outputs=(_tensor("y", (2, length + 1, 12)), _tensor("z", (4,))),
            batched_inputs=("h", "x"),
            pruned_inputs=(),
            order=("h", "x"),
            ordered_by="model",
        )
        for length in (3, 5)
    }
    reference = Reference(
        independent=True,
        reason=None,
        leading_per_row={"y": 3, "z": 1},
        batched_inputs=("h", "x"),
        input_axes={"h": 1, "x": 1},
        output_axes={"y": 2},
        extents={"y": ((3, 0), (2, 0), (1, 1)), "z": ((1, 0),)},
        rows=(4,),
    )
    found = describe_signature(frozen, reference, sections)
    tensors = {t.name: t for t in (*found.inputs, *found.outputs)}
    assert {name: t.shape for name, t in tensors.items()} == {
        "h": (1, None),
        "x": (5, None, 2),
        "y": (2, 6, None),
        "z": (None,),
    }
    assert {name: t.batch_axis for name, t in tensors.items()} == {"h": 1, "x": 1, "y": 2, "z": 0}
    assert tensors["x"].extents == ((0, 1), (1, 0), (2, 0))
    assert tensors["y"].extents == ((2, 0), (1, 1), (3, 0))
    assert tensors["y"].leading_per_row == 3
    other = {**frozen, Extent(8, 5): frozen[Extent(4, 5)]}
    with pytest.raises(UnsupportedModelError, match=r"where .* follows from the other sizes"):
        describe_signature(other, reference, sections)
