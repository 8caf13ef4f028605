"""Has ONNX Runtime compute Fourier transforms as ONNX defines them.

It makes those of lengths that are no powers of two of longer ones by Bluestein's algorithm, with angles up to pi times
the length that are rounded to float32: at 400 samples, results are off by 3e-5 of the largest, a hundred times what
rounding makes. Their definition is a product with a matrix, and that of frames of a signal a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

_LENGTHS = {"DFT": 1, "STFT": 3}
"""The input that holds the length of a transform."""
_STEP, _WINDOW = 1, 2
Array = np.ndarray[Any, Any]


def inexact_transforms(model: onnx.ModelProto) -> tuple[onnx.NodeProto, ...]:
    """The nodes of a model that ONNX Runtime does not compute as they are defined."""
    known = constants_of(model.graph)
    return tuple(
        node
        for node in model.graph.node
        if (length := _length(node, known)) is not None and length & (length - 1)
    )


def with_exact_spectra(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with convolutions instead of `STFT` of real signals, where ONNX Runtime is not exact."""
    inexact = [node.output[0] for node in inexact_transforms(model) if node.op_type == "STFT"]
    if not inexact:
        return model
    known, ranks = constants_of(model.graph), _real_signals(model)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    for node in model.graph.node:
        if node.output and node.output[0] in inexact and node.input[0] in ranks:
            copy.graph.node.extend(_convolution(node, known, copy.graph))
        else:
            copy.graph.node.append(node)
    return copy


def constants_of(graph: onnx.GraphProto) -> Mapping[str, onnx.TensorProto]:
    """The initialisers of a graph, and the values of its `Constant` nodes."""
    made = {
        node.output[0]: attribute.t
        for node in graph.node
        for attribute in node.attribute
        if node.op_type == "Constant" and attribute.name == "value"
    }
    return {**made, **{tensor.name: tensor for tensor in graph.initializer}}


def _length(node: onnx.NodeProto, known: Mapping[str, onnx.TensorProto]) -> int | None:
    place = _LENGTHS.get(node.op_type)
    if place is None:
        return None
    if len(node.input) > place and node.input[place]:
        length = known.get(node.input[place])
        return None if length is None else int(numpy_helper.to_array(length).reshape(()))
    window = known.get(node.input[_WINDOW]) if len(node.input) > _WINDOW else None
    return math.prod(window.dims) if node.op_type == "STFT" and window is not None else None


def _real_signals(model: onnx.ModelProto) -> frozenset[str]:
    """The values whose last axis has the samples, or one part of each."""
    graph = shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info)
    }
    return frozenset(
        name
        for name, shape in shapes.items()
        if len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)
    )


def _convolution(
    node: onnx.NodeProto, known: Mapping[str, onnx.TensorProto], graph: onnx.GraphProto
) -> Iterator[onnx.NodeProto]:
    result, length = node.output[0], _length(node, known)
    step = known.get(node.input[_STEP])
    assert length is not None
    if step is None:
        yield node
        return
    onesided = next((a.i for a in node.attribute if a.name == "onesided"), 1)
    count = length // 2 + 1 if onesided else length
    window = known.get(node.input[_WINDOW]) if len(node.input) > _WINDOW else None
    weights = np.ones(length) if window is None else numpy_helper.to_array(window)
    angles = 2 * np.pi * (np.outer(np.arange(count), np.arange(length)) % length) / length
    filters = np.concatenate([np.cos(angles), -np.sin(angles)])[:, None] * weights
    names = [f"{result}/exact/{part}" for part in range(6)]
    tensors = (filters.astype(weights.dtype), np.array([0, 1, -1]), np.array([0, 2, count, -1]))
    graph.initializer.extend(
        numpy_helper.from_array(tensor, name) for tensor, name in zip(tensors, names, strict=False)
    )
    stride = int(numpy_helper.to_array(step).reshape(()))
    yield helper.make_node("Reshape", [node.input[0], names[1]], [names[3]])
    yield helper.make_node("Conv", [names[3], names[0]], [names[4]], strides=[stride])
    yield helper.make_node("Reshape", [names[4], names[2]], [names[5]])
    yield helper.make_node("Transpose", [names[5]], [result], perm=[0, 3, 2, 1])
