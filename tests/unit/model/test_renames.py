"""New names and orders of inputs and outputs."""

from __future__ import annotations

from modelwheel.model.inspection import OrderedBy, SignatureInfo, TensorInfo
from modelwheel.model.renames import arrange, rename
from modelwheel.spec.interface import InterfaceOrder


def _names(
    *names: str, ordered_by: OrderedBy, order: InterfaceOrder = "model"
) -> tuple[OrderedBy, list[str]]:
    tensors = tuple(TensorInfo(name=name, dtype="float32", shape=()) for name in names)
    signature = SignatureInfo(key="x", inputs=tensors, outputs=tensors, ordered_by=ordered_by)
    found = rename(arrange(signature, order), {"b": "z"})
    assert found.inputs == found.outputs
    return found.ordered_by, [tensor.name for tensor in found.inputs]


def test_the_order_of_renamed_inputs() -> None:
    assert _names("a", "b", "c", ordered_by="natural") == ("natural", ["a", "c", "z"])
    assert _names("c", "b", "a", ordered_by="model") == ("model", ["c", "z", "a"])


def test_numbers_in_names_count_as_numbers_unless_names_are_sorted_as_text() -> None:
    names = ("x10", "b", "x9", "x2")
    assert _names(*names, ordered_by="natural")[1] == ["x2", "x9", "x10", "z"]
    for ordered_by in ("natural", "model"):
        found = _names(*names, ordered_by=ordered_by, order="sorted")
        assert found == ("sorted", ["x10", "x2", "x9", "z"])
