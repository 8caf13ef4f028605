"""The job `freeze`: a signature becomes a GraphDef of fixed shapes with constants for variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla import tf2xla_pb2

from ...errors import UnsupportedModelError
from ...model.frozen_signature import (
    CONFIG,
    GRAPH,
    SIGNATURE,
    STATE,
    FrozenSignature,
    FrozenTensor,
    c_names,
)
from ...model.messages import weights_within_limit
from ...model.shapes import batched_inputs, static_shapes
from ...workers.jobs import FreezeJob
from .. import formats
from .frozen import FrozenGraph, freeze_graph


def run(job: FreezeJob) -> None:
    """Writes the graph, its tf2xla Config and its signature."""
    request, out = job.request, job.out
    loaded = formats.load(
        job.inputs.model, request.reading, request.signature, request.names, request.layers
    )
    shapes = static_shapes(loaded.info, request.shapes, request.batch)
    keep = [provider.name for provider in request.fusions]
    frozen = freeze_graph(
        loaded.graph(shapes, keep),
        shapes,
        keep_state=request.keep_state,
        fusions=request.fusions,
    )
    if frozen.pruned and not request.allow_pruned_inputs:
        raise UnsupportedModelError(
            f"no output depends on the input {' or '.join(map(repr, frozen.pruned))}; set "
            "allow_pruned_inputs: true to leave out of the compiled model what it does not use, or "
            "allow_pruned_inputs: keep to keep it in the interface and ignore its values",
            code="MW413",
        )
    batched = batched_inputs(loaded.info, request.shapes)
    specs = {t.name: tf.TensorSpec(shapes[t.name], t.dtype) for t in loaded.info.inputs}
    keep_pruned = request.allow_pruned_inputs == "keep"
    kept = [t.name for t in loaded.info.inputs if keep_pruned or t.name in frozen.feeds]
    reals = [{t.name: t.real for t in side} for side in (loaded.info.inputs, loaded.info.outputs)]
    inputs = _describe({name: specs[name] for name in kept}, reals[0])
    signature = FrozenSignature(
        key=loaded.info.key,
        batch=request.batch,
        inputs=tuple(tensor for tensor in inputs if tensor.name in frozen.feeds),
        outputs=_describe(frozen.outputs, reals[1]),
        batched_inputs=tuple(name for name in kept if name in batched),
        pruned_inputs=frozen.pruned,
        ignored_inputs=tuple(tensor for tensor in inputs if tensor.name not in frozen.feeds),
        order=tuple(kept),
        ordered_by=loaded.info.ordered_by,
        state=_describe(
            {v.name: tf.TensorSpec(v.value.shape, v.value.dtype) for v in frozen.state}
        ),
        fusions=frozen.fusions,
    )
    _write(out / GRAPH, frozen.graph_def)
    _write(out / CONFIG, _config(frozen, signature))
    (out / STATE).write_bytes(b"".join(variable.value.tobytes() for variable in frozen.state))
    signature.save(out / SIGNATURE)


def _describe(
    specs: Mapping[str, tf.TensorSpec], reals: Mapping[str, str] | None = None
) -> tuple[FrozenTensor, ...]:
    return tuple(
        FrozenTensor(
            name=name,
            c_name=c_name,
            dtype=spec.dtype.name,
            shape=tuple(spec.shape),
            real=(reals or {}).get(name, ""),
        )
        for (name, spec), c_name in zip(specs.items(), c_names(specs), strict=True)
    )


def _config(frozen: FrozenGraph, signature: FrozenSignature) -> Any:
    """The tf2xla Config (tensorflow/compiler/tf2xla/tf2xla.proto) that names inputs and outputs."""
    config = tf2xla_pb2.Config()
    for tensor in signature.inputs:
        feed = config.feed.add(name=tensor.c_name)
        feed.id.node_name = frozen.feeds[tensor.name]
        feed.shape.CopyFrom(tf.TensorShape(tensor.shape).as_proto())
        feed.type = tf.dtypes.as_dtype(tensor.dtype).as_datatype_enum
    for tensor in signature.outputs:
        config.fetch.add(name=tensor.c_name).id.node_name = frozen.fetches[tensor.name]
    for kept, variable in zip(signature.state, frozen.state, strict=True):
        entry = config.variable.add(node_name=variable.node, name=kept.c_name)
        entry.shape.CopyFrom(tf.TensorShape(kept.shape).as_proto())
        entry.type = tf.dtypes.as_dtype(kept.dtype).as_datatype_enum
        entry.readonly = not variable.written
    return config


def _write(path: Path, message: Any) -> None:
    with weights_within_limit():
        # The bytes are part of keys; without `deterministic`, maps are written in any order.
        path.write_bytes(message.SerializeToString(deterministic=True))
