"""The order of inputs in the interface: sorted, or that of a tf2xla Config, also with inputs that are ignored."""

from __future__ import annotations

import pytest

from modelwheel.assembly.interface import describe_signature
from modelwheel.compiler.freeze import FrozenSignature, FrozenTensor
from modelwheel.compiler.inspection import ColumnValues, Mask, ValidValues
from modelwheel.compiler.reference import Reference
from modelwheel.request import Extent
from modelwheel.signature import Signature


def _tensor(name: str) -> FrozenTensor:
    return FrozenTensor(name=name, c_name=name, dtype="float32", shape=(2,))


def _describe(order: tuple[str, ...], valid: dict[str, ValidValues] | None = None) -> Signature:
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
    return describe_signature({Extent(1): frozen}, reference, {})


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
