"""Layers of narrower numbers in graphs of TensorFlow: of 8-bit integers, each is an XlaCallModule that rounds its data, sums integers and
scales the sums; of bfloat16, each has other weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ...model.inspection import Shape, SignatureInfo
from ...model.quantization import QuantizedLayer, Rounding
from ..graphs.graphs import node_name
from ..loaded.base import TENSORFLOW, Arrays, LoadedModel, SignatureGraph, StaticShapes
from ..stablehlo.writer import Builder, Value
from ..stablehlo.writer import contractions as p
from ..stablehlo.writer import reshaping as s
from ..stablehlo.writer.builder import Module
from ..stablehlo.writer.integer_products import (
    Dequantized,
    Whole,
    dequantized_convolution,
    dequantized_product,
    kept,
)
from ..stablehlo.writer.scaled_integers import dequantize, saturate
from ..stablehlo.xla_module import call_module
from .quantizing import Array, FloatLayer, Observer, as_bfloat16, as_bytes

_FEATURES: Mapping[str, int] = {"MatMul": 1, "Conv2D": 3, "DepthwiseConv2dNative": 2}
"""The axis of the weights along which each feature has its own, by operation."""
_FUNCTIONS = 2
"""That are kept, each with all weights: one for the calls that follow each other, and one for what they are compared with."""


def quantizer(loaded: LoadedModel, keep: Collection[str]) -> GraphQuantizer:
    """The layers of a model that is a graph of TensorFlow's."""
    return GraphQuantizer(loaded, keep)


class GraphQuantizer:
    """See `Quantizer`.

    Args:
        loaded: A model that is a graph of TensorFlow's.
        keep: See `LoadedModel.graph`: layers within these functions stay as they are.
    """

    def __init__(self, loaded: LoadedModel, keep: Collection[str] = ()) -> None:
        self._loaded, self._keep = loaded, keep

    def layers(self, shapes: StaticShapes) -> Sequence[FloatLayer]:
        """See `Quantizer`."""
        graph = self._loaded.graph(shapes, self._keep)
        if graph.state:
            raise UnsupportedModelError(
                "package.compute: the model keeps state between calls, and rows of samples have none; remove it"
            )
        found = [layer for _, layer in _Graph(graph.graph_def).places()]
        if not self._keep:
            return found
        plain = {layer.name for _, layer in _Graph(self._loaded.graph(shapes).graph_def).places()}
        return [layer for layer in found if layer.name in plain]

    def observer(self, shapes: StaticShapes, layers: Sequence[FloatLayer]) -> Observer:
        """See `Quantizer`."""
        graph = self._loaded.graph(shapes)
        nodes = {node.name: node for node in graph.graph_def.node}
        made = tf.Graph()
        with made.as_default():
            tf.graph_util.import_graph_def(graph.graph_def, name="")
        session = tf.compat.v1.Session(graph=made)
        fetches = {layer.name: _output(nodes[layer.name].input[0]) for layer in layers}

        def observe(inputs: Arrays) -> Mapping[str, Array]:
            fed = {f"{node}:0": inputs[name] for name, node in graph.feeds.items()}
            values: Mapping[str, Array] = session.run(fetches, fed)
            return values

        return observe

    def quantized(self, layers: Sequence[QuantizedLayer]) -> LoadedModel:
        """See `Quantizer`."""
        return QuantizedGraph(self._loaded, tuple(layers))


@dataclass
class QuantizedGraph:
    """A loaded model with layers of narrower numbers; TensorFlow evaluates its graph."""

    loaded: LoadedModel
    layers: tuple[QuantizedLayer, ...]
    _functions: dict[tuple[Shape, ...], tuple[Any, list[str]]] = field(default_factory=dict)
    evaluator = TENSORFLOW

    @property
    def info(self) -> SignatureInfo:
        """See `LoadedModel`."""
        return self.loaded.info

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`."""
        shapes = self._shapes(inputs)
        key = tuple(shapes[tensor.name] for tensor in self.info.inputs)
        if key not in self._functions:
            while len(self._functions) >= _FUNCTIONS:
                del self._functions[next(iter(self._functions))]
            self._functions[key] = self._function(shapes)
        function, names = self._functions[key]
        results = function(*(tf.constant(inputs[name]) for name in names))
        outputs = [tensor.name for tensor in self.info.outputs]
        return {name: result.numpy() for name, result in zip(outputs, results, strict=True)}

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """See `LoadedModel`."""
        graph = self.loaded.graph(shapes, keep)
        _Graph(graph.graph_def).rewrite({layer.name: layer for layer in self.layers})
        return graph

    def _shapes(self, inputs: Arrays) -> dict[str, Any]:
        """The shapes of a function that takes these inputs: modules of integers have those of one call."""
        if any(layer.rounding for layer in self.layers):
            return {name: array.shape for name, array in inputs.items()}
        declared = {tensor.name: tensor.shape for tensor in self.info.inputs}
        return {name: declared[name] or array.shape for name, array in inputs.items()}

    def _function(self, shapes: Mapping[str, Any]) -> tuple[Any, list[str]]:
        graph = self.graph(shapes)

        def build() -> None:
            tf.graph_util.import_graph_def(graph.graph_def, name="")

        wrapped = tf.compat.v1.wrap_function(build, [])
        feeds = [wrapped.graph.get_tensor_by_name(f"{node}:0") for node in graph.feeds.values()]
        fetches = [
            wrapped.graph.get_tensor_by_name(graph.fetches[tensor.name].tensor)
            for tensor in self.info.outputs
        ]
        return wrapped.prune(feeds, fetches), list(graph.feeds)


class _Graph:
    """A graph of static shapes, whose layers can be found and replaced."""

    def __init__(self, graph_def: Any) -> None:
        self._graph_def = graph_def
        self._nodes = {node.name: node for node in graph_def.node}

    def places(self) -> Iterator[tuple[Any, FloatLayer]]:
        """The layers outside functions, with their nodes."""
        for node in self._graph_def.node:
            axis = _FEATURES.get(node.op)
            if axis is None or node.attr["T"].type != tf.float32.as_datatype_enum:
                continue
            weights, data = self._constant(node.input[1]), self._constant(node.input[0])
            if weights is None or data is not None or not _fits(node, weights):
                continue
            if node.op == "MatMul" and node.attr["transpose_b"].b:
                weights = weights.T
            channels = weights.shape[0 if node.op == "MatMul" else 2]
            yield node, FloatLayer(node.name, weights, axis, channels)

    def rewrite(self, layers: Mapping[str, QuantizedLayer]) -> None:
        """Replaces layers by modules of integers, or their weights by bfloat16 numbers, in place."""
        places = [(node, layer) for node, layer in self.places() if layer.name in layers]
        missing = layers.keys() - {layer.name for _, layer in places}
        if missing:
            raise UnsupportedModelError(
                f"package.compute: the layer {min(missing)!r} is not in the graph for another number of rows; remove it"
            )
        rounding = {name: chosen.rounding for name, chosen in layers.items()}
        shapes = self._shapes() if any(rounding.values()) else {}
        for node, layer in places:
            chosen = rounding[layer.name]
            if chosen is None:
                self._round_weights(node, layer)
            else:
                self._replace(node, layer, _module(node, layer, chosen, shapes))

    def _round_weights(self, node: Any, layer: FloatLayer) -> None:
        weights = as_bfloat16(layer.weights)
        added = self._graph_def.node.add()
        added.op, added.name = "Const", f"{layer.name}/weights"
        added.attr["dtype"].type = tf.float32.as_datatype_enum
        # The layer's are [data, features].
        values = tf.make_tensor_proto(weights.T if node.attr["transpose_b"].b else weights)
        added.attr["value"].tensor.CopyFrom(values)
        node.input[1] = added.name

    def _shapes(self) -> Mapping[str, tuple[int | None, ...]]:
        """Of the results of all nodes."""
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(self._graph_def, name="")
            results = (tensor for op in graph.get_operations() for tensor in op.outputs[:])
            return {t.name: tuple(t.shape) for t in results if t.shape.rank is not None}

    def _replace(self, node: Any, layer: FloatLayer, module: Module) -> None:
        with tf.Graph().as_default() as graph:
            data = tf.compat.v1.placeholder(tf.float32, name="data")
            arguments = [data if isinstance(a, str) else tf.constant(a) for a in module.arguments]
            (result,) = call_module(module.text, arguments, module.results)
            tf.identity(result, "result")
        source = node.input[0]
        for part in graph.as_graph_def().node:
            if part.name == "data":
                continue
            target = node if part.name == "result" else self._graph_def.node.add()
            target.CopyFrom(part)
            target.name = layer.name if part.name == "result" else f"{layer.name}/{part.name}"
            target.input[:] = [
                source if name == "data" else f"{layer.name}/{name}" for name in part.input
            ]

    def _constant(self, tensor: str) -> Array | None:
        node = self._nodes.get(node_name(tensor))
        while node is not None and node.op == "Identity":
            node = self._nodes.get(node_name(node.input[0]))
        return (
            tf.make_ndarray(node.attr["value"].tensor)
            if node is not None and node.op == "Const"
            else None
        )


def _fits(node: Any, weights: Array) -> bool:
    if node.op == "MatMul":
        return weights.ndim == 2 and not node.attr["transpose_a"].b
    multiplier = node.op == "DepthwiseConv2dNative" and weights.shape[3] != 1
    return node.attr["data_format"].s == b"NHWC" and not multiplier


def _output(tensor: str) -> str:
    return tensor if ":" in tensor else f"{tensor}:0"


def _module(
    node: Any,
    layer: FloatLayer,
    chosen: Rounding,
    shapes: Mapping[str, tuple[int | None, ...]],
) -> Module:
    """The layer for data of a shape."""
    shape = shapes.get(_output(node.input[0]), (None,))
    if None in shape:
        raise UnsupportedModelError(
            f"package.compute: the shape of what the layer {layer.name!r} reads is not known; give all inputs shapes"
        )
    builder = Builder()
    data = builder.argument("data", np.dtype(np.float32), [extent or 0 for extent in shape])
    rounded = _rounded(data, chosen)
    values, scales = as_bytes(layer)
    if node.op == "MatMul":
        result = dequantized_product(rounded, _weights(builder, values, scales[None, :]))
    else:
        depthwise = node.op != "Conv2D"
        order = (2, 3, 0, 1) if depthwise else (3, 2, 0, 1)
        each = scales.reshape(-1, 1, 1, 1)
        kernel = _weights(builder, np.ascontiguousarray(values.transpose(order)), each)
        images = Dequantized.of(
            s.move_axis(rounded, -1, 1),
            Whole(s.move_axis(rounded.whole.numbers, -1, 1), rounded.whole.zero),
            rounded.scale,
        )
        groups = images.shape[1] if depthwise else 1
        window = _window(node, images.shape[2:], kernel.shape[2:])
        result = dequantized_convolution(images, kernel, window, groups)
        result = None if result is None else s.move_axis(result, 1, -1)
    assert result is not None, f"{layer.name} is not one of 8-bit integers"
    return builder.module({"result": result})


def _rounded(data: Value, chosen: Rounding) -> Dequantized:
    scale = data.builder.constant(chosen.scale, np.float32)
    zero = data.builder.constant(chosen.zero, np.uint8)
    numbers = kept(saturate(data / scale, zero, np.dtype(np.uint8)))
    whole = Whole(numbers, zero).signed()
    return Dequantized.of(dequantize(whole.numbers, scale, whole.zero), whole, scale)


def _weights(builder: Builder, values: Array, scales: Array) -> Dequantized:
    numbers, scale = builder.constant(values), builder.constant(scales)
    return Dequantized.of(dequantize(numbers, scale, None), Whole(numbers), scale)


def _window(node: Any, extents: Sequence[int], kernel: Sequence[int]) -> p.Window:
    strides = tuple(node.attr["strides"].list.i)[1:3]
    dilations = tuple(node.attr["dilations"].list.i)[1:3] or (1, 1)
    padding = node.attr["padding"].s
    if padding == b"EXPLICIT":
        given = tuple(node.attr["explicit_paddings"].list.i)
        pads = tuple((given[2 * axis], given[2 * axis + 1]) for axis in (1, 2))
    else:
        pads = p.paddings(padding.decode(), extents, kernel, strides, dilations)
    return p.Window(strides, pads, dilations)
