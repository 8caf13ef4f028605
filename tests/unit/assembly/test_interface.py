"""The order of inputs in the interface: sorted, or that of a tf2xla Config, also with inputs that are ignored."""

from __future__ import annotations

import pytest

from modelwheel.assembly.interface import describe_signature
from modelwheel.compiler.freeze import FrozenSignature, FrozenTensor
from modelwheel.compiler.reference import Reference
from modelwheel.request import Extent


def _tensor(name: str) -> FrozenTensor:
    return FrozenTensor(name=name, c_name=name, dtype="float32", shape=(2,))


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")])
def test_the_order_of_inputs(order: tuple[str, ...]) -> None:
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
        independent=False, reason="", leading_per_row={"y": 0}, batched_inputs=(), rows=(1,)
    )
    found = describe_signature({Extent(1): frozen}, reference, {})
    assert [tensor.name for tensor in found.inputs] == list(order)
    assert found.ordered_by == "model"
    assert [tensor.name for tensor in found.inputs if tensor.ignored] == ["b"]
