"""Exports one small network from each framework: `export_formats.py DIRECTORY`, with what the framework itself predicts.

Each function returns the line that a user writes to export, as README shows it. Frameworks share this process, and
nothing of it is needed to predict with the wheels.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ["KERAS_BACKEND"] = "tensorflow"

_GENERATOR = np.random.default_rng(21)
FIRST, SECOND = (
    _GENERATOR.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 3))
)
ROWS = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)


def keras(path: Path) -> Any:
    """A Keras model in one file of HDF5."""
    import keras

    layers = [
        keras.Input((8,), name="x"),
        keras.layers.Dense(16, "relu", use_bias=False),
        keras.layers.Dense(3, "softmax", use_bias=False),
    ]
    model = keras.Sequential(layers)
    model.set_weights([FIRST, SECOND])
    model.save(path)
    return model(ROWS).numpy()


def graph_def(path: Path) -> Any:
    """A frozen graph, as TensorFlow 1 writes it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 8], "x")
        y = tf.nn.softmax(tf.nn.relu(x @ FIRST) @ SECOND, name="y")
        tf.io.write_graph(graph, str(path.parent), path.name, as_text=False)
        return session.run(y, {x: ROWS})


def stablehlo(path: Path) -> Any:
    """A function of JAX with a symbolic number of rows."""
    import jax
    from jax import export

    def function(x: Any) -> Any:
        return jax.nn.softmax(jax.nn.relu(x @ FIRST) @ SECOND)

    shaped: Any = jax.ShapeDtypeStruct  # untyped
    rows = shaped(export.symbolic_shape("rows, 8"), np.float32)
    exported = export.export(jax.jit(function), platforms=["cpu"])(rows)
    path.write_bytes(exported.serialize())
    return np.asarray(function(ROWS))


def onnx(path: Path) -> Any:
    """What any exporter to ONNX writes; the reference is ONNX Runtime's."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["product"]),
        helper.make_node("Relu", ["product"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "second"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])],
        [numpy_helper.from_array(FIRST, "first"), numpy_helper.from_array(SECOND, "second")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return onnxruntime.InferenceSession(path).run(["y"], {"x": ROWS})[0]


EXPORTS: dict[str, Callable[[Path], Any]] = {
    "network.h5": keras,
    "network.pb": graph_def,
    "network.jax": stablehlo,
    "network.onnx": onnx,
}


def main(directory: Path, *names: str) -> None:
    """Writes the files, the rows and each framework's outputs, by the name of the file."""
    np.save(directory / "rows.npy", ROWS)
    outputs = {name: EXPORTS[name](directory / name).tolist() for name in names}
    (directory / "outputs.json").write_text(json.dumps(outputs), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
