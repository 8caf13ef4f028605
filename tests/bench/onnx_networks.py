"""ONNX files of networks of the reference set that tf2onnx converts to nothing that other runtimes can run.

Each is written with the weights of the Keras model, in the operations that a framework's own exporter uses: `GRU` in the
place of loops, `LayerNormalization` in the place of means and roots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 20
"""The first with `Gelu`."""
_IR = 10
"""What runtimes of that time read."""


class _Writer:
    """Nodes and weights of a graph."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def add(
        self, op: str, *inputs: str, outputs: int = 1, wanted: int = 0, **attributes: Any
    ) -> str:
        """Adds a node; gives the name of one of its outputs, the first by default."""
        names = [f"{op.lower()}_{len(self._nodes)}_{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[wanted]

    def weight(self, value: Any, dtype: str = "float32") -> str:
        """The name of an array."""
        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def affine(self, x: str, kernel: Any, bias: Any) -> str:
        """A product with a matrix and a sum with a vector."""
        return self.add("Add", self.add("MatMul", x, self.weight(kernel)), self.weight(bias))

    def save(self, result: str, model: Any, file: Path) -> None:
        """Writes the model, whose input and output have the names of the SavedModel's signature."""
        self.add("Identity", result)
        self._nodes[-1].output[0] = "output_0"
        info = helper.make_tensor_value_info
        shapes = [["rows", *shape[1:]] for shape in (model.input_shape, model.output_shape)]
        graph = helper.make_graph(
            self._nodes,
            model.name,
            [info(model.inputs[0].name, TensorProto.FLOAT, shapes[0])],
            [info("output_0", TensorProto.FLOAT, shapes[1])],
            self._weights,
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
        onnx.checker.check_model(proto, full_check=True)
        onnx.save(proto, str(file))


def write_gru(model: Any, file: Path) -> None:
    """GRU layers, then one of probabilities; ONNX has the time first."""
    writer = _Writer()
    first, *recurrent, last = model.layers
    x = writer.add("Transpose", first.name, perm=[1, 0, 2])
    for layer in recurrent:
        kernel, hidden, bias = layer.get_weights()
        weights = (kernel.T[None], hidden.T[None], bias.reshape(1, -1))
        given = map(writer.weight, weights)
        # Both order the gates as update, reset, new; Keras adds a bias to the hidden product before the reset.
        options = {"hidden_size": layer.units, "linear_before_reset": 1}
        is_whole = layer.return_sequences
        y = writer.add("GRU", x, *given, outputs=2, wanted=0 if is_whole else 1, **options)
        x = writer.add("Squeeze", y, writer.weight([1 if is_whole else 0], "int64"))
    x = writer.affine(x, *last.get_weights())
    writer.save(writer.add("Softmax", x), model, file)


def write_transformer(model: Any, file: Path) -> None:
    """Encoder layers, the mean over the tokens, then one of probabilities."""
    writer = _Writer()
    kinds = {"MultiHeadAttention": _attention, "Dense": _dense, "LayerNormalization": _normalised}
    x = before = model.layers[0].name
    for layer in model.layers[1:]:
        kind = type(layer).__name__
        if kind == "Add":
            x = writer.add("Add", before, x)
        elif kind == "GlobalAveragePooling1D":
            x = writer.add("ReduceMean", x, writer.weight([1], "int64"), keepdims=0)
        else:
            x = kinds[kind](writer, layer, x)
            before = x if kind == "LayerNormalization" else before
    writer.save(x, model, file)


def _dense(writer: _Writer, layer: Any, x: str) -> str:
    x = writer.affine(x, *layer.get_weights())
    activation = {"linear": None, "gelu": "Gelu", "softmax": "Softmax"}[layer.activation.__name__]
    return x if activation is None else writer.add(activation, x)


def _normalised(writer: _Writer, layer: Any, x: str) -> str:
    weights = map(writer.weight, layer.get_weights())
    return writer.add("LayerNormalization", x, *weights, epsilon=layer.epsilon)


def _attention(writer: _Writer, layer: Any, x: str) -> str:
    q, q_bias, k, k_bias, v, v_bias, out, out_bias = layer.get_weights()
    features, heads, depth = q.shape
    split = writer.weight([0, -1, heads, depth], "int64")

    def part(kernel: Any, bias: Any, *order: int) -> str:
        y = writer.affine(x, kernel.reshape(features, -1), bias.reshape(-1))
        return writer.add("Transpose", writer.add("Reshape", y, split), perm=list(order))

    queries, keys = part(q, q_bias, 0, 2, 1, 3), part(k, k_bias, 0, 2, 3, 1)
    scale = writer.weight(1 / math.sqrt(depth))
    scores = writer.add("MatMul", writer.add("Mul", queries, scale), keys)
    y = writer.add("MatMul", writer.add("Softmax", scores), part(v, v_bias, 0, 2, 1, 3))
    y = writer.add("Transpose", y, perm=[0, 2, 1, 3])
    y = writer.add("Reshape", y, writer.weight([0, -1, heads * depth], "int64"))
    return writer.affine(y, out.reshape(-1, features), out_bias)


WRITERS: Mapping[str, Callable[[Any, Path], None]] = {
    "gru": write_gru,
    "transformer": write_transformer,
}
"""By the name of the network."""
