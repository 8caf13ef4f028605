"""Models with megabytes of weights, and values of which a few rows fill the memory."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.model.frozen_signature import GRAPH
from modelwheel.model.readings import (
    GraphDefReading,
    KerasReading,
    OnnxReading,
    Reading,
    SavedModelReading,
    StableHloReading,
)
from modelwheel.model.reference_result import Reference
from modelwheel.workers.jobs import FreezeRequest, InspectRequest, ReferenceRequest
from tests.models.large import WRITERS, Size
from tests.support.laboratory import Laboratory, run_script

_MISSING = [name for name in ("jax", "onnx", "torch_mlir") if find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_MISSING), reason=f"{' and '.join(_MISSING)} is not installed"),
]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large")
    run_script("large", directory)
    return directory


def _reading(name: str) -> Reading:
    if name == "saved_model":
        return SavedModelReading()
    kind = name.partition(".")[2]
    if kind in ("pb", "pbtxt"):
        return GraphDefReading(file=name, feeds={"x": "x"}, fetches={"y": "y"})
    if kind in ("keras", "h5"):
        return KerasReading(file=name)
    return OnnxReading(file=name) if kind == "onnx" else StableHloReading(file=name)


@pytest.mark.parametrize("name", list(WRITERS))
def test_ten_megabytes_of_weights_in_each_format(
    laboratory: Laboratory, large: Path, name: str
) -> None:
    """What is quadratic in the weights ends at the time limit of the job."""
    reading = _reading(name)
    model = large / name if name == "saved_model" else large
    laboratory.run(InspectRequest(reading=reading).job(model, laboratory.new_directory()))
    request = FreezeRequest(reading=reading, signature="serving_default", batch=2)
    out = laboratory.run(request.job(model, laboratory.new_directory()))
    graph = (out / GRAPH).read_bytes()
    # As constants of the graph, not as text.
    assert sum(w.nbytes for pair in Size().pairs for w in pair) < len(graph) < 10_700_000


_WRITE = """
import sys
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
w = np.random.default_rng(5).standard_normal((256, 1, 3, 3)).astype(np.float32)
nodes = [
    helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
    helper.make_node("ReduceMax", ["c"], ["y"], axes=[2, 3], keepdims=0),
]
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 64, 64])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 256])
graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, "w")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
onnx.save(model, sys.argv[1])
"""


def test_the_truth_of_rows_in_pieces_is_numpy_s(laboratory: Laboratory, tmp_path: Path) -> None:
    """A convolution of 19 rows has 159 MB in float64, so that 15 are evaluated at once, and then the rest."""
    subprocess.run([sys.executable, "-c", _WRITE, tmp_path / "m.onnx"], check=True)
    request = ReferenceRequest(
        reading=OnnxReading(file="m.onnx"),
        signature="serving_default",
        batch_sizes=(16,),
        rows=(16, 19),
    )
    out = laboratory.run(request.job(tmp_path, laboratory.new_directory()))
    truth = Reference.load(out / "reference.json").truth
    assert truth.missing is None
    assert {one.rows for one in truth.framework if not one.circumstance} == {16, 19}
    with np.load(out / "reference.npz") as stored:
        x, ours, more = (stored[name] for name in ("in/x", "out/19/y", "exact/19/y"))
    weights = np.random.default_rng(5).standard_normal((256, 1, 3, 3)).astype(np.float32)
    padded = np.pad(x[:, 0].astype(float), ((0, 0), (1, 1), (1, 1)))
    windows: Any = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    kernels = weights.reshape(256, 9).astype(float)
    exact = [(row.reshape(-1, 9) @ kernels.T).max(0) for row in windows]
    np.testing.assert_allclose(ours.astype(float) + more, exact, rtol=1e-12)
