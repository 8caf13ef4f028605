"""Files of TensorFlow Lite in tests, and what the graphs that they become compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import flatbuffers
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from modelwheel.compiler import formats
from modelwheel.compiler.formats.tflite.tflite_file import read_file
from modelwheel.compiler.loaded.base import SignatureGraph
from modelwheel.model.readings import TfliteReading


def packed(model: schema.ModelT) -> bytes:
    """The bytes of a file."""
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def operators_of(paths: Iterable[Path]) -> set[str]:
    """The operators of files, by their names in the schema."""
    graphs = (graph for path in paths for graph in read_file(path).graphs)
    return {operator.op for graph in graphs for operator in graph.operators}


def without(content: bytes, op: int) -> bytes:
    """A file whose main graph lacks the operators of this number."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    main, codes = model.subgraphs[0], model.operatorCodes
    main.operators = [o for o in main.operators if codes[o.opcodeIndex].builtinCode != op]
    return packed(model)


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
