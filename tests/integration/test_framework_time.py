"""How long the framework takes: measured for every batch size, and never a reason for a build to fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from modelwheel.compiler import formats
from modelwheel.compiler.formats.onnx import onnx_evaluate
from modelwheel.compiler.loaded.base import LoadedModel
from modelwheel.compiler.reference.framework_time import time_framework
from modelwheel.model.readings import OnnxReading
from modelwheel.workers.jobs import ReferenceRequest

pytestmark = pytest.mark.slow


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedModel:
    """An ONNX model with one product."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", floats, ["n", 3])],
        [helper.make_tensor_value_info("y", floats, ["n", 2])],
        [weights],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "net.onnx")
    return formats.load(tmp_path, OnnxReading(file="net.onnx"), "serving_default", {})


def _request(*, keep_state: bool = False) -> ReferenceRequest:
    return ReferenceRequest(
        reading=OnnxReading(file="net.onnx"),
        signature="serving_default",
        batch_sizes=(1, 4),
        keep_state=keep_state,
    )


def test_onnx_runtime_is_timed_with_its_optimisations(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    session = onnx_evaluate._session

    def note(model: onnx.ModelProto, *, fast: bool = False) -> object:
        made.append(fast)
        return session(model, fast=fast)

    monkeypatch.setattr(onnx_evaluate, "_session", note)
    found = time_framework(loaded, _request())
    assert found.missing is None
    assert [one.rows for one in found.times] == [1, 4]
    assert all(one.nanoseconds > 0 for one in found.times)
    assert found.framework.startswith("ONNX Runtime ")
    assert found.framework.endswith(" on one thread")
    assert made == [False, True]  # the reference's, and one more for both sizes


def test_what_cannot_be_timed_says_why(loaded: LoadedModel) -> None:
    found = time_framework(loaded, _request(keep_state=True))
    assert (found.times, found.missing) == ((), "it keeps state")


def test_an_error_is_no_error_of_the_build(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no more room\nof any kind")

    monkeypatch.setattr(type(loaded), "__call__", fail)
    found = time_framework(loaded, _request())
    assert (found.times, found.missing) == ((), "no more room")
