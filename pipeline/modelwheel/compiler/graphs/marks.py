"""The marks of functions: `tf.function(experimental_implements=...)`, and those of Keras 2.

Keras 2 saves LSTM and GRU layers as functions with the attribute `api_implements`, by which TensorFlow would
choose an implementation for GPUs (tensorflow/core/grappler/optimizers/implementation_selector.h).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...model.fusions.registry import AttributeValue

_IMPLEMENTS = "_implements"
_KEPT = ("_noinline", "_nospecialize")
"""Without the second one, results that nothing reads and arguments that are constants would be removed
(tensorflow/core/grappler/optimizers/function_optimizer.cc)."""
_FUSABLE = "tfl_fusable_op"
"""TensorFlow Lite's own attribute of a mark, which says nothing about the interface."""
_API_IMPLEMENTS = "api_implements"
_LAYER = re.compile(r"(lstm|gru)_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LAYER_ATTRIBUTES = ("go_backwards", "time_major")


class Mark(NamedTuple):
    """The operation that a function says it implements."""

    name: str
    """Empty if it says nothing."""
    attributes: Mapping[str, AttributeValue | None]
    """By name; None for a value of another kind."""


def mark_of(function: Any) -> Mark:
    """The mark of a FunctionDef: a name alone, or a name with attributes."""
    if _IMPLEMENTS not in function.attr:
        return _layer_of(function)
    value = function.attr[_IMPLEMENTS]
    if value.WhichOneof("value") == "func":
        attributes = value.func.attr.items()
        return Mark(value.func.name, {n: _value(a) for n, a in attributes if n != _FUSABLE})
    return Mark(value.s.decode("utf-8", "replace"), {})


def _layer_of(function: Any) -> Mark:
    """The mark of a layer of Keras 2: `keras.lstm` or `keras.gru`."""
    value = function.attr[_API_IMPLEMENTS].s if _API_IMPLEMENTS in function.attr else b""
    layer = _LAYER.fullmatch(value.decode("utf-8", "replace"))
    if layer is None:
        return Mark("", {})
    names = [name for name in _LAYER_ATTRIBUTES if name in function.attr]
    return Mark(f"keras.{layer[1]}", {name: _value(function.attr[name]) for name in names})


def _value(attribute: Any) -> AttributeValue | None:
    """The value of an AttrValue (tensorflow/core/framework/attr_value.proto)."""
    kind = attribute.WhichOneof("value")
    if kind == "s":
        return str(attribute.s.decode("utf-8", "replace"))
    value: AttributeValue | None = getattr(attribute, kind) if kind in ("b", "i", "f") else None
    return value


def keep_calls(library: Any, names: Collection[str]) -> None:
    """Makes TensorFlow leave calls of functions with these marks as they are, instead of inlining them."""
    for function in library.function:
        mark = mark_of(function)
        if mark.name not in names:
            continue
        for name in _KEPT:
            function.attr[name].b = True
        if _IMPLEMENTS not in function.attr:  # TensorFlow's conversion removes the mark of a layer
            reference = function.attr[_IMPLEMENTS].func
            reference.name = mark.name
            for attribute in mark.attributes:
                reference.attr[attribute].CopyFrom(function.attr[attribute])


@contextmanager
def calls_kept(graph: Any, names: Collection[str]) -> Iterator[None]:
    """Within it, what a graph of TensorFlow is converted to keeps calls of functions with these marks."""
    convert = graph.as_graph_def

    def as_graph_def(*args: Any, **kwargs: Any) -> Any:
        graph_def = convert(*args, **kwargs)
        keep_calls(graph_def.library, names)
        return graph_def

    # TensorFlow's conversion takes a function and calls this itself, without a way to give it more.
    graph.as_graph_def = as_graph_def
    try:
        yield
    finally:
        del graph.as_graph_def
