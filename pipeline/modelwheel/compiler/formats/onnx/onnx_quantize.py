"""ONNX files with layers of narrower numbers: of 8-bit integers as `quantize_static` writes them, with QuantizeLinear and
DequantizeLinear around; of bfloat16 with other weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

from ....errors import UnsupportedModelError
from ....model.quantization import QuantizedLayer, Rounding
from ....util.text import one_line
from ...loaded.base import Arrays, LoadedModel
from ..quantizing import Array, FloatLayer, Observer, as_bfloat16, as_bytes
from .onnx import OnnxModel
from .onnx_evaluate import find_evaluator

_OPSET = 13
"""The first one with a scale for each feature."""


def quantizer(loaded: OnnxModel, keep: Collection[str]) -> OnnxQuantizer:  # noqa: ARG001 - it has no functions with marks
    """The layers of a file."""
    return OnnxQuantizer(loaded)


class OnnxQuantizer:
    """See `Quantizer`."""

    def __init__(self, loaded: OnnxModel) -> None:
        self._loaded = loaded

    def layers(self, shapes: Mapping[str, tuple[int, ...]]) -> Sequence[FloatLayer]:  # noqa: ARG002 - known without
        """See `Quantizer`."""
        return [layer for _, layer in self._places()]

    def observer(
        self,
        shapes: Mapping[str, tuple[int, ...]],  # noqa: ARG002 - of any
        layers: Sequence[FloatLayer],
    ) -> Observer:
        """See `Quantizer`."""
        wanted = {layer.name for layer in layers}
        read = {layer.name: node.input[0] for node, layer in self._places() if layer.name in wanted}
        observed = _copy(self._loaded.model)
        declared = {value.name for value in (*observed.graph.input, *observed.graph.output)}
        more = sorted(set(read.values()) - declared)
        observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
        evaluator = find_evaluator(observed)

        def observe(inputs: Arrays) -> Mapping[str, Array]:
            values = {**self._loaded.constants, **inputs}
            values |= evaluator.run(values)
            return {name: values[data] for name, data in read.items()}

        return observe

    def quantized(self, layers: Sequence[QuantizedLayer]) -> LoadedModel:
        """See `Quantizer`."""
        model = _copy(self._loaded.model)
        if any(layer.rounding for layer in layers):
            model = _with_opset(model)
        writer = _Writer(model, {layer.name: layer for layer in layers})
        writer.write(list(_places(model)))
        return OnnxModel(self._loaded.info, model, self._loaded.constants)

    def _places(self) -> Iterator[tuple[onnx.NodeProto, FloatLayer]]:
        return _places(self._loaded.model)


def _places(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, FloatLayer]]:
    """The layers of the main graph, with their nodes."""
    given = {value.name for value in model.graph.input}
    known = {t.name: t for t in model.graph.initializer if t.name not in given}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            known[node.output[0]] = node.attribute[0].t
        axis = _features(node)
        if axis is None or node.input[0] in known:
            continue
        weights = known.get(node.input[1])
        if weights is None or weights.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(weights)
        channels = _channels(node, values)
        if channels is not None:
            yield node, FloatLayer(node.output[0], values, axis, channels)


def _features(node: onnx.NodeProto) -> int | None:
    attributes = {a.name: a.i for a in node.attribute}
    if node.domain not in ("", "ai.onnx") or attributes.get("transA", 0):
        return None
    gemm = 0 if attributes.get("transB", 0) else 1
    return {"MatMul": 1, "Gemm": gemm, "Conv": 0}.get(node.op_type)


def _channels(node: onnx.NodeProto, weights: Array) -> int | None:
    """How many values a layer reads at each place; None of a layer that is no product of bytes."""
    if node.op_type != "Conv":
        return weights.size // weights.shape[_features(node) or 0] if weights.ndim == 2 else None
    groups = {a.name: a.i for a in node.attribute}.get("group", 1)
    fits = groups == 1 or (weights.shape[1] == 1 and weights.shape[0] == groups)
    return weights.shape[1] * groups if fits else None


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _with_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, of a version that has what is written."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version < _OPSET:
        try:
            return version_converter.convert_version(model, _OPSET)
        except Exception as error:
            raise UnsupportedModelError(
                f"package.compute: a file of opset {version} has no scale for each feature, and onnx cannot convert it "
                f"({one_line(str(error))[:200]}); export it with opset {_OPSET} or later"
            ) from error
    return model


class _Writer:
    """Puts narrower numbers into the layers of a model, in place."""

    def __init__(self, model: onnx.ModelProto, layers: Mapping[str, QuantizedLayer]) -> None:
        self._graph = model.graph
        self._layers = layers
        self._rounded: dict[tuple[str, float, int], str] = {}
        """The data that several layers read, by what rounds them."""

    def write(self, places: Sequence[tuple[onnx.NodeProto, FloatLayer]]) -> None:
        """Rewrites the layers; nodes stay in an order in which each follows what it reads."""
        by_name = {layer.name: layer for _, layer in places}
        missing = self._layers.keys() - by_name.keys()
        assert not missing, f"layers that the model does not have: {missing}"
        nodes = list(self._graph.node)
        del self._graph.node[:]
        for node in nodes:
            layer = by_name.get(node.output[0]) if node.output else None
            chosen = None if layer is None else self._layers.get(layer.name)
            if layer is not None and chosen is not None:
                rounding = chosen.rounding
                if rounding is None:
                    values = as_bfloat16(layer.weights)
                    node.input[1] = self._constant(f"{layer.name}/weights/rounded", values)
                else:
                    node.input[0] = self._data(node.input[0], layer.name, rounding)
                    node.input[1] = self._weights(layer)
            self._graph.node.append(node)

    def _data(self, name: str, layer: str, rounding: Rounding) -> str:
        key = (name, *rounding)
        if key not in self._rounded:
            made = f"{layer}/data"
            parameters = [
                self._constant(f"{made}/scale", np.float32(rounding.scale)),
                self._constant(f"{made}/zero", np.uint8(rounding.zero)),
            ]
            self._add("QuantizeLinear", [name, *parameters], f"{made}/bytes")
            self._rounded[key] = self._add(
                "DequantizeLinear", [f"{made}/bytes", *parameters], f"{made}/rounded"
            )
        return self._rounded[key]

    def _weights(self, layer: FloatLayer) -> str:
        made = f"{layer.name}/weights"
        values, scales = as_bytes(layer)
        inputs = [self._constant(f"{made}/bytes", values), self._constant(f"{made}/scales", scales)]
        return self._add("DequantizeLinear", inputs, f"{made}/rounded", axis=layer.features)

    def _constant(self, name: str, values: Array | np.generic) -> str:
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self._graph.node.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output
