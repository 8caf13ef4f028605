"""Many turns of an ONNX model stay a loop: its body is written once, and computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from onnx import helper

from modelwheel.compiler.worker.formats.onnx_rewrites import repeat
from tests.support.onnx_models import agree_in_runtime as agree
from tests.support.onnx_models import info, model_of, operations, random, rewrite

node = helper.make_node


def body_of(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], name: str = "body"
) -> Any:
    return helper.make_graph(list(nodes), name, list(inputs), list(outputs))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(op: str, gates: int, direction: str) -> None:
    directions, size, steps = 1 + (direction == "bidirectional"), 3, 40
    constants = {
        "w": random(directions, gates * size, 2, seed=2),
        "r": random(directions, gates * size, size, seed=3),
        "b": random(directions, 2 * gates * size, seed=4),
        "l": np.array([40, 23], np.int32),
    }
    inputs = {"x": random(steps, 2, 2)}
    layer = node(op, ["x", "w", "r", "b", "l"], ["y", "yh"], hidden_size=size, direction=direction)
    made = agree(model_of([layer], inputs, ["y", "yh"], constants), inputs)
    assert made.count("Scan") == directions
    assert len(made) < 60


@pytest.mark.parametrize(("steps", "loops"), [(repeat.FEW_TURNS, 0), (repeat.FEW_TURNS + 1, 1)])
def test_a_few_steps_are_written_one_by_one(steps: int, loops: int) -> None:
    constants = {"w": random(1, 3, 2, seed=2), "r": random(1, 3, 3, seed=3)}
    layer = node("RNN", ["x", "w", "r"], ["y"], hidden_size=3)
    inputs = {"x": random(steps, 1, 2)}
    assert agree(model_of([layer], inputs, ["y"], constants), inputs).count("Scan") == loops


@pytest.mark.parametrize("backwards", [0, 1])
def test_scan(backwards: int) -> None:
    body = body_of(
        [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "scale"], ["o"])],
        [info("s", [2]), info("e", [2])],
        [info("t", [2]), info("o", [2])],
    )
    scan = node(
        "Scan",
        ["s0", "x"],
        ["last", "y"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[-1],
        scan_input_directions=[backwards],
        scan_output_directions=[backwards],
    )
    inputs = {"s0": random(2), "x": random(2, 30, seed=2)}
    model = model_of([scan], inputs, ["last", "y"], {"scale": random(2, seed=3)})
    assert "Scan" in agree(model, inputs)


def _loop(*, stops: bool, turns: int | None = 40, rows: bool = False) -> tuple[Any, dict[str, Any]]:
    """Adds the number of the turn to x; with `stops` until its sum is at least 20."""
    going = [node("ReduceSum", ["w"], ["m"], keepdims=0), node("Less", ["m", "limit"], ["go"])]
    nodes = [
        node("Cast", ["i"], ["f"], to=1),
        node("Add", ["v", "f"], ["w"]),
        node("Mul", ["w", "half"], ["row"]),
        *(going if stops else [node("Identity", ["c"], ["go"])]),
    ]
    outputs = [info("go", [], np.bool_), info("w", [2]), *([info("row", [2])] if rows else [])]
    body = body_of(
        nodes, [info("i", [], np.int64), info("c", [], np.bool_), info("v", [2])], outputs
    )
    names = ["y", "rows"] if rows else ["y"]
    constants: dict[str, Any] = {
        "go_on": np.array(object=True),
        "limit": np.array(20, np.float32),
        "half": np.array(0.5, np.float32),
    }
    inputs = {"x": random(2)}
    if turns is None:
        inputs["n"] = np.array(7, np.int64)
    else:
        constants["n"] = np.array(turns, np.int64)
    loop = node("Loop", ["n", "go_on", "x"], names, body=body)
    return model_of([loop], inputs, names, constants), inputs


def test_a_loop_with_rows() -> None:
    model, inputs = _loop(stops=False, rows=True)
    assert "Loop" in agree(model, inputs)


def test_a_loop_until_a_condition() -> None:
    model, inputs = _loop(stops=True)
    assert "Loop" in agree(model, inputs)


@pytest.mark.parametrize("turns", [0, 3, 50])
def test_the_inputs_may_decide_the_number_of_turns(turns: int) -> None:
    model, inputs = _loop(stops=False, turns=None)
    assert "Loop" in agree(model, {**inputs, "n": np.array(turns, np.int64)})


def test_rows_of_an_unknown_number_of_turns_are_refused() -> None:
    model, inputs = _loop(stops=False, turns=None, rows=True)
    with pytest.raises(UnsupportedModelError, match=r"^Loop 'y' loops as often as the inputs"):
        rewrite(model, inputs)


def test_a_loop_whose_state_grows_is_unrolled() -> None:
    body = body_of(
        [node("Concat", ["v", "v"], ["w"], axis=0), node("Identity", ["c"], ["go"])],
        [info("i", [], np.int64), info("c", [], np.bool_), info("v", None)],
        [info("go", [], np.bool_), info("w", None)],
    )
    constants = {"n": np.array(18, np.int64), "go_on": np.array(object=True)}
    loop = node("Loop", ["n", "go_on", "x"], ["y"], body=body)
    made = operations(
        rewrite(model_of([loop], {"x": random(1)}, ["y"], constants), {"x": random(1)})
    )
    assert made.count("Concat") == 18
