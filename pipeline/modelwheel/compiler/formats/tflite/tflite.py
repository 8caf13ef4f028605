"""Files of TensorFlow Lite: each becomes a graph of TensorFlow, whose operations the operators of Lite were made from.

A model is converted again for each batch size: what constants and shapes decide is computed.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ....errors import UnsupportedModelError
from ....model.frozen_signature import c_names
from ....model.inspection import Inspection, SignatureInfo
from ....model.messages import weights_within_limit
from ....model.readings import TfliteReading
from ....util.text import one_line
from ...inspect.inspect_meta_graph import GraphPort, inspect_graph
from ...loaded.base import TENSORFLOW_LITE, Arrays, Fetch, SignatureGraph, StaticShapes
from .. import DEFAULT_SIGNATURE
from .lite_graph import build_graph, refuse_unknown
from .tflite_file import LiteFile, read_file


def inspect(model: Path, reading: TfliteReading) -> Inspection:
    """See `Format.inspect`."""
    file = _read(model, reading)
    info = file.info
    built = _built(file, {tensor.name: tensor.shape for tensor in info.inputs})
    inputs = [
        GraphPort(t.name, f"{built.feeds[t.name]}:0", _number(t.dtype), t.shape)
        for t in info.inputs
    ]
    fetches = built.fetches
    outputs = [
        GraphPort(t.name, fetches[t.name].tensor, _number(fetches[t.name].dtype), t.shape)
        for t in info.outputs
    ]
    inspection = inspect_graph(built.graph_def, DEFAULT_SIGNATURE, inputs, outputs)
    info = info.with_valid_values(inspection.signatures[0])
    return inspection.model_copy(
        update={
            "signatures": (info,),
            "graph_bytes": len(file.content),
            "written_by": one_line(file.description) or "unknown",
        }
    )


def load(model: Path, reading: TfliteReading, key: str) -> LiteModel:
    """See `Format.load`."""
    if key != DEFAULT_SIGNATURE:
        raise UnsupportedModelError(
            f"the model has no signature {key!r}; of a file of TensorFlow Lite, the first graph is read: leave "
            "model.serving_key out",
            code="MW412",
        )
    return LiteModel(_read(model, reading))


@dataclass(frozen=True)
class LiteModel:
    """See `LoadedModel`."""

    evaluator = TENSORFLOW_LITE

    file: LiteFile

    @property
    def info(self) -> SignatureInfo:
        """Its interface, in the order of the file."""
        return self.file.info

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`; TensorFlow Lite's interpreter evaluates the file, not the graph that it becomes."""
        interpreter = self._interpreter
        main = self.file.graphs[0]
        for number in main.inputs:
            array = np.asarray(inputs[self.file.name_of(number)])
            interpreter.resize_tensor_input(number, array.shape)
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()
        for number in main.inputs:
            interpreter.set_tensor(number, np.ascontiguousarray(inputs[self.file.name_of(number)]))
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise ValueError(one_line(str(error))) from error
        return {
            self.file.name_of(number): np.array(interpreter.get_tensor(number))
            for number in main.outputs
        }

    def graph(
        self,
        shapes: StaticShapes,
        keep: Collection[str] = (),  # noqa: ARG002 - it has no functions with marks
    ) -> SignatureGraph:
        """See `LoadedModel`."""
        return _built(self.file, shapes)

    @cached_property
    def _interpreter(self) -> Any:
        # Delegates compute in another order, and some of them with fewer bits.
        resolver = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        with warnings.catch_warnings():
            # It names a package of its own as successor, which would be one more to install.
            warnings.filterwarnings("ignore", r"[\s\S]*tf\.lite\.Interpreter is deprecated")
            return tf.lite.Interpreter(
                model_content=self.file.content,
                experimental_op_resolver_type=resolver,
                num_threads=1,
            )


def _read(model: Path, reading: TfliteReading) -> LiteFile:
    file = read_file(model / reading.file)
    refuse_unknown(file)
    return file


def _built(file: LiteFile, shapes: Any) -> SignatureGraph:
    """The graph for inputs of some shapes, of which extents may be free."""
    info, main = file.info, file.graphs[0]
    names = [tensor.name for tensor in info.inputs]
    with tf.Graph().as_default() as graph:
        placeholders = [
            tf.compat.v1.placeholder(tensor.dtype, shapes[tensor.name], f"arg_{name}")
            for tensor, name in zip(info.inputs, c_names(names), strict=True)
        ]
        results = build_graph(file, main, placeholders)
        # An output may be an input, a constant, or twice the same tensor.
        results = [tf.identity(result) for result in results]
    with weights_within_limit():
        graph_def = graph.as_graph_def()
    return SignatureGraph(
        graph_def,
        {name: tensor.op.name for name, tensor in zip(names, placeholders, strict=True)},
        {
            tensor.name: Fetch(result.name, result.dtype)
            for tensor, result in zip(info.outputs, results, strict=True)
        },
    )


def _number(dtype: str | tf.DType) -> int:
    return int(tf.dtypes.as_dtype(dtype).as_datatype_enum)
