"""One network of any size in every format: `python -m tests.models.large DIRECTORY`, of 10 MB each.

Other models of the tests are small, so that they show nothing that takes longer than it should. `tests.bench.reading`
measures these for several sizes. Needs TensorFlow, JAX and onnx.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_WIDTH, _HIDDEN = 64, 4096
_PAIR_BYTES = 2 * 4 * _WIDTH * _HIDDEN
_CHAIN = 100
"""Steps in a row; the longest chains are added up, as Keras does not read a model that is 10,000 layers deep."""


@dataclass(frozen=True)
class Size:
    """How large the network is; it takes and returns rows of 64 numbers."""

    weight_bytes: int = 10_000_000
    """Of pairs of matrices to 4096 features and back."""
    nodes: int = 0
    """Of one element-wise operation each, beside those of the layers."""
    name_length: int = 0
    """Characters before the names of layers or, where there are none, of functions."""

    @cached_property
    def pairs(self) -> tuple[tuple[Array, Array], ...]:
        """The weights of the layers; at least one pair."""
        random = np.random.default_rng(26)
        shapes = ((_WIDTH, _HIDDEN), (_HIDDEN, _WIDTH))
        return tuple(
            tuple(
                random.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5)
                for shape in shapes
            )
            for _ in range(max(1, round(self.weight_bytes / _PAIR_BYTES)))
        )

    @property
    def chains(self) -> Iterator[int]:
        """The lengths of the chains of nodes."""
        for first in range(0, self.nodes, _CHAIN):
            yield min(_CHAIN, self.nodes - first)

    def name(self, what: str) -> str:
        """The name of a layer or function."""
        return "n" * self.name_length + what


def _tensorflow(size: Size, x: Any) -> Any:
    import tensorflow as tf

    parts = []
    for number, steps in enumerate(size.chains):
        y = x
        for step in range(steps):
            y = tf.tanh(y, name=size.name(f"chain{number}_{step}"))
        parts.append(y)
    x = tf.add_n([x, *parts], name=size.name("sum")) if parts else x
    for number, (w, v) in enumerate(size.pairs):
        hidden = tf.nn.relu(x @ tf.constant(w), name=size.name(f"up{number}"))
        x = tf.matmul(hidden, tf.constant(v), name=size.name(f"down{number}"))
    return tf.identity(x, name="y")


def _write_graph_def(size: Size, path: Path) -> None:
    import tensorflow as tf
    from google.protobuf import text_format

    with tf.Graph().as_default() as graph:
        _tensorflow(size, tf.compat.v1.placeholder(tf.float32, [None, _WIDTH], name="x"))
        message = graph.as_graph_def()
    if path.suffix == ".pb":
        path.write_bytes(message.SerializeToString())
    else:
        path.write_text(text_format.MessageToString(message))


def _keras(size: Size, library: str = "keras") -> Any:
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    keras = importlib.import_module(library)
    layers = keras.layers
    given = x = keras.Input((_WIDTH,), name="x")
    parts = []
    for number, steps in enumerate(size.chains):
        y = x
        for step in range(steps):
            y = layers.Activation("tanh", name=size.name(f"chain{number}_{step}"))(y)
        parts.append(y)
    x = layers.Add(name=size.name("sum"))([x, *parts]) if parts else x
    dense = []
    for number in range(len(size.pairs)):
        for what, units, activation in (("up", _HIDDEN, "relu"), ("down", _WIDTH, None)):
            name = size.name(f"{what}{number}")
            layer = layers.Dense(units, activation, use_bias=False, name=name)
            dense.append(layer)
            x = layer(x)
    model = keras.Model(given, x)
    for layer, weights in zip(dense, (w for pair in size.pairs for w in pair), strict=True):
        layer.set_weights([weights])
    return model


def _write_keras(size: Size, path: Path) -> None:
    _keras(size).save(str(path))


def _write_saved_model(size: Size, path: Path) -> None:
    _keras(size).export(str(path), verbose=False)


def _export(size: Size) -> Any:
    import jax
    import jax.numpy as jnp

    def network(x: Any) -> Any:
        parts = [x]
        for number, steps in enumerate(size.chains):

            def chain(y: Any, steps: int = steps) -> Any:
                for _ in range(steps):
                    y = jnp.tanh(y)
                return y

            chain.__name__ = size.name(f"chain{number}")
            # A function of its own, with a name, for each chain.
            parts.append(jax.jit(chain)(x) if size.name_length else chain(x))
        x = sum(parts)
        for w, v in size.pairs:
            x = jnp.matmul(jnp.maximum(jnp.matmul(x, w), 0), v)
        return x

    batch = jax.export.symbolic_shape("batch, 64")
    shape_of: Any = jax.ShapeDtypeStruct
    kind = shape_of(batch, jnp.float32)
    return jax.export.export(jax.jit(network), platforms=["cpu"])(kind)


def _write_module(size: Size, path: Path) -> None:
    exported = _export(size)
    if path.suffix == ".jax":
        path.write_bytes(exported.serialize())
    elif path.suffix == ".mlir":
        path.write_text(exported.mlir_module())
    else:
        path.write_bytes(exported.mlir_module_serialized)


def _write_onnx(size: Size, path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, parts, x = [], [], ["x"], "x"
    for number, steps in enumerate(size.chains):
        y = x
        for step in range(steps):
            name = size.name(f"chain{number}_{step}")
            nodes.append(helper.make_node("Tanh", [y], [name], name))
            y = name
        parts.append(y)
    if len(parts) > 1:
        x = size.name("sum")
        nodes.append(helper.make_node("Sum", parts, [x], x))
    for number, pair in enumerate(size.pairs):
        for what, weights in zip(("up", "down"), pair, strict=True):
            name = size.name(f"{what}{number}")
            constants.append(numpy_helper.from_array(weights, f"{name}_weights"))
            nodes.append(helper.make_node("MatMul", [x, f"{name}_weights"], [name], name))
            x = name
            if what == "up":
                x = f"{name}_relu"
                nodes.append(helper.make_node("Relu", [name], [x], x))
    nodes.append(helper.make_node("Identity", [x], ["y"], "y"))
    given, made = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", _WIDTH]) for name in "xy"
    )
    graph = helper.make_graph(nodes, "graph", [given], [made], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )


WRITERS: Mapping[str, Callable[[Size, Path], None]] = {
    "saved_model": _write_saved_model,
    "graph.pb": _write_graph_def,
    "graph.pbtxt": _write_graph_def,
    "model.keras": _write_keras,
    "model.h5": _write_keras,
    "module.mlir": _write_module,
    "module.mlirbc": _write_module,
    "function.jax": _write_module,
    "model.onnx": _write_onnx,
}
"""What writes each format, by the name of the model below a directory."""

if __name__ == "__main__":
    for name, write in WRITERS.items():
        write(Size(), Path(sys.argv[1]) / name)
