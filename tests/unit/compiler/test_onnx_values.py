"""Valid values of the inputs of ONNX graphs: indices within the table that they select from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

from modelwheel.compiler.inspection import SignatureInfo, TensorInfo
from modelwheel.compiler.worker.formats.onnx_values import with_valid_values


def _found(nodes: list[Any], rows: int = 9) -> str:
    table = np.random.default_rng(1).standard_normal((rows, 4)).astype(np.float32)
    constants = {"table": table, "depth": np.array(5), "shape": np.array([-1])}
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, ["n", 6])
    graph = onnx.helper.make_graph(nodes, "g", [value], [], tensors)
    tensor = TensorInfo(name="x", dtype="int64", shape=(None, 6))
    signature = SignatureInfo(key="serving_default", inputs=(tensor,), outputs=())
    return str(with_valid_values(signature, graph).inputs[0].valid)


def _node(op: str, *inputs: str, output: str = "y", **attributes: Any) -> Any:
    return onnx.helper.make_node(op, list(inputs), [output], name=op.lower(), **attributes)


def test_indices_of_a_table() -> None:
    assert _found([_node("Gather", "table", "x")]) == "0 <= x < 9 (Gather in 'gather')"
    assert _found([_node("Gather", "table", "x", axis=1)]) == "0 <= x < 4 (Gather in 'gather')"
    assert _found([_node("Gather", "table", "x", axis=7)]) == "None"


def test_indices_are_followed_through_moves() -> None:
    moves = [
        _node("Cast", "x", output="a", to=onnx.TensorProto.INT32),
        _node("Reshape", "a", "shape", output="b"),
        _node("Concat", "b", "b", output="c", axis=0),
    ]
    assert _found([*moves, _node("OneHot", "c", "depth", "table")]).startswith("0 <= x < 5 ")
    assert _found([*moves, _node("Relu", "c", output="d"), _node("Gather", "table", "d")]) == "None"


def test_the_smallest_table_counts() -> None:
    both = [_node("Gather", "table", "x"), _node("OneHot", "x", "depth", "table", output="z")]
    assert _found(both) == _found(both[::-1]) == "0 <= x < 5 (OneHot in 'onehot')"
