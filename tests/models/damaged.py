"""Damaged files of every format, each with words of the one sentence that `modelwheel check` says about it.

Needs TensorFlow, onnx and h5py.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper
from tensorflow.core.framework import graph_pb2, types_pb2

from tests.support.onnx_models import info


class Damaged(NamedTuple):
    """A file."""

    file: str
    """Its ending is that of its format."""
    content: bytes
    says: str
    """Part of the sentence."""
    options: str = ""
    """Of `source` in the spec."""


def damaged_files() -> Iterator[Damaged]:
    """All of them, with different names."""
    for name, model, says in _onnx_files():
        yield Damaged(f"{name}.onnx", model.SerializeToString(), says)
    for name, content, says in _graph_files():
        ending = "" if "." in name else ".pb"
        yield Damaged(f"{name}{ending}", content, says, ", feeds: {x: x}, fetches: {z: z}")
    for name, content, says in _keras_files():
        yield Damaged(f"{name}.keras", content, says)
    yield Damaged("cut.tflite", b"\x1c\0\0\0TFL3" + b"\xff" * 40, "cut.tflite is damaged")
    yield Damaged("other.tflite", b"0" * 40, "other.tflite is not a file of TensorFlow Lite")
    yield Damaged("regions.mlir", _nested_regions(1200), "nest")
    yield Damaged("lists.pt2", _program(b"[" * 100_000), "lists.pt2 is damaged")
    yield Damaged("objects.pt2", _program(b'{"a":' * 3000 + b"1" + b"}" * 3000), "objects.pt2 is")


def write_specs(directory: Path, files: Sequence[Damaged]) -> Path:
    """Writes the files and a spec for each; the directory of the specs, whose models are called as the files."""
    specs = directory / "specs"
    specs.mkdir(parents=True)
    for one in files:
        name = spec_name(one.file)
        (directory / name).mkdir()
        (directory / name / one.file).write_bytes(one.content)
        (specs / f"{name}.yaml").write_text(
            f'model: {{name: {name}, version: "1.0.0"}}\n'
            f"source: {{directory: ../{name}, path: {one.file}{one.options}}}\n"
            "compilation: {batch_sizes: [1]}\n",
            encoding="utf-8",
        )
    return specs


def spec_name(file: str) -> str:
    """What the model of a file is called."""
    return file.replace(".", "-").replace("_", "-")


# --- ONNX -----------------------------------------------------------------------------------------


def _model(
    *nodes: NodeProto,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[Any] = (info("y", ["n", 4]),),
    **options: Any,
) -> onnx.ModelProto:
    weights = [
        value
        if isinstance(value, TensorProto)
        else numpy_helper.from_array(np.asarray(value), name)
        for name, value in (constants or {}).items()
    ]
    graph = helper.make_graph(list(nodes), "graph", [info("x", ["n", 4])], list(outputs), weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **options)


_node = helper.make_node
_RELU = _node("Relu", ["x"], ["y"])


def _onnx_files() -> Iterator[tuple[str, onnx.ModelProto, str]]:
    zero = {"i": [0]}
    nameless = NodeProto(op_type="Constant")
    nameless.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.ones(3))))
    yield "nameless", _model(_RELU, nameless), "Constant number 1 of graph has no outputs"
    yield "gather", _model(_RELU, _node("Gather", ["x"], ["z"])), "Gather 'z' has 1 inputs"
    yield "one_hot", _model(_RELU, _node("OneHot", ["x"], ["z"])), "OneHot 'z' has 1 inputs"
    text = _node("Gather", ["x", "i"], ["y"], axis="one")
    yield "axis_text", _model(text, constants=zero), "'axis' as STRING, and ONNX defines INT"
    undefined = _node("Gather", ["x", "i"], ["y"])
    undefined.attribute.append(AttributeProto(name="axis", i=1))
    yield "axis_undefined", _model(undefined, constants=zero), "'axis' without a type"
    depth = TensorProto(name="d", data_type=TensorProto.INT64, dims=[1])
    one_hot = _node("OneHot", ["x", "d", "v"], ["y"])
    yield "depth", _model(one_hot, constants={"d": depth, "v": [0.0, 1.0]}), "'d' has no values"
    yield "no_body", _model(_node("Loop", ["", "", "x"], ["y"])), "Loop 'y' has no attribute 'body'"
    count = TensorProto(name="m", data_type=TensorProto.INT64, data_location=TensorProto.EXTERNAL)
    count.external_data.add(key="location", value="etc/passwd")
    loop = _node("Loop", ["m", "", "x"], ["y"], body=_body())
    yield "loop_elsewhere", _model(loop, constants={"m": count}), "weights in"
    yield "deep", _deep(), "nest more than 100 levels"
    yield (
        "empty_output",
        _model(_node("Relu", ["x"], [""]), outputs=[info("", ["n", 4])]),
        "no name",
    )
    yield "no_outputs", _model(_RELU, outputs=[]), "the signature has no outputs"
    strange = _model(_RELU)
    strange.graph.input[0].type.tensor_type.elem_type = 99
    yield "type", strange, "input 'x' has the type of number 99"
    yield "cast", _model(_node("Cast", ["x"], ["y"], to=99)), "Cast 'y' is not as ONNX defines it"
    fixed = _model(_node("Reshape", ["x", "s"], ["y"]), constants={"s": [1, 3]})
    yield "reshape", fixed, "the shape [1, 3]; if the file is for other sizes of its inputs"
    weight = TensorProto(name="w", data_type=77, dims=[3])
    yield "weight_type", _model(_RELU, constants={"w": weight}), "type number 77"
    huge = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 62] * 20 + [0])
    yield "huge", _model(_RELU, constants={"w": huge}), "more elements than any machine can hold"
    ends = {"a": 0, "b": 4, "s": 0}
    steps = [_node("Range", ["a", "b", "s"], ["r"]), _node("Cast", ["r"], ["f"], to=1)]
    added = _node("Add", ["x", "f"], ["y"])
    yield "step", _model(*steps, added, constants=ends), "its step is 0"
    wide = [_node("Conv", ["x", "w"], ["y"], name="conv", dilations=[2**31 - 1])]
    far = _model(*wide, constants={"w": np.ones((1, 1, 3), np.float32)}, outputs=[info("y", None)])
    far.graph.input[0].CopyFrom(info("x", ["n", 1, 8]))
    yield "dilation", far, "Conv 'conv' makes a tensor of the shape"
    nul = _model(_node("Relu", ["x"], ["a\0b"]), outputs=[info("a\0b", ["n", 4])])
    yield "nul_name", nul, "has a name with a NUL"
    long = _model(_node("Relu", ["x"], ["a" * 70_000]), outputs=[info("a" * 70_000, ["n", 4])])
    yield "long", long, "has a name of more than 4096 bytes"
    two = [_node("Relu", ["x"], ["a"]), _node("Neg", ["x"], ["a.npy"])]
    both = [info("a", ["n", 4]), info("a.npy", ["n", 4])]
    yield "npy", _model(*two, outputs=both), "has the name of another one with .npy"


def _body() -> onnx.GraphProto:
    nodes = [_node("Identity", ["c"], ["d"]), _node("Relu", ["a"], ["b"])]
    inputs = [info("i", [], np.int64), info("c", [], np.bool_), info("a", ["n", 4])]
    return helper.make_graph(nodes, "body", inputs, [info("d", [], np.bool_), info("b", ["n", 4])])


def _deep() -> onnx.ModelProto:
    """Sixty functions, each of which calls the next one inside thirty conditions."""
    functions = []
    for number in range(60):
        nodes = [_node(f"F{number + 1}", ["c", "x"], ["t"], domain="own")]
        if number == 59:
            nodes = [_node("Relu", ["x"], ["t"])]
        other = helper.make_graph([_node("Relu", ["x"], ["t"])], "other", [], [info("t", None)])
        for _ in range(30):
            then = helper.make_graph(nodes, "then", [], [info("t", None)])
            nodes = [_node("If", ["c"], ["t"], then_branch=then, else_branch=other)]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        functions.append(
            helper.make_function("own", f"F{number}", ["c", "x"], ["t"], nodes, opsets)
        )
    call = _node("F0", ["c", "x"], ["y"], domain="own")
    return _model(call, constants={"c": True}, functions=functions)


# --- TensorFlow -----------------------------------------------------------------------------------


def _graph_files() -> Iterator[tuple[str, bytes, str]]:
    for name, tensor, says in (
        ("negative", "x:-1", "reads 'x:-1', which is not the name of a tensor"),
        ("digits", "x:99999999999999999999", "which is not the name of a tensor"),
        ("parts", "x:0:0", "reads 'x:0:0', which is not the name of a tensor"),
        ("index", "x:1", "reads 'x:1', but 'x' has 1 outputs"),
        ("control", "^x:0", "reads '^x:0', which is not the name of a tensor"),
    ):
        yield name, _graph(partial(_read, tensor)), says
    yield (
        "attribute",
        _graph(lambda z: setattr(z.attr["T"], "type", 999)),
        "attribute.pb is damaged",
    )
    yield "utf16.pbtxt", 'node { name: "x" }'.encode("utf-16"), "it is not UTF-8"


def _read(tensor: str, node: Any) -> None:
    node.input[1] = tensor


def _graph(change: Callable[[Any], object]) -> bytes:
    graph = graph_pb2.GraphDef()
    x, z = graph.node.add(name="x", op="Placeholder"), graph.node.add(name="z", op="AddV2")
    x.attr["dtype"].type = z.attr["T"].type = types_pb2.DT_FLOAT
    for extent in (-1, 4):
        x.attr["shape"].shape.dim.add(size=extent)
    z.input.extend(["x", "x"])
    change(z)
    return bytes(graph.SerializeToString())


# --- Keras, StableHLO, PyTorch --------------------------------------------------------------------


def _keras_files() -> Iterator[tuple[str, bytes, str]]:
    yield "word", _keras({"keras_version": "three"}), "its keras_version 'three' is not a version"
    yield "long_version", _keras({"keras_version": "9" * 5000}), "is not a version"
    yield "nested", _keras({"keras_version": "3.10.0"}, b"[" * 100_000), "nested.keras is damaged"
    yield "repeated", _keras({"keras_version": "3.10.0"}), "output 'repeat' has the shape"


def _keras(metadata: Mapping[str, str], config: bytes | None = None) -> bytes:
    """A model that repeats its rows 2^33 times, which Keras takes for none."""
    layers = [
        {
            "module": "keras.layers",
            "class_name": name,
            "config": {"name": own, **values},
            "registered_name": None,
        }
        for name, own, values in (
            ("InputLayer", "x", {"batch_shape": [None, 4], "dtype": "float32"}),
            ("RepeatVector", "repeat", {"n": 1 << 33}),
        )
    ]
    model = {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": "model", "layers": layers},
        "registered_name": None,
    }
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        file.create_group("layers/repeat_vector/vars")
    return _zip(
        {
            "metadata.json": json.dumps(metadata).encode(),
            "config.json": json.dumps(model).encode() if config is None else config,
            "model.weights.h5": weights.getvalue(),
        }
    )


def _nested_regions(count: int) -> bytes:
    lines = ["module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {"]
    for number in range(count):
        lines.append(f"%c{number} = stablehlo.constant dense<true> : tensor<i1>")
        lines.append(f'%r{number} = "stablehlo.if"(%c{number}) ({{')
    lines.append("stablehlo.return %a : tensor<2xf32>")
    for number in reversed(range(count)):
        lines.append("}, { stablehlo.return %a : tensor<2xf32> }) : (tensor<i1>) -> tensor<2xf32>")
        lines += [f"stablehlo.return %r{number} : tensor<2xf32>"] * bool(number)
    return "\n".join([*lines, "return %r0 : tensor<2xf32> } }"]).encode()


def _program(content: bytes) -> bytes:
    empty = json.dumps({"config": {}}).encode()
    return _zip(
        {
            "model/models/model.json": content,
            "model/data/weights/model_weights_config.json": empty,
            "model/data/constants/model_constants_config.json": empty,
        }
    )


def _zip(members: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()
