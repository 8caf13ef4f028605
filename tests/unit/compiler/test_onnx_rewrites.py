"""Rewrites of ONNX graphs compute what ONNX's own reference computes, in operations that are converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import helper

from tests.support.onnx_models import (
    evaluate,
    expected,
    info,
    model_of,
    operations,
    random,
    rewrite,
)

node = helper.make_node


def agree(model: Any, inputs: dict[str, Any], **constants: Any) -> list[str]:
    """Compares a model with its rewritten form; returns the operations of that."""
    rewritten = rewrite(model, {n: v for n, v in inputs.items() if n not in constants}, **constants)
    made = operations(rewritten)
    results = evaluate(rewritten, inputs)
    for name, values in expected(model, inputs).items():
        assert results[name].shape == values.shape
        np.testing.assert_allclose(results[name], values, rtol=1e-5, atol=1e-6)
    return made


# --- recurrent ------------------------------------------------------------------------------------

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("extra", ["none", "bias", "initial"])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_recurrent(op: str, extra: str) -> None:
    steps, batch, size, width = 3, 2, 4, 5
    gates = _GATES[op]
    constants = {
        "w": random(1, gates * size, width, seed=2),
        "r": random(1, gates * size, size, seed=3),
        "b": random(1, 2 * gates * size, seed=4),
    }
    inputs = {"x": random(steps, batch, width)}
    names = ["x", "w", "r"]
    if extra != "none":
        names.append("b")
    if extra == "initial":
        inputs["h"] = random(1, batch, size, seed=5)
        names += ["", "h"]
        if op == "LSTM":
            inputs["c"] = random(1, batch, size, seed=6)
            names.append("c")
    outputs = ["y", "yh"]
    model = model_of([node(op, names, outputs, hidden_size=size)], inputs, outputs, constants)
    assert op not in agree(model, inputs)


def test_gru_multiplies_after_the_reset_gate_if_asked() -> None:
    inputs = {"x": random(2, 1, 3)}
    constants = {
        "w": random(1, 12, 3, seed=2),
        "r": random(1, 12, 4, seed=3),
        "b": random(1, 24, seed=4),
    }
    gru = node("GRU", ["x", "w", "r", "b"], ["y", "yh"], hidden_size=4, linear_before_reset=1)
    agree(model_of([gru], inputs, ["y", "yh"], constants), inputs)


# --- control flow ---------------------------------------------------------------------------------


def _branch(op: str, name: str) -> Any:
    return helper.make_graph([node(op, ["x"], [name])], name, [], [info(name, None)])


def _choice() -> Any:
    choose = node(
        "If", ["c"], ["y"], then_branch=_branch("Exp", "t"), else_branch=_branch("Neg", "e")
    )
    inputs = {"x": random(2, 3), "c": np.array(object=True)}
    return model_of([choose], inputs)


@pytest.mark.parametrize(("condition", "kept"), [(True, "Exp"), (False, "Neg")])
def test_a_constant_condition_leaves_one_branch(condition: bool, kept: str) -> None:
    inputs = {"x": random(2, 3), "c": np.array(condition)}
    assert agree(_choice(), inputs, c=np.array(condition))[:1] == [kept]


@pytest.mark.parametrize("condition", [True, False])
def test_both_branches_are_computed_if_the_condition_is_an_input(condition: bool) -> None:
    made = agree(_choice(), {"x": random(2, 3), "c": np.array(condition)})
    assert {"Exp", "Neg", "Where"} <= set(made)


def _loop(stops: bool = False) -> Any:
    """Doubles x in each turn and adds the number of the turn; collects the values."""
    body = helper.make_graph(
        [
            node("Cast", ["i"], ["f"], to=1),
            node("Add", ["v", "v"], ["d"]),
            node("Add", ["d", "f"], ["w"]),
            node("Identity", ["w"], ["scan"]),
            *(
                [node("ReduceMax", ["w"], ["m"], keepdims=0), node("Less", ["m", "limit"], ["go"])]
                if stops
                else [node("Identity", ["c"], ["go"])]
            ),
        ],
        "body",
        [info("i", [], np.int64), info("c", [], np.bool_), info("v", [2])],
        [info("go", [], np.bool_), info("w", [2]), *([] if stops else [info("scan", [2])])],
    )
    outputs = ["y"] if stops else ["y", "all"]
    loop = node("Loop", ["n", "go_on", "x"], outputs, body=body)
    constants = {
        "n": np.array(5, np.int64),
        "go_on": np.array(object=True),
        "limit": np.array(9, np.float32),
    }
    return model_of([loop], {"x": random(2)}, outputs, constants)


def test_a_loop_with_a_constant_number_of_turns_is_unrolled() -> None:
    assert "Loop" not in agree(_loop(), {"x": random(2)})


def test_unrolled_loops_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelwheel.compiler.worker.formats.onnx_rewrites.straight.MAX_NODES", 20)
    model = _loop()
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array(16), "n"))
    with pytest.raises(UnsupportedModelError, match="makes the graph exceed 20 nodes"):
        rewrite(model, {"x": random(2)})


def test_a_tensor_that_is_too_large_is_refused() -> None:
    nodes = [node("ConstantOfShape", ["n"], ["z"], name="zeros"), node("Add", ["x", "z"], ["y"])]
    model = model_of(nodes, {"x": random(1)}, constants={"n": np.array([1 << 20, 1 << 20])})
    with pytest.raises(
        UnsupportedModelError, match=r"ConstantOfShape 'zeros' makes a tensor of 1099"
    ):
        rewrite(model, {"x": random(1)})


@pytest.mark.parametrize("start", [0.5, 3.0, 20.0])
def test_a_loop_that_may_stop_early_keeps_its_state(start: float) -> None:
    made = agree(_loop(stops=True), {"x": np.array([start, -start], np.float32)})
    assert "Where" in made


def test_scan_is_unrolled() -> None:
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "e"], ["o"])],
        "body",
        [info("s", [2]), info("e", [2])],
        [info("t", [2]), info("o", [2])],
    )
    scan = node("Scan", ["s0", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    inputs = {"s0": random(2), "x": random(4, 2, seed=2)}
    assert "Scan" not in agree(model_of([scan], inputs, ["last", "y"]), inputs)


# --- resize ---------------------------------------------------------------------------------------

_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric")


@pytest.mark.parametrize("sizes", [(1, 2, 6, 10), (1, 2, 5, 3), (1, 2, 2, 7)])
@pytest.mark.parametrize("coordinates", _COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode: str, coordinates: str, sizes: tuple[int, ...]) -> None:
    inputs = {"x": random(1, 2, 3, 5)}
    resize = node(
        "Resize", ["x", "", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=coordinates
    )
    model = model_of([resize], inputs, constants={"s": np.array(sizes, np.int64)})
    assert "Resize" not in agree(model, inputs)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("scale", [0.5, 2.0, 1.5])
def test_resize_rounds_as_told(rounding: str, scale: float) -> None:
    inputs = {"x": random(1, 1, 4, 6)}
    resize = node("Resize", ["x", "", "s"], ["y"], mode="nearest", nearest_mode=rounding)
    agree(
        model_of([resize], inputs, constants={"s": np.array([1, 1, scale, 1], np.float32)}), inputs
    )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_smooths_as_it_shrinks(mode: str) -> None:
    inputs = {"x": random(1, 1, 9, 8)}
    resize = node("Resize", ["x", "", "s"], ["y"], mode=mode, antialias=1)
    scales = {"s": np.array([1, 1, 0.6, 0.5], np.float32)}
    agree(model_of([resize], inputs, constants=scales, opset=18), inputs)


def test_resize_crops_and_extrapolates() -> None:
    inputs = {"x": random(1, 1, 4, 4)}
    resize = node(
        "Resize",
        ["x", "roi", "", "s"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    )
    roi = np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], np.float32)
    constants: dict[str, Any] = {"roi": roi, "s": np.array([1, 1, 3, 3], np.int64)}
    agree(model_of([resize], inputs, constants=constants), inputs)


def test_a_whole_factor_is_a_repetition() -> None:
    inputs = {"x": random(1, 2, 3, 3)}
    resize = node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    model = model_of([resize], inputs, constants={"s": np.array([1, 1, 2, 2], np.float32)})
    assert set(agree(model, inputs)) == {"Reshape", "Expand"}


# --- shapes and older forms -----------------------------------------------------------------------


def test_arithmetic_on_shapes_is_computed() -> None:
    inputs = {"x": random(2, 3, 4)}
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"]),
        node("Unsqueeze", ["rows", "axis"], ["row"]),
        node("Concat", ["row", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants: dict[str, Any] = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])}
    assert agree(model_of(nodes, inputs, constants=constants), inputs) == ["Reshape"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_before_opset_13_takes_several_axes(axis: int) -> None:
    x = random(2, 3, 4)
    model = model_of([node("Softmax", ["x"], ["y"], axis=axis)], {"x": x}, opset=11)
    flat = np.exp(x.reshape(int(np.prod(x.shape[:axis])), -1))
    values = (flat / flat.sum(axis=1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(evaluate(rewrite(model, {"x": x}), {"x": x})["y"], values, rtol=1e-5)


def test_a_node_that_nothing_needs_is_not_looked_at() -> None:
    inputs = {"x": random(2)}
    nodes = [node("RandomNormalLike", ["x"], ["unused"]), node("Neg", ["x"], ["y"])]
    assert agree(model_of(nodes, inputs), inputs) == ["Neg"]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("NonZero", ["x"], ["y"], name="find")],
            "NonZero 'find' returns as many elements as",
        ),
        ([node("RandomNormalLike", ["x"], ["y"])], "RandomNormalLike 'y' draws random numbers"),
        ([node("MatMul", ["x", "x"], ["y"], name="m")], r"MatMul 'm' does not fit its inputs \("),
        (
            [node("Transpose", ["x"], ["y"], perm=[0, 5])],
            r"Transpose 'y' does not fit its inputs \(",
        ),
        ([node("LSTM", ["x"], ["y"], name="l")], "LSTM 'l' is not as ONNX defines it"),
        ([node("Neg", ["z"], ["y"])], "the ONNX file is damaged: Neg 'y' reads 'z'"),
    ],
)
def test_what_cannot_be_written_is_named(nodes: list[Any], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"^{message}"):
        rewrite(model_of(nodes, {"x": random(2, 3)}), {"x": random(2, 3)})


def test_dimensions_of_one_name_have_one_length() -> None:
    model = model_of([node("Add", ["x", "z"], ["y"])], {})
    model.graph.input.extend([info("x", ["rows", "n"]), info("z", ["n"])])
    rewrite(model, {"x": random(2, 3), "z": random(3)})
    message = r"the dimension 'n' is 3 in input 'x' and 1 in input 'z', but"
    with pytest.raises(UnsupportedModelError, match=message):
        rewrite(model, {"x": random(2, 3), "z": random(1)})


# --- quantised ------------------------------------------------------------------------------------


def _integers(*shape: int, dtype: Any, seed: int = 1) -> Any:
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(seed)
    return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantised_numbers(dtype: Any) -> None:
    inputs = {"x": 40 * random(2, 3, 4)}
    constants = {
        "s": np.array([0.3, 0.5, 0.9], np.float32),
        "z": np.array([3, 0, 7], dtype),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
    ]
    made = agree(model_of(nodes, inputs, constants=constants, opset=19), inputs)
    assert not {"QuantizeLinear", "DequantizeLinear"} & set(made)


def test_quantised_products() -> None:
    inputs = {"a": _integers(3, 40, dtype=np.uint8), "b": _integers(40, 5, dtype=np.int8, seed=2)}
    constants: dict[str, Any] = {"za": np.uint8(113), "zb": np.int8(-7)}
    scales: dict[str, Any] = {"sa": 0.02, "sb": 0.01, "sy": 0.4}
    constants |= {name: np.array(value, np.float32) for name, value in scales.items()}
    constants["zy"] = np.int8(4)
    nodes = [
        node("MatMulInteger", ["a", "b", "za", "zb"], ["y"]),
        node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["q"]),
    ]
    agree(model_of(nodes, inputs, ["y", "q"], constants), inputs)


def test_quantised_convolutions() -> None:
    inputs = {"x": _integers(1, 2, 5, 5, dtype=np.uint8)}
    constants: dict[str, Any] = {
        "w": _integers(3, 2, 3, 3, dtype=np.int8, seed=2),
        "zx": np.uint8(120),
        "zw": np.int8(5),
        "b": _integers(3, dtype=np.int16, seed=3).astype(np.int32),
        "sx": np.float32(0.02),
        "sw": np.float32(0.01),
        "sy": np.float32(0.3),
        "zy": np.uint8(128),
    }
    nodes = [
        node("ConvInteger", ["x", "w", "zx", "zw"], ["y"]),
        node("QLinearConv", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], ["q"]),
    ]
    agree(model_of(nodes, inputs, ["y", "q"], constants), inputs)


def test_the_rest_of_a_division_has_the_sign_of_the_divisor() -> None:
    inputs = {
        "x": np.array([7, -7, 7, -7, 6, -6, 0], np.int32),
        "d": np.array([3, 3, -3, -3, 3, -3, -3], np.int32),
    }
    rewritten = rewrite(model_of([node("Mod", ["x", "d"], ["y"])], inputs), inputs)
    assert "Mod" not in operations(rewritten)
    assert evaluate(rewritten, inputs)["y"].tolist() == [1, 2, -2, -1, 0, 0, 0]


_POOLED: dict[str, dict[str, Any]] = {
    "uneven": {"pads": [1, 0, 0, 1]},
    "ceil": {"ceil_mode": 1, "strides": [2, 2]},
    "included": {"ceil_mode": 1, "strides": [2, 2], "count_include_pad": 1, "pads": [1, 0, 0, 0]},
    "gaps": {"dilations": [2, 1]},
}


@pytest.mark.parametrize("form", [*_POOLED, "same"])
def test_averages_of_windows(form: str) -> None:
    inputs = {"x": random(1, 2, 6, 7)}
    given = _POOLED.get(form, {"auto_pad": "SAME_LOWER", "strides": [2, 3]})
    pool = node("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], **given)
    agree(model_of([pool], inputs, opset=19), inputs)


def test_largest_values_of_windows_that_reach_beyond_the_input() -> None:
    inputs = {"x": random(1, 2, 5, 4) - 5}
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    rewritten = rewrite(model_of([pool], inputs), inputs)
    assert not any(a.name == "ceil_mode" for n in rewritten.straight.nodes for a in n.attribute)
    agree(model_of([pool], inputs), inputs)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_by_what_is_there(mode: str) -> None:
    inputs = {"x": random(3, 4)}
    pads = {"p": np.array([2, 0, 1, 3], np.int64)}
    made = agree(
        model_of([node("Pad", ["x", "p"], ["y"], mode=mode)], inputs, constants=pads, opset=19),
        inputs,
    )
    assert set(made) == {"Gather"}


def test_slices_backwards() -> None:
    inputs = {"x": random(5, 6, 4)}
    vectors = {"s": [-1, 4, 1], "e": [-99, 0, 9], "a": [0, 1, 2], "t": [-1, -2, 2]}
    constants = {name: np.array(values, np.int64) for name, values in vectors.items()}
    cut = node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    agree(model_of([cut], inputs, constants=constants), inputs)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 2, 0, 1], [2, 1, 2, 0]])
def test_transposed_convolutions_with_padded_outputs(pads: list[int]) -> None:
    inputs = {"x": random(1, 2, 4, 3)}
    constants = {"w": random(2, 3, 3, 4, seed=2), "b": random(3, seed=3)}
    convolve = node(
        "ConvTranspose", ["x", "w", "b"], ["y"], strides=[3, 2], output_padding=[2, 1], pads=pads
    )
    agree(model_of([convolve], inputs, constants=constants), inputs)


def test_operations_that_onnx_defines_by_others() -> None:
    inputs = {"x": random(2, 4, 3, 3)}
    constants = {"s": random(4, seed=2), "b": random(4, seed=3)}
    nodes = [
        node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2),
        node("MeanVarianceNormalization", ["x"], ["z"]),
        node("Hardmax", ["x"], ["h"], axis=1),
    ]
    made = agree(model_of(nodes, inputs, ["y", "z", "h"], constants, opset=21), inputs)
    assert not {"GroupNormalization", "MeanVarianceNormalization", "Hardmax"} & set(made)
