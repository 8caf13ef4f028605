"""ONNX files: StableHLO for each shape of the inputs, written by `onnx_operators`.

A model is converted again for each batch size: what constants and shapes decide is computed.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ....errors import UnsupportedModelError
from ....extras import require
from ....model.frozen_signature import c_names
from ....model.inspection import Inspection, SignatureInfo
from ....model.messages import weights_within_limit
from ....model.readings import OnnxReading
from ....util.text import one_line
from ....util.words import suggest
from ...loaded.base import Arrays, Fetch, SignatureGraph, StaticShapes
from ...loaded.given_constants import convert_constant
from ...stablehlo.xla_module import call_module

if TYPE_CHECKING:
    from .onnx_evaluate import Evaluator
    from .operators.onnx_graph import Converted

_Key = tuple[tuple[str, tuple[int, ...]], ...]


def inspect(model: Path, reading: OnnxReading) -> Inspection:
    """See `Format.inspect`."""
    require("onnx", "reading ONNX files")
    from .onnx_inspect import inspect_file

    return inspect_file(model, reading)


def load(model: Path, reading: OnnxReading, key: str) -> OnnxModel:
    """See `Format.load`."""
    require("onnx", "reading ONNX files")
    from . import onnx_file

    parsed = onnx_file.read_model(model, reading)
    info = onnx_file.read_signature(parsed, reading.constants)
    if info.key != key:
        raise UnsupportedModelError(
            f"the model has no signature {key!r}; an ONNX file has one, {info.key!r}", code="MW412"
        )
    constants = _constants(parsed, reading)
    onnx_file.load_external(parsed, model)
    return OnnxModel(info, parsed, constants)


class OnnxModel:
    """See `LoadedModel`."""

    def __init__(self, info: SignatureInfo, model: Any, constants: Arrays) -> None:
        self.info = info
        self.model = model
        self.constants = constants
        self._modules: dict[_Key, Converted] = {}

    @property
    def evaluator(self) -> str:
        """See `LoadedModel`."""
        return self._evaluator.name

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`; the file itself is evaluated, not what it is converted to."""
        results = self._evaluator.run({**self.constants, **inputs})
        return {tensor.name: results[tensor.name] for tensor in self.info.outputs}

    def graph(
        self,
        shapes: StaticShapes,
        keep: Collection[str] = (),  # noqa: ARG002 - it has no functions with marks
    ) -> SignatureGraph:
        """See `LoadedModel`."""
        converted = self._module(shapes)
        module = converted.module
        with tf.Graph().as_default() as graph:
            placeholders = {
                tensor.name: tf.compat.v1.placeholder(
                    tensor.dtype, shapes[tensor.name], f"arg_{name}"
                )
                for tensor, name in zip(self.info.inputs, c_names(self._names), strict=True)
            }
            operands = [
                placeholders[a] if isinstance(a, str) else tf.constant(a) for a in module.arguments
            ]
            tensors = call_module(module.text, operands, module.results)
            results = dict(zip(converted.outputs, tensors, strict=True))
        with weights_within_limit():
            graph_def = graph.as_graph_def()
        return SignatureGraph(
            graph_def,
            {name: tensor.op.name for name, tensor in placeholders.items()},
            {t.name: Fetch(results[t.name].name, results[t.name].dtype) for t in self.info.outputs},
        )

    @cached_property
    def _evaluator(self) -> Evaluator:
        from .onnx_evaluate import find_evaluator

        return find_evaluator(self.model)

    @cached_property
    def _names(self) -> list[str]:
        return [tensor.name for tensor in self.info.inputs]

    def _module(self, shapes: StaticShapes) -> Converted:
        from .operators.onnx_graph import convert

        key = tuple((name, tuple(shapes[name])) for name in self._names)
        if key not in self._modules:
            self._modules[key] = convert(self.model, dict(key), self.constants)
        return self._modules[key]


def _constants(parsed: Any, reading: OnnxReading) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs that the spec makes constant, in the types and shapes of the model."""
    from . import onnx_file

    declared = {t.name: t for t in onnx_file.read_signature(parsed, {}).inputs}
    made: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in reading.constants.items():
        tensor = declared.get(name)
        if tensor is None:
            raise UnsupportedModelError(
                f"source.constants names {name!r}, which is not an input of the model; "
                f"{suggest(name, list(declared), 'its inputs are:')}"
            )
        array = convert_constant(value, tf.dtypes.as_dtype(tensor.dtype).as_datatype_enum, name)
        if tensor.shape == (1,) and not array.shape:
            array = array.reshape(1)
        fits = tensor.shape is None or (
            len(tensor.shape) == array.ndim
            and all(d in (None, e) for d, e in zip(tensor.shape, array.shape, strict=True))
        )
        if not fits:
            raise UnsupportedModelError(
                f"source.constants.{one_line(name)} has the shape {list(array.shape)}, but the model declares "
                f"{['?' if d is None else d for d in tensor.shape or ()]}; correct the value"
            )
        made[name] = array
    return made
