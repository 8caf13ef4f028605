"""One ONNX file with its weights beside it: what other converters of ONNX refuse, crash on, or get wrong."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import CompileError
from modelwheel.program.program import Program
from modelwheel.program.walk import leaves
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory
from tests.support.wheels import LOWEST, unpack

_MISSING = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_MISSING), reason=f"{' and '.join(_MISSING)} is not installed"),
]

ROWS = 2

_GRAPH = """<ir_version: 8, opset_import: ["" : 16]>
kinds (uint8[N,4] pixels, float[N,2,4,6,5] volume, float[N,2,6,6] image, float[N,8] x) => (
  uint8[N,4] shifted, bool[N,4] bright, int64[N] brightest, uint8[N] darkest, float[N,2,4,3,5] pooled,
  float[N,2,3,3] largest, int64[N,2,3,3] places, float[N,8] unit, int64[N,3] top, float[N,2] dense,
  float[N,2,12,12] wide, int32[N,3] sums, uint8[N,3] linear, float[N,3] layer,
  float[N,3,6,6] mixed
)
<uint8[4] by = {1,7,4,0}, uint8 limit = {127}, int64 whole = {72}, int64[1] three = {3},
 int8[8,2] w = {1,-20,30,-40,50,-127,127,3,-7,90,-100,11,64,-128,0,5}, float scale = {0.02}, int8 zero = {0},
 float[2,2,3,3] kernel = {-0.5,0.2,-0.2,0.5,0.1,-0.3,0.4,0.0,-0.4,0.3,-0.1,-0.5,0.2,-0.2,0.5,0.1,-0.3,0.4,0.0,-0.4,
  0.3,-0.1,-0.5,0.2,-0.2,0.5,0.1,-0.3,0.4,0.0,-0.4,0.3,-0.1,-0.5,0.2,-0.2},
 int8[4,3] matrix = {127,-128,3,-128,-128,90,127,1,-77,-128,5,0}, uint8 seven = {7}, int8[3] points = {0,-3,5},
 float small = {0.004}, float large = {0.7}, float[3] each = {0.01,0.5,0.002},
 int8[3,8] rows = {127,-128,0,1,2,3,4,5,6,7,8,9,10,-128,-128,-128,-128,127,127,127,3,2,1,0}, int8[3] none = {0,0,0},
 float[3] bias = {0.5,-0.25,100}, int8[3,2,1,1] pixel = {127,-128,3,-77,0,9}> {
  shifted = BitShift<direction="RIGHT">(pixels, by)
  bright = Greater(pixels, limit)
  brightest = ArgMax<axis=1,keepdims=0>(pixels)
  darkest = ReduceMin<axes=[1],keepdims=0>(pixels)
  pooled = AveragePool<kernel_shape=[2,3,2],strides=[1,2,1],pads=[1,1,0,0,1,1]>(volume)
  largest, indices = MaxPool<kernel_shape=[2,2],strides=[2,2]>(image)
  places = Mod(indices, whole)
  unit = LpNormalization<axis=1>(x)
  values, top = TopK(x, three)
  weights = DequantizeLinear(w, scale, zero)
  dense = MatMul(x, weights)
  sums = MatMulInteger(pixels, matrix, seven, points)
  linear = QLinearMatMul(pixels, small, seven, matrix, large, zero, large, seven)
  bytes = QuantizeLinear(x, large, seven)
  values8 = DequantizeLinear(bytes, large, seven)
  rows8 = DequantizeLinear<axis=0>(rows, each, none)
  layer = Gemm<transB=1>(values8, rows8, bias)
  image8 = QuantizeLinear(image, small, seven)
  values16 = DequantizeLinear(image8, small, seven)
  pixel8 = DequantizeLinear<axis=0>(pixel, each, none)
  mixed = Conv(values16, pixel8, bias)
  wide = ConvTranspose<strides=[2,2],pads=[0,0,1,1]>(image, kernel)
}"""
"""`indices` count through all rows of the batch, `places` within one."""

_PRODUCTS = ["sums", "linear"]
"""Results of unsigned by signed bytes."""

_SPEC = f"""\
model: {{name: onnx-kinds, version: "1.0.0"}}
source: {{directory: ., path: kinds.onnx}}
compilation: {{batch_sizes: [{ROWS}]}}
targets: [{LOWEST}]
package: {{bindings: shared}}
"""


def _inputs() -> dict[str, Any]:
    random = np.random.default_rng(5)
    shapes = {"volume": (2, 4, 6, 5), "image": (2, 6, 6), "x": (8,)}
    inputs: dict[str, Any] = {
        name: random.standard_normal((ROWS, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    inputs["x"][1] = 0
    inputs["pixels"] = np.array([[255, 128, 200, 3], [145, 229, 214, 255]], np.uint8)
    return inputs


def _expected(model: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of ONNX Runtime without its fusions, which round differently.

    Its products of unsigned by signed bytes are not exact on CPUs without VNNI; those of ONNX's own evaluator are.
    """
    import onnx
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, inputs), strict=True))
    loaded = onnx.load(model)
    products = onnx.utils.Extractor(loaded).extract_model(["pixels"], _PRODUCTS)
    exact = ReferenceEvaluator(products).run(_PRODUCTS, {"pixels": inputs["pixels"]})
    return found | dict(zip(_PRODUCTS, exact, strict=True))


@pytest.fixture(scope="module")
def kinds(
    modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Path]]:
    """The package and the file."""
    import onnx

    work = tmp_path_factory.mktemp("kinds")
    (work / "kinds.yaml").write_text(_SPEC, "utf-8")
    file = work / "kinds.onnx"
    onnx.save(
        onnx.parser.parse_model(_GRAPH),
        file,
        save_as_external_data=True,
        location="kinds.onnx.data",
        size_threshold=0,
    )
    modelwheel("check", work / "kinds.yaml")
    modelwheel.build(work / "kinds.yaml", "--out", work / "dist")
    for wheel in (work / "dist").glob("*.whl"):
        unpack(wheel, work / "packages")
    sys.path.append(str(work / "packages"))
    program = modelwheel("inspect", "--program", next((work / "dist").glob("model_*.whl"))).out
    # With unsigned integers and zero points, of each layer: products read bytes.
    assert len(re.findall(r" = (?:dot|byte_layer) .* s8\[\d+,\d\], .* s8\[", program)) == 4
    yield importlib.import_module("model_onnx_kinds"), file
    sys.path.remove(str(work / "packages"))


def test_each_kind_agrees_with_onnx_runtime(kinds: tuple[Any, Path]) -> None:
    package, file = kinds
    inputs = _inputs()
    expected = _expected(file, inputs)
    found = package.Model().predict(inputs)
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        if values.dtype == np.float32:
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert not found["unit"][1].any()
    first = package.Model().predict({name: values[:1] for name, values in inputs.items()})
    for name, values in found.items():
        np.testing.assert_array_equal(first[name], values[:1], err_msg=name)


def test_a_layer_whose_shapes_do_not_fit_is_named(modelwheel: Modelwheel, tmp_path: Path) -> None:
    from onnx import parser

    graph = """<ir_version: 8, opset_import: ["" : 17]>
    wrong (float[N,4] x) => (float[N,3] y) <float[5,3] w = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> { y = MatMul(x, w) }"""
    (tmp_path / "wrong.onnx").write_bytes(parser.parse_model(graph).SerializeToString())
    said = modelwheel("check", tmp_path / "wrong.onnx", code=CompileError.exit_code).out
    assert "error wrong: XLA refused 'y/MatMul': contracting dimension sizes must match" in said
    assert "correct this layer of the model [MW504]" in said


def test_columns_that_begin_no_window_are_not_cut_off(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """A copy between a convolution and a pooling would compute the activation on its own."""
    from onnx import numpy_helper, parser

    graph = """<ir_version: 8, opset_import: ["" : 16]>
    net (float[N,1,8,65] x) => (float[N,32,2,16] largest) {
      sums = Conv<pads=[1,1,1,1]>(x, kernel, bias)
      features = Relu(sums)
      largest = MaxPool<kernel_shape=[4,4],strides=[4,4]>(features)
    }"""
    model = parser.parse_model(graph)
    random = np.random.default_rng(1)
    for name, shape in (("kernel", (32, 1, 3, 3)), ("bias", (32,))):
        values = random.standard_normal(shape, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "net.onnx").write_bytes(model.SerializeToString())
    own = Laboratory(tmp_path, laboratory.new_directory(), laboratory.pool)
    reading = {"format": "onnx", "file": "net.onnx"}
    out = own.compile("net", own.freeze("net", reading=reading), "x86-64-v3")
    kinds = [step.op.kind for step, _ in leaves(Program.load(out / "program.json").steps)]
    assert "pooling" in kinds
    assert kinds[:2] == ["convolution", "pooling"]


_TIES = """<ir_version: 8, opset_import: ["" : 17]> ties (float[N,32] x) => (float[N,16] y)
<float small = {0.003}, float large = {0.024}, int8 zero = {0}, float one = {1.0}> {
  bytes = QuantizeLinear(x, small, zero)
  values = DequantizeLinear(bytes, small, zero)
  matrix = DequantizeLinear(weights, one, zero)
  sums = MatMul(values, matrix)
  rounded = QuantizeLinear(sums, large, zero)
  y = DequantizeLinear(rounded, large, zero)
}"""


def test_sums_at_ties_may_become_either_integer(modelwheel: Modelwheel, tmp_path: Path) -> None:
    import onnx

    model = onnx.parser.parse_model(_TIES)
    weights = np.random.default_rng(2).integers(-1, 2, (32, 16)).astype(np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "weights"))
    onnx.save(model, tmp_path / "ties.onnx")
    (tmp_path / "ties.yaml").write_text(
        "model: {name: ties, version: 1.0.0}\nsource: {directory: ., path: ties.onnx}\n"
        f"targets: [{LOWEST}]\nverify: {{ranges: {{x: [-0.04, 0.04]}}}}\n"
    )
    (built,) = modelwheel.build(tmp_path / "ties.yaml", "--out", tmp_path / "dist")
    (moved,) = {round(one["absolute"] / 0.024) for one in built["report"]["truth"]["moved"]}
    assert moved == 1
