"""Names the layers of a model that most likely take the time and the memory, when a job has a limit too few."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tensorflow.core.framework import graph_pb2

from ..workers.jobs import GraphJob, InspectJob, Job, SupportedJob
from .formats.graph_def.graph_files import read_graph_def
from .graphs.graphs import Graph, layer_name
from .inspect.meta_graph import read_meta_graph

_NAMED = 3
_LOOPS = frozenset({"While", "StatelessWhile", "For", "NextIteration", "Case"})

_LIGHT = frozenset({"Identity", "NoOp", "Placeholder", "ReadVariableOp", "VarHandleOp"})


def find(job: Job) -> tuple[str, ...]:
    """Layers with loops, then those with the largest shapes, then those with the most nodes."""
    loops: dict[str, bool] = defaultdict(bool)
    elements: dict[str, int] = defaultdict(int)
    nodes: dict[str, int] = defaultdict(int)
    for node in _nodes(job):
        if node.op in _LIGHT:
            continue
        layer = layer_name(node.name)
        loops[layer] |= node.op in _LOOPS
        elements[layer] = max(elements[layer], *_sizes(node), 0)
        nodes[layer] += 1
    ranked = sorted(nodes, key=lambda layer: (loops[layer], elements[layer], nodes[layer]))
    return tuple(ranked[: -_NAMED - 1 : -1])


def _nodes(job: Job) -> Iterator[Any]:
    if isinstance(job, GraphJob):
        graph_def = graph_pb2.GraphDef.FromString(job.inputs.graph.read_bytes())
    elif isinstance(
        job, (InspectJob, SupportedJob)
    ):  # what reading takes long for, nothing here reads sooner
        return
    else:
        reading = job.request.reading
        if reading.format == "saved_model":
            graph_def = read_meta_graph(job.inputs.model, reading.tags).graph_def
        elif reading.format == "graph_def":
            graph_def = read_graph_def(job.inputs.model / reading.file)
        else:
            return
    for nodes in Graph(graph_def).nodes.values():
        yield from nodes.values()


def _sizes(node: Any) -> Iterator[int]:
    """Elements of the shapes that a node names: of its constant and of its outputs."""
    for attribute in node.attr.values():
        shapes = (attribute.shape, attribute.tensor.tensor_shape, *attribute.list.shape)
        for shape in shapes:
            yield math.prod(dimension.size for dimension in shape.dim if dimension.size > 0)
