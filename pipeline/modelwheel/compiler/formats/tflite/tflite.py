"""Files of TensorFlow Lite: each becomes a graph of TensorFlow, whose operations the operators of Lite were made from.

A model is converted again for each batch size: what constants and shapes decide is computed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ....errors import UnsupportedModelError
from ....model.frozen_signature import c_names
from ....model.inspection import Inspection, Shape, SignatureInfo
from ....model.messages import weights_within_limit
from ....model.readings import TfliteReading
from ....util.text import one_line
from ...inspect.inspect_meta_graph import GraphPort, inspect_graph
from ...loaded.base import (
    TENSORFLOW_LITE,
    Arrays,
    Fetch,
    SignatureGraph,
    StateVariable,
    StaticShapes,
)
from .. import DEFAULT_SIGNATURE
from .lite_graph import build_graph, initial_state, refuse_unknown
from .lite_node import UNKNOWN_SIZE
from .tflite_file import LiteFile, read_file


def inspect(model: Path, reading: TfliteReading) -> Inspection:
    """See `Format.inspect`."""
    file = _read(model, reading)
    info = file.info
    built = _built_as_declared(file, {t.name: _inspected(file, t.shape) for t in info.inputs})
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
    info = _all_integers(file, info.with_valid_values(inspection.signatures[0]))
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


@dataclass
class LiteModel:
    """See `StatefulModel`; TensorFlow Lite's interpreter evaluates the file, not the graph that it becomes."""

    evaluator = TENSORFLOW_LITE

    file: LiteFile
    _held: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """Variables that calls change, by name, once there was a call."""

    @property
    def info(self) -> SignatureInfo:
        """Its interface, in the order of the file."""
        return self.file.info

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`."""
        interpreter, file = self._interpreter, self.file
        fed = {n: np.asarray(inputs[file.name_of(n)]) for n in file.inputs}
        fed |= dict(zip(file.state_inputs, self._values().values(), strict=True))
        for number, array in fed.items():
            interpreter.resize_tensor_input(number, array.shape)
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()
        for number, array in fed.items():
            interpreter.set_tensor(number, np.ascontiguousarray(array))
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise ValueError(one_line(str(error))) from error

        def result(number: int) -> np.ndarray[Any, Any]:
            return np.array(interpreter.get_tensor(number))

        self._held = dict(zip(file.states, map(result, file.state_outputs), strict=True))
        return {file.name_of(number): result(number) for number in file.outputs}

    def snapshot(self) -> Callable[[], None]:
        """See `StatefulModel`."""
        before = self._held

        def restore() -> None:
            self._held = before

        return restore

    def _value(self, name: str) -> np.ndarray[Any, Any]:
        return self._values()[name]

    def _values(self) -> Mapping[str, np.ndarray[Any, Any]]:
        return self._held or self._first

    @cached_property
    def _first(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Variables that calls change as they are before the first one."""
        return initial_state(self.file)

    def graph(
        self,
        shapes: StaticShapes,
        keep: Collection[str] = (),  # noqa: ARG002 - it has no functions with marks
    ) -> SignatureGraph:
        """See `LoadedModel`."""
        graph = _built(self.file, shapes)
        names = {f"state_{number}": name for number, name in enumerate(self.file.states)}
        state = [
            StateVariable(name, node, self._first[name], partial(self._value, name))
            for node, name in names.items()
        ]
        return replace(graph, state=tuple(sorted(state, key=lambda variable: variable.name)))

    @cached_property
    def _interpreter(self) -> Any:
        # Delegates compute in another order, and some of them with fewer bits. Sums of integers have no order, and the default
        # one rounds them as `lite_integers` does.
        kinds = tf.lite.experimental.OpResolverType
        plain = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        resolver = kinds.AUTO if self.file.has_integers else plain
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


def _all_integers(file: LiteFile, info: SignatureInfo) -> SignatureInfo:
    """A copy of the signature whose integers with a scale may be any of their type."""
    scaled = {file.name_of(n) for n in file.inputs if file.graphs[0].tensors[n].scaling is not None}
    inputs = tuple(
        t.model_copy(update={"valid": None}) if t.name in scaled else t for t in info.inputs
    )
    return info.model_copy(update={"inputs": inputs})


def _inspected(file: LiteFile, shape: Shape | None) -> Shape | None:
    """The shape of an input for which the file is inspected: modules of integers have no free extents."""
    if shape is None or not file.has_integers:
        return shape
    return tuple(extent or 1 for extent in shape)


_EXAMPLE = 256
"""An extent of a free axis that is no batch: most are those of images, which networks halve several times."""


def _built_as_declared(file: LiteFile, shapes: Mapping[str, Shape | None]) -> SignatureGraph:
    """The graph with the free extents that a file declares, or, where an operator has to know them, with some."""
    try:
        return _built(file, shapes)
    except UnsupportedModelError as error:
        if error.code != UNKNOWN_SIZE or all(None not in (s or ()) for s in shapes.values()):
            raise
        examples = {
            name: shape and tuple(e or (_EXAMPLE if axis else 1) for axis, e in enumerate(shape))
            for name, shape in shapes.items()
        }
        with suppress(UnsupportedModelError):
            return _built(file, examples)
        raise


def _built(file: LiteFile, shapes: Any) -> SignatureGraph:
    """The graph for inputs of some shapes, of which extents may be free."""
    info, main = file.info, file.graphs[0]
    names = [tensor.name for tensor in info.inputs]
    with tf.Graph().as_default() as graph:
        placeholders = [
            tf.compat.v1.placeholder(tensor.dtype, shapes[tensor.name], f"arg_{name}")
            for tensor, name in zip(info.inputs, c_names(names), strict=True)
        ]
        handles, held = _variables(file)
        results = build_graph(file, main, [*placeholders, *held])
        kept = results[len(info.outputs) :]
        # What was read is read before anything is assigned.
        with tf.control_dependencies([value.op for value in held]):
            assigned = [
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)
                for handle, value in zip(handles, kept, strict=True)
            ]
        # An output may be an input, a constant, or twice the same tensor.
        with tf.control_dependencies(assigned):
            results = [tf.identity(result) for result in results[: len(info.outputs)]]
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


def _variables(file: LiteFile) -> tuple[list[Any], list[Any]]:
    """The variables that calls change, in the current graph, and what they hold: see `StateVariable`."""
    handles, held = [], []
    for number, tensor in enumerate(file.graphs[0].tensors[n] for n in file.state_inputs):
        name, dtype = f"state_{number}", tf.dtypes.as_dtype(tensor.dtype)
        handle = tf.raw_ops.VarHandleOp(
            dtype=dtype, shape=tensor.shape, shared_name=name, name=name
        )
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        value.set_shape(tensor.shape)
        handles.append(handle)
        held.append(value)
    return handles, held


def _number(dtype: str | tf.DType) -> int:
    return int(tf.dtypes.as_dtype(dtype).as_datatype_enum)
