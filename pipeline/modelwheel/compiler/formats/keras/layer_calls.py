"""Names and marks the calls of layers of Keras 3, whose graphs do not say where a layer begins and ends.

While a model is traced, operations have the names of their layers, and a layer of a class that a fusion wants calls a marked
function of its inputs and weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from ....model.fusions.registry import LAYERS

_RECURRENT = {"LSTM": 2, "GRU": 1}
"""How many states a layer has whose mark has the interface of Keras 2: see `fusions.keras_layers`."""


def mark_name(layer: Any) -> str:
    """The name that fusions know a layer by."""
    return f"{LAYERS}{type(layer).__name__.lower()}"


def layers_by_mark(model: Any) -> dict[str, int]:
    """How many layers of a model of Keras 3 can be marked, by the names of marks."""
    layers = model._flatten_layers(include_self=False)
    return dict(Counter(mark_name(layer) for layer in layers if _can_be_marked(layer)))


def _can_be_marked(layer: Any) -> bool:
    """Whether a layer computes what the interface of its mark says."""
    if type(layer).__name__ not in _RECURRENT:
        return bool(layer.built)
    activations = (layer.activation.__name__, layer.recurrent_activation.__name__)
    usual = activations == ("tanh", "sigmoid") and layer.use_bias and not layer.stateful
    return bool(usual and getattr(layer, "reset_after", True))


@contextmanager
def calls_marked(keras: Any, model: Any, names: Collection[str]) -> Iterator[None]:
    """Within it, calls of layers are calls of functions that are marked with these names."""
    layers = [
        layer
        for layer in model._flatten_layers(include_self=False)
        if mark_name(layer) in names and _can_be_marked(layer)
    ]
    for layer in layers:
        recurrent = type(layer).__name__ in _RECURRENT
        call = _recurrent_call(keras, layer) if recurrent else _call(keras, layer)
        object.__setattr__(layer, "call", call)  # Keras would track it as part of the layer
    try:
        yield
    finally:
        for layer in layers:
            object.__delattr__(layer, "call")


@contextmanager
def layers_named(model: Any) -> Iterator[None]:
    """Within it, operations are named by the layers that they are in: `net/dense/MatMul`.

    Keras opens a scope before it builds a layer and another one before it calls it, which TensorFlow numbers: the operations
    of `dense` are called `dense_1`, which may be the name of another layer.
    """
    layers = list(model._flatten_layers()) if hasattr(model, "_open_name_scope") else []
    for layer in layers:
        object.__setattr__(layer, "_open_name_scope", partial(_scope, layer.name))
    try:
        yield
    finally:
        for layer in layers:
            object.__delattr__(layer, "_open_name_scope")


def _scope(name: str) -> Any:
    # With `/` at the end, TensorFlow takes the name as it is.
    outer = tf.get_current_name_scope()
    return tf.name_scope(f"{outer}/{name}/" if outer else f"{name}/")


def _function(keras: Any, layer: Any, attributes: Mapping[str, Any], body: Any) -> Any:
    """A marked function of tensors and the weights of a layer."""
    text = "".join(f" {_attribute(name, value)}" for name, value in sorted(attributes.items()))
    weights = list(layer.weights)

    def call(*tensors: Any) -> Any:
        pairs = list(zip(weights, tensors[-len(weights) :] if weights else (), strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            results = body(*tensors[: len(tensors) - len(weights)])
        return tf.nest.map_structure(tf.identity, results)

    mark = f'name: "{mark_name(layer)}"{text}'
    marked = tf.function(call, experimental_implements=mark, autograph=False)
    return lambda *tensors: marked(*tensors, *(tf.identity(weight.value) for weight in weights))


def _attribute(name: str, value: Any) -> str:
    kind, text = "s", f'"{value}"'
    if isinstance(value, bool):
        kind, text = "b", str(value).lower()
    elif isinstance(value, (int, float)):
        kind, text = ("i" if isinstance(value, int) else "f"), str(value)
    return f'attr {{ key: "{name}" value {{ {kind}: {text} }} }}'


def _call(keras: Any, layer: Any) -> Callable[..., Any]:
    """Calls a function of all tensors that the layer is called with; its settings are attributes."""
    original = layer.call
    settings = {
        name: value
        for name, value in layer.get_config().items()
        if isinstance(value, (bool, int, float))
        or (isinstance(value, str) and value.isidentifier())
    }

    def call(*args: Any, **kwargs: Any) -> Any:
        flat = tf.nest.flatten((args, kwargs))
        places = [number for number, item in enumerate(flat) if tf.is_tensor(item)]

        def body(*tensors: Any) -> Any:
            values = list(flat)
            for place, tensor in zip(places, tensors, strict=True):
                values[place] = tensor
            positional, named = tf.nest.pack_sequence_as((args, kwargs), values)
            return original(*positional, **named)

        return _function(keras, layer, settings, body)(*(flat[place] for place in places))

    return call


def _recurrent_call(keras: Any, layer: Any) -> Callable[..., Any]:
    """Calls a function of the inputs and the states, as Keras 2 writes it."""
    original, states = layer.call, _RECURRENT[type(layer).__name__]

    def body(x: Any, *initial: Any) -> list[Any]:
        before = layer.return_sequences, layer.return_state
        layer.return_sequences = layer.return_state = True
        try:
            outputs, *last = original(x, initial_state=list(initial), training=False)
        finally:
            layer.return_sequences, layer.return_state = before
        # As Keras 2 says where the function ran.
        return [last[0], outputs, *last, tf.constant(1.0)]

    def call(sequences: Any, initial_state: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        if mask is not None:
            return original(sequences, initial_state=initial_state, mask=mask, **kwargs)
        initial = initial_state
        if initial is None:
            zeros = tf.zeros([tf.shape(sequences)[0], layer.units], sequences.dtype)
            initial = [zeros] * states
        order = {"go_backwards": bool(layer.go_backwards)}
        flat: Sequence[Any] = tf.nest.flatten(initial)
        last, outputs, *state, _ = _function(keras, layer, order, body)(sequences, *flat)
        result = outputs if layer.return_sequences else last
        return (result, *state) if layer.return_state else result

    return call
