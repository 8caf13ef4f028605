"""Layers of Keras that work on texts, which machine code has none of: how to export the part behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TEXT_LAYERS = {
    **dict.fromkeys(
        ("IntegerLookup", "StringLookup", "TextVectorization"), "looks values up in tables"
    ),
    **dict.fromkeys(("HashedCrossing", "Hashing"), "hashes values as texts"),
}


def text_problem(config: Mapping[str, Any]) -> str:
    """The problem of a model that has such layers, with the code that saves the rest; empty if it has none.

    Args:
        config: The model, as JSON.
    """
    layers = _layers(config)
    text_layers = [layer for layer in layers if layer.get("class_name") in _TEXT_LAYERS]
    if not text_layers:
        inner = next((inner for layer in layers if (inner := text_problem(layer))), "")
        return inner and f"{inner.partition(';')[0]}; {_INNER_FIX}"
    kind = text_layers[0]["class_name"]
    clause = f"the layer {_name(text_layers[0])!r} is a {kind}, which {_TEXT_LAYERS[kind]}"
    code = _sequential(layers) if config.get("class_name") == "Sequential" else _functional(layers)
    return (
        f"{clause}; compile the part behind it, which two lines save where the model is, and give it what "
        f"the layer returns: {code}"
    )


_INNER_FIX = (
    "compile the part behind it: make a model of the layers that follow, with an Input for what it returns, and "
    "save that"
)


def _functional(layers: list[Any]) -> str:
    """Lines that make a model whose inputs are the results of text layers, and all other inputs."""
    text = [_name(layer) for layer in layers if layer.get("class_name") in _TEXT_LAYERS]
    reads = {_name(layer): set(_reads(layer.get("inbound_nodes"))) for layer in layers}
    behind = {name for layer, names in reads.items() if layer not in text for name in names}
    inputs = [_name(layer) for layer in layers if layer.get("class_name") == "InputLayer"]
    names = [name for name in (*text, *inputs) if name in behind]
    return (
        f"`parts = {{name: model.get_layer(name).output for name in {names}}}` and "
        "`keras.Model(parts, model.outputs).save('numeric.keras')`"
    )


def _sequential(layers: list[Any]) -> str:
    kinds = [layer.get("class_name") for layer in layers if layer.get("class_name") != "InputLayer"]
    first = next(number for number, kind in enumerate(kinds) if kind in _TEXT_LAYERS)
    text = f"model.layers[{first}].output"
    name = next(_name(layer) for layer in layers if layer.get("class_name") in _TEXT_LAYERS)
    return (
        f"`text = {text}` and "
        f"`keras.Sequential([keras.Input(text.shape[1:], dtype=text.dtype, name={name!r}), "
        f"*model.layers[{first + 1}:]]).save('numeric.keras')`"
    )


def _layers(model: Any) -> list[Any]:
    """The layers of a model; the first versions of Keras wrote those of a Sequential as a list."""
    config = model.get("config") if isinstance(model, dict) else None
    layers = config.get("layers") if isinstance(config, dict) else config
    return (
        [layer for layer in layers if isinstance(layer, dict)] if isinstance(layers, list) else []
    )


def _name(layer: Any) -> str:
    config = layer.get("config")
    return str(config.get("name", "")) if isinstance(config, dict) else ""


def _reads(value: Any) -> Iterator[str]:
    """The layers whose results a layer is called with, as Keras 2 (`["x", 0, 0, {}]`) and 3 write them."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _reads(item)
    elif isinstance(value, list):
        if len(value) >= 3 and isinstance(value[0], str) and isinstance(value[1], int):
            yield value[0]
        for item in value:
            yield from _reads(item)
