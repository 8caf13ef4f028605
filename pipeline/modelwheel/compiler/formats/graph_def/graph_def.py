"""Graphs of TensorFlow in a file: nodes without functions to call, and without names of inputs and outputs.

They are brought into the form of a SavedModel of TensorFlow 1 with one signature, and judged as such.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import wrap_function

from ....errors import UnsupportedModelError
from ....model.inspection import FoundPorts, Inspection, LargeTensor, SignatureInfo, TensorInfo
from ....model.readings import GraphDefReading
from ....util.text import one_line
from ...graphs.kernels import type_name
from ...inspect.inspect_meta_graph import GraphPort, inspect_graph
from ...loaded.base import TENSORFLOW, Arrays, Fetch, SignatureGraph, StaticShapes
from ...loaded.state import snapshot
from ...stablehlo.graph_modules import keep_integers_of_modules
from .. import DEFAULT_SIGNATURE
from ..saved_model.saved_model import replace_variables
from .graph_binding import BoundGraph, bind
from .graph_files import read_config, read_graph_def, read_saver
from .graph_interface import Interface, Port, find_ports, read_interface
from .graph_variables import read_values, replace_references, resources


@dataclass(frozen=True)
class _Model:
    """A graph that was read, before anything of it is executed."""

    bound: BoundGraph
    interface: Interface
    variables: Mapping[str, np.ndarray[Any, Any]]
    """Values by the nodes of the variables that the graph has."""
    file_bytes: int
    ports: FoundPorts | None
    """What was found in the graph, if the reading asks for it."""

    @property
    def info(self) -> SignatureInfo:
        """The only signature."""
        return SignatureInfo(
            key=DEFAULT_SIGNATURE,
            inputs=tuple(map(_describe, self.interface.feeds)),
            outputs=tuple(map(_describe, self.interface.fetches)),
            ordered_by="model",
        )


def _describe(port: Port) -> TensorInfo:
    return TensorInfo(name=port.name, dtype=type_name(port.dtype), shape=port.shape)


def inspect(model: Path, reading: GraphDefReading) -> Inspection:
    """See `Format.inspect`."""
    read = _read(model, reading)
    inputs, outputs = (
        [GraphPort(p.name, _tensor(nodes[p.name]), p.dtype, p.shape) for p in ports]
        for ports, nodes in (
            (read.interface.feeds, read.bound.feeds),
            (read.interface.fetches, read.bound.fetches),
        )
    )
    declared = [variable.node for variable in read.interface.variables]
    inspection = inspect_graph(
        read.bound.graph_def, DEFAULT_SIGNATURE, inputs, outputs, _large_tensors(read), declared
    )
    # The spec or a Config orders inputs and outputs, a message does not.
    info = read.info.with_valid_values(inspection.signatures[0])
    update = {"signatures": (info,), "graph_bytes": read.file_bytes, "ports": read.ports}
    return inspection.model_copy(update=update)


def _tensor(node: str) -> str:
    return node if ":" in node else f"{node}:0"


def _large_tensors(read: _Model) -> list[LargeTensor]:
    return [
        LargeTensor(node=node, function="", elements=value.size)
        for node, value in read.variables.items()
    ]


def _read(model: Path, reading: GraphDefReading) -> _Model:
    path = model / reading.file
    graph_def = read_graph_def(path)
    config = read_config(model / reading.config) if reading.config else None
    ports = find_ports(graph_def) if reading.find else None
    interface = read_interface(graph_def, reading, config)
    saver = read_saver(model / reading.freeze_saver) if reading.freeze_saver else None
    values = read_values(graph_def, model, reading.checkpoint, interface.variables, saver)
    bound = bind(graph_def, interface)
    keep_integers_of_modules(bound.graph_def)
    replace_references(bound.graph_def, values)
    variables = {node.name: values.of(node) for node in resources(bound.graph_def)}
    return _Model(bound, interface, variables, path.stat().st_size, ports)


@dataclass(frozen=True)
class LoadedGraph:
    """See `LoadedModel`."""

    evaluator = TENSORFLOW

    model: _Model

    @property
    def info(self) -> SignatureInfo:
        """Its interface, in the order of the spec or of its Config."""
        return self.model.info

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`."""
        tensors = [tf.constant(inputs[tensor.name]) for tensor in self.info.inputs]
        results = self._evaluated(*tensors)
        names = [tensor.name for tensor in self.info.outputs]
        return {name: np.asarray(value) for name, value in zip(names, results, strict=True)}

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """See `LoadedModel`."""
        function = self._function(shapes)
        outputs = zip(self.info.outputs, function.outputs, strict=True)
        names = [variable.node for variable in self.model.interface.variables]
        declared = [v for v in map(self._variables.get, names) if v is not None]
        graph_def, state = replace_variables(function, keep, declared)
        return SignatureGraph(
            graph_def,
            {name: t.op.name for name, t in zip(shapes, function.inputs, strict=False)},
            {tensor.name: Fetch(t.name, t.dtype) for tensor, t in outputs},
            state,
        )

    def snapshot(self) -> Callable[[], None]:
        """See `StatefulModel`."""
        return snapshot(self._variables.values())

    @cached_property
    def _evaluated(self) -> Any:
        return self._function({tensor.name: tensor.shape for tensor in self.info.inputs})

    @cached_property
    def _variables(self) -> dict[str, Any]:
        names = {variable.node: variable.name for variable in self.model.interface.variables}
        return {
            node: tf.Variable(value, name=names.get(node, node))
            for node, value in self.model.variables.items()
        }

    def _function(self, shapes: Mapping[str, Any]) -> Any:
        """A function of the inputs, in their order, that returns the outputs in theirs."""
        bound = self.model.bound
        taken = {node.name for node in bound.graph_def.node}
        specs = []
        for number, port in enumerate(self.model.interface.feeds):
            name = f"input_{number}"
            while name in taken:
                name += "_"
            specs.append(tf.TensorSpec(shapes[port.name], tf.dtypes.as_dtype(port.dtype), name))

        variables = self._variables  # they are made outside the function

        def call(*tensors: Any) -> list[Any]:
            feeds = dict(zip((f"{node}:0" for node in bound.feeds.values()), tensors, strict=True))
            graph = tf.compat.v1.get_default_graph()
            for node, variable in variables.items():
                graph.watch_variable(variable)
                feeds[f"{node}:0"] = graph.capture(variable.handle)
            return list(
                tf.graph_util.import_graph_def(
                    bound.graph_def,
                    input_map=feeds,
                    return_elements=list(bound.fetches.values()),
                    name="",
                )
            )

        try:
            return wrap_function.wrap_function(call, specs)
        except (ValueError, tf.errors.OpError) as error:
            raise UnsupportedModelError(
                f"TensorFlow cannot import the graph: {one_line(str(error).splitlines()[0])}"
            ) from error


def load(model: Path, reading: GraphDefReading, key: str) -> LoadedGraph:
    """See `Format.load`."""
    if key != DEFAULT_SIGNATURE:
        raise UnsupportedModelError(
            f"the model has no signature {key!r}; a GraphDef has the one that source.feeds and "
            "source.fetches describe: leave model.serving_key out",
            code="MW412",
        )
    return LoadedGraph(_read(model, reading))
