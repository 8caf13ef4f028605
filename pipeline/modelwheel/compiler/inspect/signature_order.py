"""The order of a SavedModel's inputs: that of the arguments of the function that was exported.

A signature is a mapping without an order. TensorFlow 2 makes a wrapper for each, which takes arguments by name
and passes them by position to the function that its author wrote; how that one takes them is stored too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from ...util.words import natural_key
from ..graphs.graphs import node_name

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_WRAPPER = "signature_wrapper"
"""Part of the names of wrappers; of a model that was loaded and saved again, one calls the other."""


class ArgumentOrders:
    """Finds the order of the inputs of a model's signatures."""

    def __init__(self, meta_graph: Any) -> None:
        """`meta_graph` is a MetaGraphDef."""
        self._calls = {n.name: n for n in meta_graph.graph_def.node if n.op in _CALLS}
        self._functions = {f.signature.name: f for f in meta_graph.graph_def.library.function}
        self._objects = meta_graph.object_graph_def

    def of(self, definition: Any) -> tuple[str, ...] | None:
        """The names of a signature's inputs in the order in which the exported function takes them.

        Args:
            definition: A SignatureDef of the model.

        Returns:
            All names; None if no such function is stored, as in models of TensorFlow 1.
        """
        names = {node_name(info.name): name for name, info in definition.inputs.items()}
        fetched = {node_name(info.name) for info in definition.outputs.values()}
        calls = [self._calls[name] for name in fetched if name in self._calls]
        seen: set[str] = set()
        while len(calls) == 1:
            passed = [names.get(node_name(tensor)) for tensor in calls[0].input]
            order = [name for name in passed if name is not None]
            if sorted(order) != sorted(definition.inputs):
                return None
            function = calls[0].attr["f"].func.name
            if _WRAPPER not in function:
                return _by_structure(order, self._objects, function)
            wrapper = self._functions.get(function)
            if wrapper is None or function in seen:
                return None
            seen.add(function)
            arguments = zip(wrapper.signature.input_arg, passed, strict=False)
            names = {argument.name: name for argument, name in arguments if name is not None}
            calls = [n for n in wrapper.node_def if n.op in _CALLS]
        return None


def _by_structure(order: Sequence[str], objects: Any, function: str) -> tuple[str, ...]:
    """The names with those in a dictionary by its keys, whose numbers TensorFlow sorts as text."""
    if function not in objects.concrete_functions:
        return tuple(order)
    structure = objects.concrete_functions[function].canonicalized_input_signature
    places = list(_leaves(structure, count()))
    if sorted(places) != list(range(len(order))):
        return tuple(order)
    return tuple(order[place] for place in places)


def _leaves(structure: Any, numbers: Iterator[int]) -> Iterator[int]:
    """The places of tensors among all arguments, in the order of the structure that they are in."""
    kind = structure.WhichOneof("kind")
    value: Any = getattr(structure, kind) if kind else None
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        yield next(numbers)
    elif kind in ("tuple_value", "list_value"):
        for item in value.values:
            yield from _leaves(item, numbers)
    elif kind == "named_tuple_value":
        for pair in value.values:
            yield from _leaves(pair.value, numbers)
    elif kind == "dict_value":
        yield from _leaves_of_mapping(value.fields, numbers)


def _leaves_of_mapping(fields: Mapping[str, Any], numbers: Iterator[int]) -> Iterator[int]:
    places = {key: list(_leaves(fields[key], numbers)) for key in sorted(fields)}
    for key in sorted(fields, key=natural_key):
        yield from places[key]
