"""The job `export`: a signature as the files that other runtimes read, for `modelwheel bench`.

The graph is the model's own, with constants for its variables, before anything rewrites it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from ..errors import UnsupportedModelError
from ..model.shapes import batch_axes, static_shapes
from ..util.text import one_line
from ..workers.jobs import EXPORTED, ExportJob, FreezeRequest
from ..workers.outcomes import Exported
from . import formats
from .loaded.base import LoadedModel, SignatureGraph

_SERVING = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_OPSET = 18
_SAID = 160
"""Characters of a converter's error that a table can show."""


def run(job: ExportJob) -> None:
    """Writes the files, empty ones where a converter fails, and why it did."""
    request, out = job.request.freezing, job.out
    loaded = formats.load(job.inputs.model, request.reading, request.signature, request.names)
    graph = _free_graph(loaded, request)
    if graph.state:
        raise UnsupportedModelError("it keeps state between calls, which no converter writes")
    saved = out / "exported"
    _write_saved_model(graph, saved)
    writers: Mapping[str, Callable[[Path], object]] = {
        "saved_model.pb": lambda file: shutil.copyfile(saved / file.name, file),
        "model.tflite": lambda file: file.write_bytes(to_tflite(saved)),
        "model.onnx": lambda file: _write_onnx(graph, file),
    }
    assert set(writers) == set(EXPORTED)
    failures = {}
    for name, write in writers.items():
        try:
            write(out / name)
        except Exception as error:  # noqa: BLE001 - converters raise whatever they like
            failures[name] = one_line(f"{type(error).__name__}: {error}")[:_SAID]
            (out / name).write_bytes(b"")
    shutil.rmtree(saved)
    Exported(failures=failures).save(out / Exported.FILE)


def _free_graph(loaded: LoadedModel, request: FreezeRequest) -> SignatureGraph:
    """The graph for any number of rows."""
    axes = batch_axes(loaded.info, request.shapes)
    shapes: dict[str, Any] = dict(static_shapes(loaded.info, request.shapes, request.batch))
    for name, axis in axes.items():
        shape = list(shapes[name])
        shape[axis] = None
        shapes[name] = tuple(shape)
    return loaded.graph(shapes)


def _write_saved_model(graph: SignatureGraph, directory: Path) -> None:
    """As TensorFlow 1 does: a graph without variables is one file."""
    info = tf.compat.v1.saved_model.build_tensor_info
    with tf.Graph().as_default() as made:
        tf.graph_util.import_graph_def(graph.graph_def, name="")
        inputs = {k: made.get_tensor_by_name(f"{node}:0") for k, node in graph.feeds.items()}
        outputs = {k: made.get_tensor_by_name(one.tensor) for k, one in graph.fetches.items()}
        signature = tf.compat.v1.saved_model.build_signature_def(
            {name: info(tensor) for name, tensor in inputs.items()},
            {name: info(tensor) for name, tensor in outputs.items()},
            tf.saved_model.PREDICT_METHOD_NAME,
        )
        builder = tf.compat.v1.saved_model.Builder(str(directory))
        with tf.compat.v1.Session(graph=made) as session:
            builder.add_meta_graph_and_variables(
                session, [tf.saved_model.SERVING], {_SERVING: signature}
            )
        builder.save()


def to_tflite(saved_model: Path) -> bytes:
    """A SavedModel as a file of LiteRT, by TensorFlow's converter, with the built-in operations alone."""
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(saved_model), signature_keys=[_SERVING]
    )
    content: bytes = converter.convert()
    return content


def _write_onnx(graph: SignatureGraph, file: Path) -> None:
    import tf2onnx

    feeds = {f"{node}:0": name for name, node in graph.feeds.items()}
    fetches = {one.tensor: name for name, one in graph.fetches.items()}
    tf2onnx.convert.from_graph_def(
        graph.graph_def,
        name="model",
        input_names=list(feeds),
        output_names=list(fetches),
        opset=_OPSET,
        tensors_to_rename=feeds | fetches,
        output_path=str(file),
    )
