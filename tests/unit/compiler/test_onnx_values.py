"""Valid values of the inputs of ONNX graphs: indices within the table that they select from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

from modelwheel.compiler.formats.onnx.onnx_values import with_valid_values
from modelwheel.model.inspection import SignatureInfo, TensorInfo


def _signature(nodes: list[Any], rows: int = 9, dtype: str = "int64") -> SignatureInfo:
    table = np.random.default_rng(1).standard_normal((rows, 4)).astype(np.float32)
    constants = {"table": table, "depth": np.array(5), "shape": np.array([-1])}
    constants |= {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    constants |= {"three": np.array(3), "minus_two": np.array(-2)}
    constants["huge"] = np.array([2**63 - 1])
    constants["many"] = np.arange(257).reshape(1, 257)
    constants |= {"nine": np.array(9), "grey": np.array(127.5, np.float32)}
    constants |= {"unit": np.array(1, np.float32), "large": np.array(-1e4, np.float32)}
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = onnx.helper.make_tensor_value_info("x", kind, ["n", 6])
    graph = onnx.helper.make_graph(nodes, "g", [value], [], tensors)
    tensor = TensorInfo(name="x", dtype=dtype, shape=(None, 6))
    signature = SignatureInfo(key="serving_default", inputs=(tensor,), outputs=())
    return with_valid_values(signature, graph)


def _found(nodes: list[Any], rows: int = 9, dtype: str = "int64") -> str:
    return str(_signature(nodes, rows, dtype).inputs[0].valid)


def _node(op: str, *inputs: str, output: str = "y", **attributes: Any) -> Any:
    return onnx.helper.make_node(op, list(inputs), [output], name=op.lower(), **attributes)


def test_indices_of_a_table() -> None:
    assert _found([_node("Gather", "table", "x")]) == "0 <= x < 9 (Gather in 'gather')"
    assert _found([_node("Gather", "table", "x", axis=1)]) == "0 <= x < 4 (Gather in 'gather')"
    assert _found([_node("Gather", "table", "x", axis=7)]) == "None"
    assert _found([_node("Gather", "x", "x")]) == "0 <= x < 2 (Gather in 'gather')"
    added = _node("ScatterElements", "table", "x", "table", axis=1, reduction="add")
    assert _found([added]) == "0 <= x < 4 (ScatterElements in 'scatterelements')"


def test_indices_are_followed_through_moves() -> None:
    moves = [
        _node("Cast", "x", output="a", to=onnx.TensorProto.INT32),
        _node("Reshape", "a", "shape", output="b"),
        _node("Concat", "b", "b", output="c", axis=0),
    ]
    assert _found([*moves, _node("OneHot", "c", "depth", "table")]).startswith("0 <= x < 5 ")
    clipped = [*moves, _node("Relu", "c", output="d"), _node("Gather", "table", "d")]
    assert _found(clipped) == "-1 <= x < 9 (Gather in 'gather')"
    computed = [*moves, _node("Exp", "c", output="d"), _node("Gather", "table", "d")]
    assert _found(computed) == "None"


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


def test_an_index_that_may_count_from_the_end() -> None:
    nodes = [
        _node("Less", "x", "zero", output="negative"),
        _node("Add", "x", "nine", output="wrapped"),
        _node("Where", "negative", "wrapped", "x", output="index"),
        _node("Gather", "table", "index"),
    ]
    assert _found(nodes) == "0 <= x < 9 (Gather in 'gather')"


def test_lengths_begin_with_one() -> None:
    known = [_node("Range", "zero", "nine", "one", output="at"), _node("Less", "at", "x")]
    assert _found(known) == "1 <= x < 10 (Less in 'less')"
    shape = [_node("Shape", "x", output="n"), _node("Range", "zero", "n", "one", output="at")]
    assert _found([*shape, _node("Less", "at", "x")]) == "1 <= x < 9 (Less in 'less')"


def test_one_hot_rows_by_comparison() -> None:
    """As jax2tf writes them; more numbers than most constants that are read."""
    assert _found([_node("Equal", "x", "many")]) == "0 <= x < 257 (Equal in 'equal')"


def test_masks_scales_and_integers_of_which_nothing_is_known() -> None:
    cast = _node("Cast", "x", output="f", to=onnx.TensorProto.FLOAT)
    mask = [cast, _node("Sub", "unit", "f", output="m"), _node("Mul", "m", "large")]
    assert _found(mask) == "0 <= x < 2 (Mul in 'mul')"
    pixels = [_node("Div", "x", "grey", output="d"), _node("Sub", "d", "unit")]
    assert _found(pixels, dtype="float32") == "0 <= x < 255 (Sub in 'sub')"
    assert _found([_node("BitShift", "x", "x", direction="RIGHT")], dtype="uint8").startswith(
        "0 <= x < 8 "
    )
    for op in ("ReduceMin", "Abs"):
        assert _found([_node(op, "x")], dtype="uint8") == "None"
    assert _found([_node("Log", "x")], dtype="float32").startswith("0.0009765625 <= x < 1 ")
    assert _found([_node("Div", "nine", "x")]).startswith("1 <= x < ")


def test_what_a_loop_scales_in_each_turn_says_nothing() -> None:
    def turn(scaled: str) -> Any:
        kinds = (("i", 7), ("go", 9), ("v", 1), ("end", 9), ("out", 1))
        i, go, v, end, out = (onnx.helper.make_tensor_value_info(n, t, None) for n, t in kinds)
        nodes = [_node("Identity", "go", output="end"), _node("Div", scaled, "grey", output="out")]
        return onnx.helper.make_graph(nodes, "turn", [i, go, v], [end, out])

    def found(scaled: str) -> str:
        loop = _node("Loop", "nine", "", "x", body=turn(scaled))
        return _found([loop], dtype="float32")

    assert found("v") == "None"
    assert found("x") == "0 <= x < 255 (Div in 'div')"


def test_tables_say_how_their_index_is_made() -> None:
    nodes = [_node("Add", "x", "three", output="i"), _node("Gather", "table", "i")]
    tables = _signature(nodes).tables
    assert [(t.rows, t.input, t.steps) for t in tables] == [(9, "x", (("shift", 3, 3),))]
    hashed = [_node("Exp", "x", output="i"), _node("Gather", "table", "i")]
    assert [t.steps for t in _signature(hashed).tables] == [(("lost", 0, 0),)]
