"""ONNX files: python -m tests.models.zoo.onnx_files DIRECTORY."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Kind = tuple[int, Sequence["int | str"]]
"""Element type and shape of an input or output."""

_node = helper.make_node
_FLOAT, _INT64, _BOOL, _STRING = (
    int(getattr(TensorProto, name)) for name in ("FLOAT", "INT64", "BOOL", "STRING")
)


def _random(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32) * 0.5


def _write(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, Kind],
    outputs: Mapping[str, Kind],
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    **options: Any,
) -> None:
    given, made = (
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in some.items()]
        for some in (inputs, outputs)
    )
    constants = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", given, made, constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, path, **options)


_IMAGE: Kind = (_FLOAT, ["batch", 3, 8, 6])
_ROWS: Kind = (_FLOAT, ["batch", 4])


def _classifier(path: Path, **options: Any) -> None:
    nodes = [
        _node("Conv", ["image", "k"], ["a"], pads=[1, 0, 1, 2], strides=[2, 1]),
        _node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"]),
        _node("HardSwish", ["n"], ["h"]),
        _node("MaxPool", ["h"], ["p"], kernel_shape=[2, 2], ceil_mode=1),
        _node("GlobalAveragePool", ["p"], ["g"]),
        _node("Flatten", ["g"], ["f"]),
        _node("Gemm", ["f", "w", "c"], ["logits"], transB=1),
        _node("Softmax", ["logits"], ["scores/raw"], axis=-1),
    ]
    weights = {
        "k": _random(5, 3, 3, 2),
        "s": _random(5),
        "b": _random(5) + 1,
        "m": _random(5),
        "v": np.abs(_random(5)) + 0.5,
        "w": _random(4, 5),
        "c": _random(4),
    }
    _write(path, nodes, {"image": _IMAGE}, {"scores/raw": _ROWS}, weights, **options)


def _resize(path: Path) -> None:
    weights = {"roi": _random(0), "scales": np.array([1, 1, 1.5, 2], np.float32)}
    node = _node(
        "Resize", ["image", "roi", "scales"], ["y"],
        mode="linear", coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    out: dict[str, Kind] = {"y": (_FLOAT, ["batch", 3, 12, 12])}
    _write(path, [node], {"image": _IMAGE}, out, weights, opset=11)


def _loop(path: Path) -> None:
    """Three turns, known when it is read; a branch whose condition depends on values."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            _node("MatMul", ["state", "w"], ["product"]),
            _node("Tanh", ["product"], ["out"]),
            _node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            *(value("i", _INT64, []), value("go", _BOOL, [])),
            value("state", _FLOAT, None),
        ],
        [value("on", _BOOL, []), value("out", _FLOAT, None)],
    )
    branches: dict[str, Any] = {
        f"{name}_branch": helper.make_graph(
            [_node(op, ["looped"], [name])], name, [], [value(name, _FLOAT, None)]
        )
        for name, op in (("then", "Neg"), ("else", "Exp"))
    }
    nodes = [
        _node("Loop", ["turns", "", "x"], ["looped"], body=body),
        _node("ReduceSum", ["x"], ["sum"], keepdims=0),
        _node("Greater", ["sum", "zero"], ["positive"]),
        _node("If", ["positive"], ["y"], **branches),
    ]
    weights = {
        "w": _random(4, 4),
        "turns": np.array(3, np.int64),
        "zero": np.array(0, np.float32),
    }
    whole: Kind = (_FLOAT, [2, 4])
    _write(path, nodes, {"x": whole}, {"y": whole}, weights)


def _quantised(path: Path) -> None:
    scales = {"a": np.float32(0.05), "b": np.float32(0.02), "y": np.float32(0.1)}
    nodes = [
        _node("QuantizeLinear", ["x", "sa", "za"], ["q"]),
        _node("QLinearMatMul", ["q", "sa", "za", "w", "sb", "zb", "sy", "zy"], ["p"]),
        _node("DequantizeLinear", ["p", "sy", "zy"], ["y"]),
    ]
    integers = np.random.default_rng(3).integers(-90, 90, (4, 5), np.int8)
    weights = {
        **{f"s{name}": np.array(value) for name, value in scales.items()},
        "za": np.array(120, np.uint8), "zb": np.array(3, np.int8), "zy": np.array(100, np.uint8),
        "w": integers,
    }  # fmt: skip
    _write(path, nodes, {"x": _ROWS}, {"y": (_FLOAT, ["batch", 5])}, weights)


def _lstm(path: Path) -> None:
    nodes = [
        _node(
            "LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=5, direction="bidirectional"
        )
    ]
    weights = {"w": _random(2, 20, 3), "r": _random(2, 20, 5), "b": _random(2, 40)}
    out: dict[str, Kind] = {"y": (_FLOAT, [4, 2, 2, 5]), "h": (_FLOAT, [2, 2, 5])}
    _write(path, nodes, {"x": (_FLOAT, [4, 2, 3])}, out, weights)  # fmt: skip


def _write_refused(directory: Path) -> None:
    x: dict[str, Kind] = {"x": _ROWS}
    whole: dict[str, Kind] = {"x": (_FLOAT, [3, 4])}
    free: dict[str, Kind] = {"y": (_INT64, [2, "n"])}
    _write(directory / "non_zero.onnx", [_node("NonZero", ["x"], ["y"])], whole, free)
    scaled = _node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0])
    _write(directory / "ml.onnx", [scaled], x, {"y": _ROWS})
    trees = _node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml")
    _write(directory / "trees.onnx", [trees], x, {"y": _ROWS})
    noise = _node("RandomNormalLike", ["x"], ["y"])
    _write(directory / "noise.onnx", [noise], x, {"y": _ROWS})
    custom = _node("Attention2", ["x"], ["y"], domain="com.example")
    _write(directory / "custom.onnx", [custom], x, {"y": _ROWS})
    text: dict[str, Kind] = {"y": (_STRING, ["batch", 4])}
    cast = _node("Cast", ["x"], ["y"], to=_STRING)
    _write(directory / "text.onnx", [cast], x, text)
    content = (directory / "classifier.onnx").read_bytes()
    (directory / "cut.onnx").write_bytes(content[: len(content) // 2])


def write(directory: Path) -> None:
    """Writes all files."""
    _classifier(directory / "classifier.onnx")
    (directory / "external").mkdir()
    split = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    _classifier(directory / "external" / "model.onnx", **split)
    _resize(directory / "resize.onnx")
    _loop(directory / "loop.onnx")
    _quantised(directory / "quantised.onnx")
    _lstm(directory / "lstm.onnx")
    _write_refused(directory)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
