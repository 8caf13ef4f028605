"""Findings about the inputs and outputs of a signature by themselves."""

from __future__ import annotations

import pytest

from modelwheel.model.inspection import SignatureInfo, TensorInfo
from modelwheel.model.tensor_checks import check_tensors


def _found(*outputs: TensorInfo) -> list[tuple[str, str, str]]:
    x = TensorInfo(name="x", dtype="float32", shape=(None, 4))
    signature = SignatureInfo(key="serving_default", inputs=(x,), outputs=outputs)
    return [(one.severity, one.kind, one.message) for one in check_tensors(signature)]


def _tensor(name: str = "y", *shape: int | None, dtype: str = "float32") -> TensorInfo:
    return TensorInfo(name=name, dtype=dtype, shape=shape or (None, 4))


def test_an_ordinary_signature_has_no_findings() -> None:
    assert _found(_tensor("a/b:0"), _tensor("a.npy"), _tensor("naïve name")) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "an empty name"), ("a\0b", "a name with a NUL"), ("é" * 3000, "more than 4096 bytes")],
)
def test_names_that_no_array_in_a_file_can_have(name: str, words: str) -> None:
    ((severity, code, message),) = _found(_tensor(name))
    assert (severity, code) == ("error", "name")
    assert words in message
    assert len(message) < 200


def test_two_names_that_are_one_in_a_file() -> None:
    ((severity, code, message),) = _found(_tensor("a"), _tensor("a.npy"))
    assert (severity, code) == ("error", "name")
    assert message.startswith("output 'a.npy' has the name of another one with .npy")


def test_outputs_without_elements() -> None:
    empty, other = _tensor("y", None, 0, 4), _tensor("z")
    assert [found[:2] for found in _found(empty)] == [("error", "empty-output")]
    assert [found[:2] for found in _found(empty, other)] == [("warning", "empty-output")]
    assert [found[:2] for found in _found()] == [("error", "no-outputs")]


def test_more_elements_than_a_machine_holds() -> None:
    assert [found[:2] for found in _found(_tensor("y", None, 1 << 30, 1 << 30))] == [
        ("error", "size")
    ]
