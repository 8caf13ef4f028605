"""Variables of a GraphDef and their values: from a checkpoint, or what the graph initialises them to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from ....errors import UnsupportedModelError
from ....model.inspection import Shape
from ....util.text import one_line
from ...graphs.graph_tensors import declared_shape
from ...graphs.graphs import node_name
from ...graphs.kernels import type_name
from .checkpoints import Checkpoint
from .graph_binding import make_constant
from .graph_interface import ConfigVariable

_REFERENCES = frozenset({"Variable", "VariableV2"})
"""TensorFlow 1's first kind of variables, whose readers see the memory itself."""
_ASSIGNS = frozenset({"Assign", "AssignVariableOp"})
_RESTORES = frozenset({"RestoreV2", "RestoreSlice", "Restore"})
_PASSES_ON = frozenset({"Identity", "Enter"})
_MAX_ELEMENTS = 1 << 29
"""Of an initial value: a message of a few bytes may stand for an array of any size."""


@dataclass(frozen=True)
class Values:
    """Where the values of a graph's variables are, read from the graph as it was saved.

    It must be made before the graph is pruned to what outputs need.
    """

    checkpoint: Checkpoint | None
    keys: Mapping[str, str]
    """Names in the checkpoint by the nodes of variables, as the graph's own restoring has them."""
    initial: Mapping[str, Any]
    """TensorProtos by the nodes of variables that the graph initialises by constants."""
    declared: Mapping[str, ConfigVariable]
    only_restored: bool = False
    """Whether a saver was named: what it does not restore has no value."""

    def of(self, node: Any) -> np.ndarray[Any, Any]:
        """The value of a variable.

        Raises:
            UnsupportedModelError: There is none, or it is of another type or shape than the variable.
        """
        value = self._find(node)
        dtype = tf.dtypes.as_dtype(node.attr["dtype"].type)
        shape = declared_shape(node, 0, 0)
        if value.dtype != dtype.as_numpy_dtype or not _fits(value.shape, shape):
            raise UnsupportedModelError(
                f"the variable {node.name!r} is {dtype.name} of shape {list(shape or ())}, but its value in "
                f"{'the checkpoint' if self.checkpoint else 'the graph'} is {value.dtype} of shape "
                f"{list(value.shape)}"
            )
        return value

    def _find(self, node: Any) -> np.ndarray[Any, Any]:
        if self.checkpoint is not None:
            shared = node.attr["shared_name"].s.decode("utf-8", "replace")
            if self.only_restored and node.name not in self.keys:
                raise UnsupportedModelError(
                    f"the saver of source.freeze_saver does not restore the variable {node.name!r}; name one that "
                    "restores all variables, or remove freeze_saver"
                )
            key = self.keys.get(node.name, node.name)
            if key not in self.checkpoint.shapes and shared in self.checkpoint.shapes:
                key = shared
            return self.checkpoint.value(key)
        if node.name in self.initial:
            tensor = self.initial[node.name]
            elements = prod(max(dim.size, 0) for dim in tensor.tensor_shape.dim)
            try:
                if elements > _MAX_ELEMENTS:
                    raise ValueError(f"it has {elements} elements")
                return np.asarray(tf.make_ndarray(tensor))
            except (TypeError, ValueError) as error:
                raise UnsupportedModelError(
                    f"the initial value of the variable {node.name!r} is damaged ({one_line(error)})",
                    code="MW416",
                ) from error
        declared = self.declared.get(node.name)
        shape = None if declared is None else declared.shape
        if declared is None or declared.readonly or shape is None or None in shape:
            raise UnsupportedModelError(
                f"the variable {node.name!r} has no value: the graph does not initialise it by a "
                "constant; name a checkpoint in source.checkpoint"
            )
        # tfcompile leaves such variables to its users, who set them before the first call.
        return np.zeros([extent or 0 for extent in shape], _numpy_type(node))


def read_values(
    graph_def: Any,
    directory: Path,
    prefix: str,
    declared: tuple[ConfigVariable, ...],
    saver: Any = None,
) -> Values:
    """Finds what the variables of a graph hold.

    Args:
        graph_def: As it was saved.
        directory: Of the model.
        prefix: Of the checkpoint; empty if there is none.
        declared: The variables of the Config.
        saver: A SaverDef, whose restoring alone counts; None if all of the graph's does.

    Raises:
        UnsupportedModelError: The checkpoint cannot be read, a variable of the Config is not one, or the graph has no
            such saver.
    """
    nodes = {node.name: node for node in graph_def.node}
    for variable in declared:
        node = nodes[variable.node]
        if node.op not in ("VarHandleOp", *_REFERENCES):
            raise UnsupportedModelError(
                f"source.config: the variable {variable.node!r} is a node {one_line(node.op)}, "
                "not a variable"
            )
        dtype = node.attr["dtype"].type
        if variable.dtype not in (0, dtype):
            raise UnsupportedModelError(
                f"source.config: the variable {variable.node!r} is {type_name(dtype)}, not "
                f"{type_name(variable.dtype)}"
            )
    keys, initial = {}, {}
    restoring = nodes.keys() if saver is None else _restoring(nodes, saver)
    for variable_name, value, source in _assignments(nodes):
        if source.op in _RESTORES:
            if value.assign not in restoring:
                continue
            keys[variable_name] = _restored_name(nodes, source, value)
        elif source.op == "Const" and value.assign == f"{variable_name}/Assign":
            initial[variable_name] = source.attr["value"].tensor
    return Values(
        Checkpoint(directory, prefix) if prefix else None,
        {variable: key for variable, key in keys.items() if key},
        initial,
        {variable.node: variable for variable in declared},
        saver is not None,
    )


def _restoring(nodes: Mapping[str, Any], saver: Any) -> Collection[str]:
    """The names of the nodes that a saver runs to restore variables."""
    for field in ("restore_op_name", "filename_tensor_name"):
        name = node_name(getattr(saver, field))
        if name not in nodes:
            raise UnsupportedModelError(
                f"source.freeze_saver: its {field} is {one_line(name)!r}, which the graph does not have; name the "
                "saver that was made with this graph"
            )
    variables: set[str] = set()
    waiting = [node_name(saver.restore_op_name)]
    while waiting:
        name = waiting.pop()
        if name not in variables and name in nodes:
            variables.add(name)
            waiting += map(node_name, nodes[name].input)
    return variables


@dataclass(frozen=True)
class _Value:
    assign: str
    index: int
    """Of the output of the node that the value comes from."""


def _assignments(nodes: Mapping[str, Any]) -> Iterator[tuple[str, _Value, Any]]:
    """Each variable that is assigned to, with the node that the value comes from."""
    for name, node in nodes.items():
        if node.op in _ASSIGNS and len(node.input) > 1:
            variable, value = _source(nodes, node.input[0]), _source(nodes, node.input[1])
            if variable is not None and value is not None:
                yield variable[0].name, _Value(name, value[1]), value[0]


def _source(nodes: Mapping[str, Any], tensor: str) -> tuple[Any, int] | None:
    """The node and the output that a tensor is, through identities."""
    for _ in nodes:  # a damaged graph may have a circle of identities
        node = nodes.get(node_name(tensor))
        if node is None:
            return None
        if node.op not in _PASSES_ON or not node.input:
            index = tensor.partition(":")[2]
            return node, int(index) if index.isdecimal() else 0
        tensor = node.input[0]
    return None


def _restored_name(nodes: Mapping[str, Any], restore: Any, value: _Value) -> str:
    """The name in the checkpoint that a node restores; empty if it is not a constant."""
    names = _source(nodes, restore.input[1]) if len(restore.input) > 1 else None
    if names is None or names[0].op != "Const":
        return ""
    texts = names[0].attr["value"].tensor.string_val
    index = value.index if restore.op == "RestoreV2" else 0
    return texts[index].decode("utf-8", "replace") if index < len(texts) else ""


def replace_references(graph_def: Any, values: Values) -> None:
    """Replaces variables of TensorFlow 1's first kind by constants, in place, if nothing writes them.

    Those that are written stay: such a model is refused for what the writing operations do.

    Raises:
        UnsupportedModelError: The value of one is not known.
    """
    readers: dict[str, list[Any]] = {}
    for node in graph_def.node:
        for tensor in node.input:
            readers.setdefault(node_name(tensor), []).append(node)
    for node in graph_def.node:
        if node.op in _REFERENCES and not any(map(_writes, readers.get(node.name, ()))):
            make_constant(node, values.of(node))


def _writes(node: Any) -> bool:
    definition = op_def_registry.get(node.op)
    return definition is None or any(argument.is_ref for argument in definition.input_arg)


def resources(graph_def: Any) -> list[Any]:
    """The nodes that are variables of TensorFlow's second kind."""
    return [node for node in graph_def.node if node.op == "VarHandleOp"]


def _fits(extents: tuple[int, ...], declared: Shape | None) -> bool:
    return declared is None or (
        len(extents) == len(declared)
        and all(wanted in (None, extent) for extent, wanted in zip(extents, declared, strict=True))
    )


def _numpy_type(node: Any) -> Any:
    return tf.dtypes.as_dtype(node.attr["dtype"].type).as_numpy_dtype
