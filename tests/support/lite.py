"""Files of TensorFlow Lite in tests, and what the graphs that they become compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flatbuffers
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from modelwheel.compiler import formats
from modelwheel.compiler.loaded.base import SignatureGraph
from modelwheel.model.readings import TfliteReading


def packed(model: schema.ModelT) -> bytes:
    """The bytes of a file."""
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def load(path: Path) -> Any:
    """A file as `formats` loads it; raises UnsupportedModelError."""
    reading = TfliteReading(file=path.name)
    assert formats.inspect(path.parent, reading).signatures
    return formats.load(path.parent, reading, formats.DEFAULT_SIGNATURE, {})


def results_of(made: SignatureGraph, *calls: Mapping[str, Any]) -> Any:
    """The outputs of a graph for the inputs of a call; of several calls in a row, those of each."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(made.graph_def, name="")
        for variable in made.state:
            handle = graph.get_tensor_by_name(f"{variable.node}:0")
            session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=variable.value))
        fetches = {name: fetch.tensor for name, fetch in made.fetches.items()}
        results = [
            session.run(fetches, {f"{made.feeds[n]}:0": value for n, value in inputs.items()})
            for inputs in calls
        ]
    return results[0] if len(results) == 1 else results
