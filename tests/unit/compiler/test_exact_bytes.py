"""ONNX Runtime multiplies bytes exactly for references, on CPUs without VNNI too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from onnx import helper, numpy_helper, parser

from modelwheel.compiler.formats.onnx.exact_bytes import with_exact_bytes
from modelwheel.compiler.formats.onnx.onnx_evaluate import find_evaluator

Array = np.ndarray[Any, Any]

DEPTH, WIDTH = 64, 16
HEAD = '<ir_version: 8, opset_import: ["" : 16, "com.microsoft" : 1]> net'
SCALES = "float one = {1.0}, float large = {20000.0}"


def _bytes(kind: str, *shape: int) -> Array:
    """Near the ends of their range, where sums of two products leave 16 bits."""
    ends = np.iinfo(kind)
    choices = [ends.max, ends.max - 1, ends.min]
    return np.random.default_rng(1).choice(choices, shape).astype(kind)


def _model(graph: str, **constants: Array) -> Any:
    model = parser.parse_model(f"{HEAD} {graph}")
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()
    )
    return model


_POINTS = "uint8 seven = {7}, int8 three = {3}"

_PRODUCTS = {
    "MatMulInteger": (f"<{_POINTS}>", "MatMulInteger(x, w, seven, three)", "int32"),
    "QGemm": (
        f"<{_POINTS}, {SCALES}>",
        "com.microsoft.QGemm(x, one, seven, w, one, three)",
        "float",
    ),
    "MatMulIntegerToFloat": (
        f"<{_POINTS}, {SCALES}>",
        "com.microsoft.MatMulIntegerToFloat(x, w, one, one, seven, three)",
        "float",
    ),
}


@pytest.mark.parametrize("name", _PRODUCTS)
@pytest.mark.parametrize("constant", [True, False])
def test_sums_are_exact(name: str, constant: bool) -> None:
    constants, call, result = _PRODUCTS[name]
    inputs = {"x": _bytes("uint8", 3, DEPTH)}
    weights = _bytes("int8", DEPTH, WIDTH)
    more = "" if constant else f", int8[{DEPTH},{WIDTH}] w"
    graph = f"(uint8[3,{DEPTH}] x{more}) => ({result}[3,{WIDTH}] y) {constants} {{ y = {call} }}"
    model = _model(graph, **({"w": weights} if constant else {}))
    found = find_evaluator(model).run(inputs if constant else inputs | {"w": weights})["y"]
    exact = (inputs["x"].astype(int) - 7) @ (weights.astype(int) - 3)
    np.testing.assert_array_equal(found, exact)


def test_weights_without_a_zero_point_get_one() -> None:
    inputs = {"x": _bytes("uint8", 3, DEPTH)}
    weights = _bytes("int8", DEPTH, WIDTH)
    graph = f"(uint8[3,{DEPTH}] x) => (int32[3,{WIDTH}] y) {{ y = MatMulInteger(x, w) }}"
    found = find_evaluator(_model(graph, w=weights)).run(inputs)["y"]
    np.testing.assert_array_equal(found, inputs["x"].astype(int) @ weights.astype(int))


def test_rounded_products_and_convolutions_are_exact() -> None:
    """A pixel of a convolution is a row of a product."""
    inputs = {"x": _bytes("uint8", 3, DEPTH)}
    weights = _bytes("int8", DEPTH, WIDTH)
    graph = f"""(uint8[3,{DEPTH}] x) => (uint8[3,{WIDTH}] y, uint8[3,{WIDTH},1,1] z)
      <{_POINTS}, {SCALES}, int64[4] shape = {{3, {DEPTH}, 1, 1}}> {{
      y = QLinearMatMul(x, one, seven, w, one, three, large, seven)
      pixels = Reshape(x, shape)
      z = QLinearConv(pixels, one, seven, kernel, one, three, large, seven)
    }}"""
    model = _model(graph, w=weights, kernel=weights.T[:, :, None, None])
    found = find_evaluator(model).run(inputs)
    sums = (inputs["x"].astype(int) - 7) @ (weights.astype(int) - 3)
    exact = np.clip(np.round(sums / 20000) + 7, 0, 255)
    np.testing.assert_array_equal(found["y"], exact)
    np.testing.assert_array_equal(found["z"][:, :, 0, 0], exact)


def test_signed_pixels_by_unsigned_weights_are_exact() -> None:
    inputs = {"x": _bytes("int8", 1, DEPTH, 3, 3)}
    weights = _bytes("uint8", WIDTH, DEPTH, 3, 3)
    graph = f"""(int8[1,{DEPTH},3,3] x) => (int32[1,{WIDTH},1,1] y)
      <int8 seven = {{7}}, uint8 three = {{3}}> {{ y = ConvInteger(x, w, seven, three) }}"""
    found = find_evaluator(_model(graph, w=weights)).run(inputs)["y"]
    exact = np.einsum("chw,ochw->o", inputs["x"][0].astype(int) - 7, weights.astype(int) - 3)
    np.testing.assert_array_equal(found[0, :, 0, 0], exact)


def test_products_of_what_is_quantised_by_its_range_are_exact() -> None:
    x = np.random.default_rng(2).choice([0.0, 254.0, 255.0], (3, DEPTH)).astype(np.float32)
    x[0, :2] = 0, 255
    weights = _bytes("int8", DEPTH, WIDTH)
    graph = f"""(float[3,{DEPTH}] x) => (float[3,{WIDTH}] y) <int8 three = {{3}}, float one = {{1.0}}> {{
      y = com.microsoft.DynamicQuantizeMatMul(x, w, one, three)
    }}"""
    found = find_evaluator(_model(graph, w=weights)).run({"x": x})["y"]
    np.testing.assert_array_equal(found, x.astype(np.float64) @ (weights.astype(int) - 3))


def test_products_inside_of_branches_are_exact() -> None:
    weights = _bytes("int8", DEPTH, WIDTH)
    inputs = {"x": _bytes("uint8", 3, DEPTH), "c": np.ones((), np.bool_)}
    branches = [
        helper.make_graph(
            [helper.make_node("MatMulInteger", ["x", "w"], ["t"])],
            name,
            [],
            [helper.make_tensor_value_info("t", onnx.TensorProto.INT32, (3, WIDTH))],
        )
        for name in ("yes", "no")
    ]
    model = _model(
        f"(uint8[3,{DEPTH}] x, bool c) => (int32[3,{WIDTH}] y) {{ y = Identity(x) }}", w=weights
    )
    del model.graph.node[:]
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    model.graph.node.append(choice)
    found = find_evaluator(model).run(inputs)["y"]
    np.testing.assert_array_equal(found, inputs["x"].astype(int) @ weights.astype(int))


def test_models_without_mixed_products_stay_as_they_are() -> None:
    graph = f"(int8[3,{DEPTH}] x) => (int32[3,{WIDTH}] y) {{ y = MatMulInteger(x, w) }}"
    model = _model(graph, w=_bytes("int8", DEPTH, WIDTH))
    assert [list(node.input) for node in with_exact_bytes(model).graph.node] == [["x", "w"]]
    floats = _model("(float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    assert with_exact_bytes(floats) is floats
