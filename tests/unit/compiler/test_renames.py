"""New names of inputs and outputs: sorted by them, unless a file of the model has an order."""

from __future__ import annotations

from modelwheel.compiler.inspection import SignatureInfo, TensorInfo
from modelwheel.compiler.renames import rename


def _names(*names: str, ordered: bool) -> list[str]:
    tensors = tuple(TensorInfo(name=name, dtype="float32", shape=()) for name in names)
    signature = SignatureInfo(key="x", inputs=tensors, outputs=(), ordered=ordered)
    return [tensor.name for tensor in rename(signature, {"b": "z"}).inputs]


def test_the_order_of_renamed_inputs() -> None:
    assert _names("a", "b", "c", ordered=False) == ["a", "c", "z"]
    assert _names("c", "b", "a", ordered=True) == ["c", "z", "a"]
