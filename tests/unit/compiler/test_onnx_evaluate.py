"""References of ONNX models come from ONNX Runtime, or from ONNX's own evaluator, and from no conversion."""

from __future__ import annotations

import numpy as np
import pytest

from modelwheel.compiler.reference.failures import explain_failure
from modelwheel.errors import UnsupportedModelError
from modelwheel.workers import trail

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from onnx import TensorProto, helper

from modelwheel.compiler.formats.onnx.onnx_evaluate import find_evaluator
from tests.support.onnx_models import info, model_of, random

node = helper.make_node


def test_onnx_runtime_evaluates_the_file_itself() -> None:
    inputs = {"x": random(2, 3)}
    found = find_evaluator(model_of([node("Softmax", ["x"], ["y"])], inputs))
    powers = np.exp(inputs["x"])
    np.testing.assert_allclose(
        found.run(inputs)["y"], powers / powers.sum(axis=1, keepdims=True), rtol=1e-6
    )
    assert found.name == f"ONNX Runtime {onnxruntime.__version__}"


def test_what_onnx_runtime_lacks_is_left_to_onnx() -> None:
    inputs = {"x": random(2, 3).astype(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))}
    model = model_of([node("Neg", ["x"], ["y"])], inputs)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    found = find_evaluator(model)
    assert found.name == f"ONNX's own evaluator {onnx.__version__}"
    np.testing.assert_array_equal(found.run(inputs)["y"], -inputs["x"])


@pytest.mark.parametrize("shape", [(1, 3000), (1, 3000, 1)])
def test_fourier_transforms_are_as_exact_as_their_rounding(shape: tuple[int, ...]) -> None:
    inputs = {"x": random(*shape)}
    constants = {"step": np.array(4), "window": np.hanning(400).astype(np.float32)}
    model = model_of([node("STFT", ["x", "step", "window"], ["y"])], inputs, constants=constants)
    result = find_evaluator(model).run(inputs)["y"][0, 1].astype(np.float64)
    frame = np.fft.rfft(inputs["x"].reshape(-1)[4:404].astype(np.float64) * constants["window"])
    error = np.abs(result[:, 0] + 1j * result[:, 1] - frame).max()
    assert error < 2e-6 * np.abs(frame).max()


def test_a_fourier_transform_that_onnx_runtime_rounds_is_left_to_onnx() -> None:
    inputs = {"x": random(1, 400, 1)}
    model = model_of(
        [node("DFT", ["x", "length"], ["y"])], inputs, constants={"length": np.array(400)}
    )
    assert find_evaluator(model).name.startswith("ONNX's own evaluator")


def test_a_model_that_nobody_evaluates_is_refused() -> None:
    model = model_of([node("NoSuchOperation", ["x"], ["y"])], {"x": random(2)})
    with pytest.raises(
        UnsupportedModelError, match=r"neither ONNX Runtime \(.*NoSuchOp.* nor ONNX"
    ):
        find_evaluator(model)


def test_a_failure_names_the_evaluator_and_the_node() -> None:
    inputs = {"x": np.array([1, 7], np.int64)}
    gather = node("Gather", ["table", "x"], ["y"], name="words/lookup")
    model = model_of([gather], inputs, constants={"table": random(4, 2)})
    with pytest.raises(ValueError, match="out of data bounds") as caught:
        find_evaluator(model).run(inputs)
    said = explain_failure(str(caught.value), inputs, None, sampled=False, by="ONNX Runtime")
    assert said.startswith(
        "ONNX Runtime fails in layer 'words': indices element out of data bounds"
    )


def test_a_crash_is_found_node_by_node(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    inputs = {"x": random(2, 3), "c": np.ones((), np.bool_)}
    branches = [
        helper.make_graph([node(op, ["h"], ["t"])], op, [], [info("t", (2, 3))])
        for op in ("Neg", "Exp")
    ]
    nodes = [
        node("Add", ["x", "w"], ["h"], name="first"),
        node("If", ["c"], ["b"], then_branch=branches[0], else_branch=branches[1]),
        node("Dropout", ["b"], ["y", ""], name="last"),
    ]
    model = model_of(nodes, inputs, constants={"w": random(3)}, opset=18)
    plain = find_evaluator(model).run(inputs)["y"]
    assert "modelwheel is at" not in capfd.readouterr().err
    monkeypatch.setattr(trail, "_state", {"follows": True})
    np.testing.assert_array_equal(find_evaluator(model).run(inputs)["y"], plain)
    log = capfd.readouterr().err
    assert [line for line in log.splitlines() if line] == [
        f"modelwheel is at: {place!a}" for place in ("Add 'first'", "If 'b'", "Dropout 'last'")
    ]
    assert trail.last_place(log) == "Dropout 'last'"
