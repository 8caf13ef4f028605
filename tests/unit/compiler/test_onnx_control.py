"""How control flow of ONNX files is written as StableHLO, and what is refused, without TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper

from modelwheel.compiler.formats.onnx.operators.onnx_graph import Converted, convert
from modelwheel.compiler.formats.onnx.operators.subgraphs import FEW_TURNS
from modelwheel.errors import UnsupportedModelError
from tests.support.onnx_models import Array, info, model_of, random

node = helper.make_node


def converted(
    nodes: Sequence[Any], inputs: dict[str, Array], constants: dict[str, Array], *outputs: str
) -> Converted:
    model = model_of(nodes, inputs, outputs or ("y",), constants)
    return convert(model, {name: values.shape for name, values in inputs.items()}, {})


def body(*, rows: bool = False, grows: bool = False, limit: float = 0) -> Any:
    """Adds a constant of outside to the state, or joins it; perhaps until a sum is large."""
    settings: dict[str, Any] = {"axis": 0} if grows else {}
    nodes = [node("Concat" if grows else "Add", ["s", "w"], ["after"], **settings)]
    if limit:
        value = helper.make_tensor("limit", TensorProto.FLOAT, [], [limit])
        nodes.append(node("Constant", [], ["limit"], value=value))
        nodes.append(node("ReduceSum", ["after"], ["sum"], keepdims=0))
        nodes.append(node("Less", ["sum", "limit"], ["go"]))
    else:
        nodes.append(node("Identity", ["c"], ["go"]))
    results = [info("go", [], np.bool_), info("after", None)]
    if rows:
        nodes.append(node("Neg", ["after"], ["row"]))
        results.append(info("row", None))
    inputs = [info("i", [], np.int64), info("c", [], np.bool_), info("s", None)]
    return helper.make_graph(nodes, "body", inputs, results)


def loop(turns: int, **kind: Any) -> Converted:
    outputs = ["y", "z"][: 2 if kind.get("rows") else 1]
    one = node("Loop", ["n", "", "x"], outputs, name="l", body=body(**kind))
    constants = {"n": np.array(turns, np.int64), "w": random(2)}
    return converted([one], {"x": random(2)}, constants, *outputs)


def branches(constants: dict[str, Array], inputs: dict[str, Array]) -> Converted:
    wide = helper.make_graph(
        [node("Concat", ["x", "x"], ["a"], axis=0)], "t", [], [info("a", None)]
    )
    plain = helper.make_graph([node("Neg", ["x"], ["b"])], "e", [], [info("b", None)])
    one = node("If", ["c"], ["y"], name="i", then_branch=wide, else_branch=plain)
    return converted([one], {"x": random(2), **inputs}, constants)


def test_few_turns_follow_each_other_and_many_are_a_loop() -> None:
    few, many = loop(FEW_TURNS, rows=True).module, loop(200, rows=True).module
    assert "stablehlo.while" not in few.text
    assert few.text.count("stablehlo.add") == FEW_TURNS
    assert few.results == (("float32", (2,)), ("float32", (FEW_TURNS, 2)))
    assert many.text.count("stablehlo.while") == 1
    assert many.results == (("float32", (2,)), ("float32", (200, 2)))


def test_the_counter_of_a_loop_has_32_bits() -> None:
    """By such counters compiled steps know how often a loop turns."""
    (line,) = [line for line in loop(200, rows=True).module.text.split("\n") if "slice" in line]
    assert "tensor<i32>" in line


def test_a_loop_whose_state_grows_is_written_out() -> None:
    made = loop(40, grows=True).module
    assert made.results == (("float32", (82,)),)
    assert "stablehlo.while" not in made.text


def test_a_loop_without_turns_returns_its_state_and_no_rows() -> None:
    assert loop(0, rows=True).module.results == (("float32", (2,)), ("float32", (0, 2)))


def test_a_known_condition_selects_a_branch() -> None:
    for condition, extent in ((True, 4), (False, 2)):
        made = branches({"c": np.array(condition)}, {}).module
        assert made.results == (("float32", (extent,)),)
        assert "stablehlo.if" not in made.text


def test_one_element_has_the_shape_that_the_first_branch_gives_it() -> None:
    shapes = {"t": [], "e": [1]}
    graphs = [
        helper.make_graph(
            [node("Reshape", ["x", f"to_{name}"], [name])], name, [], [info(name, None)]
        )
        for name in shapes
    ]
    one = node("If", ["c"], ["y"], name="i", then_branch=graphs[0], else_branch=graphs[1])
    constants = {f"to_{name}": np.array(shape, np.int64) for name, shape in shapes.items()}
    made = converted([one], {"x": random(1), "c": np.array(object=True)}, constants)
    assert made.module.results == (("float32", ()),)
    assert "stablehlo.if" in made.module.text


def test_a_branch_that_shapes_forbid_says_what_decides() -> None:
    wrong = helper.make_graph(
        [node("Reshape", ["x", "seven"], ["a"], name="m")], "t", [], [info("a", None)]
    )
    right = helper.make_graph([node("Neg", ["x"], ["b"])], "e", [], [info("b", None)])
    one = node("If", ["c"], ["y"], name="i", then_branch=wrong, else_branch=right)
    with pytest.raises(
        UnsupportedModelError, match=r"it is in a branch of If 'i': .*source.constants"
    ):
        converted([one], {"x": random(2, 3), "c": np.array(object=True)}, {"seven": np.array([7])})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: branches({}, {"c": np.array(object=True)}),
            r"If 'i' returns float32\[4\] or float32\[2\], as its condition decides when the model runs; ",
        ),
        (
            lambda: loop(200, rows=True, limit=9),
            "Loop 'l' loops until a condition holds that depends on",
        ),
        (
            lambda: converted(
                [node("Loop", ["n", "", "x"], ["y", "z"], name="l", body=body(rows=True))],
                {"x": random(2), "n": np.array(3, np.int64)},
                {"w": random(2)},
                *("y", "z"),
            ),
            "Loop 'l' returns a row for each turn, and the inputs decide how many turns there are; ",
        ),
        (
            lambda: converted(
                [node("Loop", ["n", "", "x"], ["y"], name="l", body=body(grows=True))],
                {"x": random(2), "n": np.array(3, np.int64)},
                {"w": random(2)},
            ),
            "Loop 'l' changes the shape of its state; ",
        ),
        (
            lambda: converted(
                [node("RandomNormalLike", ["x"], ["y"], name="r")], {"x": random(2)}, {}
            ),
            "RandomNormalLike 'r' draws random numbers, so that its results cannot be proven; ",
        ),
        (
            lambda: converted(
                [node("SplitToSequence", ["x"], ["y"], name="q")], {"x": random(2, 3)}, {}
            ),
            "the output 'y' is a sequence of tensors, and compiled models return tensors; ",
        ),
        (
            lambda: converted(
                [
                    node(
                        "RNN",
                        ["x", "w", "r"],
                        ["y"],
                        name="n",
                        hidden_size=1,
                        activations=["Affine"],
                    )
                ],
                {"x": random(1, 1, 1)},
                {"w": random(1, 1, 1), "r": random(1, 1, 1)},
            ),
            "RNN 'n' has the activation Affine without activation_alpha, for which runtimes take different",
        ),
    ],
)
def test_what_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(UnsupportedModelError, match=reason):
        make()
