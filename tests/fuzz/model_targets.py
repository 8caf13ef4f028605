"""Readers of model files, each with a grammar of its container; see `targets`.

They need what reads the format, and run each input in a process of its own: the libraries are in C++, and crash.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modelwheel.compiler.loaded.guarded import reading_errors
from modelwheel.model.readings import (
    GraphDefReading,
    KerasReading,
    OnnxReading,
    PyTorchReading,
    Reading,
    StableHloReading,
)
from tests.fuzz.containers import archive, flatbuffer, hdf5, mlir_text, numpy_array, protobuf
from tests.fuzz.mutate import Mutator, mutate_json, write_zip
from tests.fuzz.target import SEEDS, Target, in_file


def _inspect(reading: Reading, content: bytes, scratch: Path) -> None:
    from modelwheel.compiler import formats

    (scratch / getattr(reading, "file")).write_bytes(content)  # noqa: B009 - not of all readings
    formats.inspect(scratch, reading)


def _read_onnx(content: bytes, scratch: Path) -> None:
    """What `check` and freezing do, without TensorFlow."""
    from modelwheel.compiler.formats.onnx.onnx_file import load_external, read_model
    from modelwheel.compiler.formats.onnx.operators.onnx_graph import convert

    reading = OnnxReading(file="m.onnx")
    _inspect(reading, content, scratch)
    model = read_model(scratch, reading)
    load_external(model, scratch)
    shapes = {
        value.name: tuple(dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim)
        for value in model.graph.input
    }
    if all(max((0, *shape)) < 1000 for shape in shapes.values()):
        with reading_errors(reading):
            convert(model, shapes, {})


def _onnx_model() -> Any:
    import onnx

    return onnx.ModelProto()


def _onnx_seeds() -> list[bytes]:
    from onnx import helper, numpy_helper

    from tests.support.onnx_models import info, model_of, random

    node, x = helper.make_node, {"x": random(2, 4)}
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Relu", ["a"], ["b"])],
        "body",
        [info("i", [], np.int64), info("c", [], np.bool_), info("a", [2, 4])],
        [info("d", [], np.bool_), info("b", [2, 4])],
    )
    weights = {"w": random(4, 3), "n": np.array(3), "i": np.array([0, 2]), "s": np.array([1, -1])}
    layers = [
        node("Gemm", ["x", "w"], ["g"], alpha=0.5),
        node("Softmax", ["g"], ["p"], axis=-1),
        node("Gather", ["p", "i"], ["h"], axis=1),
        node("Reshape", ["h", "s"], ["y"]),
    ]
    constant = numpy_helper.from_array(random(4), "k")
    loop = [
        node("Loop", ["n", "", "x"], ["l"], body=body),
        node("Constant", [], ["k"], value=constant),
        node("Clip", ["l", "", ""], ["q"]),
        node("Mul", ["q", "k"], ["m"]),
        node("Concat", ["m", "x"], ["y"], axis=1),
    ]
    return [model_of(nodes, x, constants=weights).SerializeToString() for nodes in (layers, loop)]


def _graph_def() -> Any:
    from tensorflow.core.framework import graph_pb2

    return graph_pb2.GraphDef()


def _graph_seeds() -> list[bytes]:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
        halves = tf.split(x, 2, axis=1, name="s")
        called = tf.function(lambda a: tf.nn.relu(a) + 1.0)(halves[1])
        tf.identity(tf.matmul(called, tf.ones([2, 3])), "z")
    return [graph.as_graph_def().SerializeToString()]


def _read_keras(name: str, content: bytes, scratch: Path) -> None:
    from modelwheel.model.keras.keras_file import judge_config, read_keras_file

    (scratch / name).write_bytes(content)
    with reading_errors(KerasReading(file=name)):
        judge_config(read_keras_file(scratch / name).config, lambda _: True)


_KERAS = {
    "class_name": "Sequential",
    "config": {
        "name": "model",
        "layers": [
            {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 4]}},
            {"class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "relu"}},
        ],
    },
}


def _weights(**attributes: Any) -> bytes:
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        group = file.create_group("layers/dense/vars")
        group["0"], group["1"] = np.ones((4, 3), "f4"), np.ones(3, "f4")
        file.create_group("model_weights").attrs["layer_names"] = [b"d"]
    return content.getvalue()


def _hdf5_seeds() -> list[bytes]:
    return [_weights(model_config=json.dumps(_KERAS), keras_version="2.15.0", backend="tensorflow")]


def _keras_seeds() -> list[bytes]:
    members = [
        ("metadata.json", b'{"keras_version": "3.10.0"}'),
        ("config.json", json.dumps(_KERAS).encode()),
        ("model.weights.h5", _weights()),
    ]
    return [write_zip(members, zipfile.ZIP_STORED)]


def _read_exported(content: bytes, _: Path) -> None:
    from modelwheel.compiler.formats.stablehlo.jax_export import is_exported, read_exported

    with reading_errors(StableHloReading(file="m.jax")):
        if is_exported(content):
            read_exported(content, "m.jax")


_MLIR = b"""module @m attributes {a.b = 1 : i32} {
  func.func public @main(%a: tensor<?x4xf32>, %b: tensor<3xf32>) -> (tensor<?x4xf32>, tensor<i32>) {
    %0 = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.constant dense<8> : tensor<i32>
    %2:2 = stablehlo.while(%i = %0, %v = %a) : tensor<i32>, tensor<?x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.add %i, %0 : tensor<i32>
      %w = func.call @half(%v) : (tensor<?x4xf32>) -> tensor<?x4xf32>
      stablehlo.return %n, %w : tensor<i32>, tensor<?x4xf32>
    }
    return %2#1, %2#0 : tensor<?x4xf32>, tensor<i32>
  }
  func.func private @half(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = "stablehlo.tanh"(%a) {mhlo.frontend_attributes = {k = "v"}} : (tensor<?x4xf32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}
"""


def _read_program(content: bytes, scratch: Path) -> None:
    from modelwheel.compiler.formats.pytorch.pt2_file import read_program

    (scratch / "m.pt2").write_bytes(content)
    with reading_errors(PyTorchReading(file="m.pt2")):
        read_program(scratch / "m.pt2")


def _program_seeds() -> list[bytes]:
    tensor = {
        "dtype": 7,
        "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 4}],
        "requires_grad": False,
    }
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    spec = json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]}])
    argument = {"as_tensor": {"name": "x"}}
    result = {"as_tensor": {"name": "relu"}}
    node = {
        "target": "torch.ops.aten.relu.default",
        "inputs": [{"name": "self", "arg": argument, "kind": 1}],
        "outputs": [result],
        "metadata": {"stack_trace": "x"},
    }
    program = {
        "graph_module": {
            "graph": {
                "inputs": [argument],
                "outputs": [result],
                "nodes": [node],
                "tensor_values": {"x": tensor, "relu": tensor},
            },
            "signature": {
                "input_specs": [{"user_input": {"arg": argument}}],
                "output_specs": [{"user_output": {"arg": result}}],
            },
            "module_call_graph": [{"fqn": "", "signature": {"in_spec": spec, "out_spec": spec}}],
        },
        "opset_version": {"aten": 10},
        "range_constraints": {"s0": {"min_val": 0, "max_val": 64}},
        "guards_code": [],
    }
    empty = b'{"config": {}}'
    weight = json.dumps(
        {"config": {"l.w": {"path_name": "weight_0", "use_pickle": False}}}
    ).encode()
    members = [
        ("m/models/model.json", json.dumps(program).encode()),
        ("m/data/weights/model_weights_config.json", weight),
        ("m/data/weights/weight_0", bytes(48)),
        ("m/data/constants/model_constants_config.json", empty),
        ("m/archive_version", b"0"),
    ]
    return [write_zip(members, zipfile.ZIP_STORED)]


def _read_samples(path: Path) -> None:
    from modelwheel.util.arrays import read_arrays

    read_arrays(path)


def _sample_seeds() -> list[bytes]:
    plain, packed = io.BytesIO(), io.BytesIO()
    arrays = {"x": np.ones((6, 4), np.float32), "n": np.arange(6), "flag": np.array([True, False])}
    np.savez(plain, **arrays)  # type: ignore[arg-type]
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return [plain.getvalue(), packed.getvalue()]


def _model(
    run: Callable[[bytes, Path], object],
    seeds: Callable[[], list[bytes]],
    mutate: Mutator,
    modules: tuple[str, ...],
    *needs: str,
) -> Target:
    own = tuple(f"modelwheel.{name}" for name in modules)
    return Target(run, seeds, mutate, needs=needs, modules=own, sentence=True, forks=True)


MODEL_TARGETS: Mapping[str, Target] = {
    "onnx": _model(
        _read_onnx,
        _onnx_seeds,
        protobuf(_onnx_model),
        (
            "compiler.formats.onnx.onnx",
            "compiler.formats.onnx.onnx_inspect",
            "compiler.formats.onnx.operators.onnx_graph",
        ),
        "onnx",
        "tensorflow",
    ),
    "graph-def": _model(
        partial(_inspect, GraphDefReading(file="m.pb", feeds={"x": "x"}, fetches={"z": "z"})),
        _graph_seeds,
        protobuf(_graph_def),
        ("compiler.formats.graph_def.graph_def",),
        "tensorflow",
    ),
    "keras": _model(
        partial(_read_keras, "m.keras"),
        _keras_seeds,
        archive(zipfile.ZIP_DEFLATED, json=mutate_json, h5=hdf5),
        ("model.keras.keras_file",),
        "h5py",
    ),
    "keras-hdf5": _model(
        partial(_read_keras, "m.h5"), _hdf5_seeds, hdf5, ("model.keras.keras_file",), "h5py"
    ),
    "jax-export": _model(
        _read_exported,
        lambda: [(SEEDS / "exported.jax").read_bytes()],
        flatbuffer,
        ("compiler.formats.stablehlo.jax_export",),
        "flatbuffers",
    ),
    "mlir": _model(
        partial(_inspect, StableHloReading(file="m.mlir")),
        lambda: [_MLIR],
        mlir_text,
        ("compiler.formats.stablehlo.stablehlo",),
        "tensorflow",
    ),
    "pt2": Target(_read_program, _program_seeds, archive(json=mutate_json), sentence=True),
    "samples": Target(
        in_file("m.npz", _read_samples),
        _sample_seeds,
        archive(zipfile.ZIP_DEFLATED, npy=numpy_array),
        accepted=(ValueError,),
    ),
}
