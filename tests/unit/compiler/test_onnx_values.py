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
    constants |= {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    constants |= {"three": np.array(3), "minus_two": np.array(-2)}
    constants["huge"] = np.array([2**63 - 1])
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


def test_columns_that_become_indices() -> None:
    column = _node("Gather", "x", "three", output="a", axis=1)
    part = _node("Slice", "x", "zero", "two", "one", output="b")
    index = [_node("Gather", "table", "a"), _node("OneHot", "b", "depth", "table", output="z")]
    assert _found([column, index[0]]) == "0 <= x[3] < 9 (Gather in 'gather')"
    assert _found([column, part, *index]) == "0 <= x[0:2] < 5, 0 <= x[3] < 9 (OneHot in 'onehot')"
    last = _node("Gather", "x", "minus_two", output="a", axis=-1)
    assert _found([last, index[0]]) == "0 <= x[4] < 9 (Gather in 'gather')"
    rest = _node("Slice", "x", "two", "huge", "one", output="a")
    assert _found([rest, index[0]]) == "0 <= x[2:6] < 9 (Gather in 'gather')"
    turned = _node("Transpose", "x", output="t", perm=[1, 0])
    rows = _node("Gather", "t", "three", output="a", axis=1)
    assert _found([turned, rows, index[0]]) == "0 <= x < 9 (Gather in 'gather')"


def test_the_smallest_table_counts() -> None:
    both = [_node("Gather", "table", "x"), _node("OneHot", "x", "depth", "table", output="z")]
    assert _found(both) == _found(both[::-1]) == "0 <= x < 5 (OneHot in 'onehot')"
