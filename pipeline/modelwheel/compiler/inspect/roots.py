"""Where running begins in a SavedModel: what TensorFlow runs to load it, and to evaluate a signature.

These follow `tf.saved_model.load`, not only the SignatureDefs: a model with an object graph is loaded
from its objects (tensorflow/python/saved_model/load.py), others from the graph (load_v1_in_v2.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.framework import variable_pb2

from ...errors import UnsupportedModelError
from ..graphs.bodies import Library, Roots
from ..graphs.graphs import GRAPH, node_name

INIT_SIGNATURE = "__saved_model_init_op"
_COLLECTIONS = ("saved_model_main_op", "legacy_init_op", "table_initializer")
_RESOURCE_METHODS = ("_create_resource", "_initialize", "_destroy_resource")
_PASSES_ON = frozenset({"Identity", "PlaceholderWithDefault"})


def has_objects(saved_model: Any, meta_graph: Any) -> bool:
    """Whether TensorFlow loads the objects of the model, not its graph."""
    return len(saved_model.meta_graphs) == 1 and meta_graph.HasField("object_graph_def")


def signature_roots(meta_graph: Any, key: str, *, objects: bool) -> Roots:
    """Where a signature's evaluation begins.

    Raises:
        UnsupportedModelError: The objects do not have the signature.
    """
    tensors = tuple(tensor_names(meta_graph.signature_def[key].outputs.values()))
    if not objects:
        return Roots(tensors)
    functions = [
        function
        for signatures in _children(meta_graph, 0, "signatures")
        for signature in _children(meta_graph, signatures, key)
        for function in _functions(meta_graph, signature)
    ]
    if not functions:
        raise UnsupportedModelError(
            f"the model is damaged: its objects have no signature {key!r}; export it again",
            code="MW416",
        )
    return Roots(tensors, tuple(functions))


def loading_roots(meta_graph: Any, *, objects: bool) -> Roots:
    """The nodes that run when the model is loaded."""
    if objects:
        return Roots(functions=tuple(dict.fromkeys(_loading_functions(meta_graph))))
    # A protobuf map adds an empty entry for a missing key.
    tensors = list(tensor_names(meta_graph.signature_def[INIT_SIGNATURE].outputs.values()))
    for collection in _COLLECTIONS:
        tensors += meta_graph.collection_def[collection].node_list.value
    tensors += _initializers(meta_graph)
    saver = meta_graph.saver_def
    tensors += filter(None, (saver.restore_op_name, saver.filename_tensor_name))
    return Roots(tuple(tensors))


def tensor_names(infos: Iterable[Any]) -> Iterator[str]:
    """The names of all tensors in TensorInfo messages."""
    for info in infos:
        if info.name:
            yield info.name
        # Sparse and composite tensors have no name of their own, only their parts do.
        sparse = info.coo_sparse
        names = (sparse.values_tensor_name, sparse.indices_tensor_name)
        yield from (name for name in (*names, sparse.dense_shape_tensor_name) if name)
        yield from tensor_names(info.composite_tensor.components)


def restores_checkpoint(meta_graph: Any, library: Library, function: str, number: int) -> bool:
    """Whether a RestoreV2 reads the model's own variables: its prefix is the one that TensorFlow passes.

    That is the saver's file name in a graph, and an argument in a function.
    """
    body = library.bodies[function]
    tensor = body.tensors[number][0] if body.tensors[number] else ""
    saver = node_name(meta_graph.saver_def.filename_tensor_name)
    while tensor:
        name = node_name(tensor)
        if function != GRAPH and name in body.arguments:
            return True
        if function == GRAPH and name == saver:
            return True
        position = body.index.get(name)
        if position is None or body.ops[position] not in _PASSES_ON:
            return False
        tensor = body.tensors[position][0] if body.tensors[position] else ""
    return False


def _children(meta_graph: Any, node: int, name: str) -> Iterator[int]:
    nodes = meta_graph.object_graph_def.nodes
    if node < len(nodes):
        for child in nodes[node].children:
            if child.local_name == name and 0 <= child.node_id < len(nodes):
                yield child.node_id


def _functions(meta_graph: Any, node: int) -> Iterator[str]:
    item = meta_graph.object_graph_def.nodes[node]
    if item.HasField("bare_concrete_function"):
        yield item.bare_concrete_function.concrete_function_name
    yield from item.function.concrete_functions


def _loading_functions(meta_graph: Any) -> Iterator[str]:
    nodes = meta_graph.object_graph_def.nodes
    for number, item in enumerate(nodes):
        for method in _RESOURCE_METHODS:
            for child in _children(meta_graph, number, method):
                yield from _functions(meta_graph, child)
        for saveable in item.saveable_objects.values():
            if 0 <= saveable.restore_function < len(nodes):
                yield from _functions(meta_graph, saveable.restore_function)


def _initializers(meta_graph: Any) -> Iterator[str]:
    """The initialisers of local variables, which TensorFlow runs if the model names nothing else."""
    for data in meta_graph.collection_def["local_variables"].bytes_list.value:
        try:
            yield variable_pb2.VariableDef.FromString(data).initializer_name
        except DecodeError:
            continue
