"""Judging configurations of Keras: harmless ones pass, and whatever could run code is named."""

from __future__ import annotations

from typing import Any

import pytest

from modelwheel.compiler.worker.keras_file import KerasFile, judge_config
from modelwheel.errors import UnsupportedModelError

_KNOWN = frozenset(
    {"Dense", "Functional", "Sequential", "GlorotUniform", "InputLayer", "TFOpLambda"}
)


def layer(class_name: str, module: str | None = "keras.layers", **fields: Any) -> dict[str, Any]:
    """One object of a configuration; without `module`, as Keras 2 wrote it."""
    described = {"class_name": class_name, "config": {"name": "first"}, **fields}
    return described if module is None else {**described, "module": module}


def model(*layers: Any) -> dict[str, Any]:
    """A model of these layers, inside another one."""
    inner = {"class_name": "Sequential", "config": {"name": "inner", "layers": list(layers)}}
    return {"class_name": "Functional", "config": {"name": "model", "layers": [inner]}}


HARMLESS = {
    "a layer of Keras 3": layer("Dense"),
    "a layer of Keras 2": layer("Dense", None),
    "an initializer": layer(
        "Dense",
        config={
            "kernel_initializer": {"class_name": "GlorotUniform", "module": "keras.initializers"}
        },
    ),
    "an activation": layer(
        "Dense",
        config={
            "activation": {
                "module": "keras.activations",
                "class_name": "function",
                "config": "relu",
                "registered_name": "relu",
            }
        },
    ),
    "an operation": layer("Tanh", "keras.src.ops.numpy", registered_name="Tanh"),
    "a tensor": layer("Dense", args=[{"class_name": "__keras_tensor__", "config": {"shape": [1]}}]),
    "a value": layer("Dense", config={"name": "a", "x": {"class_name": "__numpy__", "config": {}}}),
    "a function of TensorFlow": layer("TFOpLambda", None, config={"function": "math.square"}),
    "training": {
        **layer("Dense"),
        "compile_config": {"loss": {"class_name": "Mine", "module": "a"}},
    },
}


@pytest.mark.parametrize("described", HARMLESS.values(), ids=HARMLESS)
def test_harmless_configurations_pass(described: dict[str, Any]) -> None:
    judge_config(model(described), _KNOWN.__contains__)


REFUSED = {
    "Lambda": (layer("Lambda"), "the layer 'first' is a Lambda, which holds Python code"),
    "Lambda of Keras 2": (layer("Lambda", None), "is a Lambda, which holds Python code"),
    "a lambda as argument": (
        layer("Dense", config={"name": "a", "activation": {"class_name": "__lambda__"}}),
        "the layer 'a' is a function that holds Python code",
    ),
    "another file": (layer("TFSMLayer"), "is a TFSMLayer, which reads another model"),
    "pickled code": (layer("TorchModuleWrapper"), "holds Python code"),
    "another module": (layer("system", "os"), "is of the class system, whose Python code"),
    "a module that begins alike": (layer("Dense", "kerasx.layers"), "is of the class Dense"),
    "a function of keras.utils": (layer("get_file", "keras.utils"), "is of the class get_file"),
    "a class at the top": (layer("Model2", "keras"), "is of the class Model2"),
    "a registered class": (layer("Dense", registered_name="mine>Dense"), "is of the class Dense"),
    "a registered class of Keras 2": (layer("Custom>Dense", None), "is of the class Custom>Dense"),
    "an unknown class": (layer("Mine", None), "is of the class Mine"),
    "a function of somebody": (
        layer(
            "Dense", config={"a": {"class_name": "function", "module": "os", "config": "system"}}
        ),
        "uses the function system",
    ),
    "a function that writes": (
        layer("TFOpLambda", None, config={"function": "io.write_file"}),
        "calls tf.io.write_file, which is not on the list",
    ),
}


@pytest.mark.parametrize(("described", "words"), REFUSED.values(), ids=REFUSED)
def test_what_could_run_code_is_refused(described: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        judge_config(model(layer("Dense"), described), _KNOWN.__contains__)
    assert words in str(caught.value)
    assert str(caught.value).endswith("save it with model.export(DIRECTORY), as a SavedModel")


def declared(config: dict[str, Any]) -> Any:
    """The shapes of inputs that a file declares."""
    return KerasFile(config, "2.1", ()).input_shapes()


def test_shapes_of_inputs_are_read_from_the_configuration() -> None:
    shape = {"batch_input_shape": [None, 4]}
    first = {"class_name": "InputLayer", "config": {"name": "a", **shape}}
    second = {"class_name": "InputLayer", "config": {"name": "b", "batch_shape": [2, None]}}
    functional = {
        "layers": [second, layer("Dense"), first],
        "input_layers": [["a", 0, 0], ["b", 0, 0]],
    }
    expected = {"a": (None, 4), "b": (2, None)}
    assert declared({"config": functional}) == expected
    assert declared({"config": {**functional, "input_layers": {"x": ["b", 0, 0]}}}) == {
        "b": (2, None)
    }
    # The first versions of Keras wrote the layers of a Sequential as a list.
    assert declared({"config": [first]}) == {"a": (None, 4)}
    assert declared(model(first)) == {"a": (None, 4)}
    assert declared(model(layer("Dense"))) is None
    assert declared({"config": {**functional, "input_layers": [["c", 0, 0]]}}) is None


@pytest.mark.parametrize(
    ("version", "old"), [("3.15.1", False), ("2.21.0", True), ("2.1.6-tf", True), ("", True)]
)
def test_the_keras_that_wrote_a_file(version: str, *, old: bool) -> None:
    assert KerasFile({}, version, ()).is_keras_2 is old
