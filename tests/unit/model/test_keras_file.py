"""Judging configurations of Keras: harmless ones pass, and whatever could run code is named."""

from __future__ import annotations

from typing import Any

import pytest

from modelwheel.compiler.formats.keras.keras_versions import differs
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.keras.keras_file import KerasFile, judge_config, without_training

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


def model_of(*layers: Any, kind: str = "Functional") -> dict[str, Any]:
    """A model of these layers."""
    return {"class_name": kind, "config": {"name": "model", "layers": list(layers)}}


def tensor(name: str) -> dict[str, Any]:
    """The result of a layer, as Keras 3 writes it."""
    return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}


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
    "training": without_training(
        {**layer("Dense"), "compile_config": {"loss": {"class_name": "Mine", "module": "a"}}}
    ),
}


@pytest.mark.parametrize("described", HARMLESS.values(), ids=HARMLESS)
def test_harmless_configurations_pass(described: dict[str, Any]) -> None:
    judge_config(model(described), _KNOWN.__contains__)


REFUSED = {
    "training": (
        {**layer("Dense"), "compile_config": {"loss": layer("Lambda")}},
        "is a Lambda, which holds Python code",
    ),
    "what only looks like training": (
        without_training(
            layer("Dense", config={"name": "a", "x": {"compile_config": layer("Lambda")}})
        ),
        "is a Lambda, which holds Python code",
    ),
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
    "a function of somebody's module": (
        layer("TFOpLambda", "os", config={"function": "math.square"}),
        "is of the class TFOpLambda, whose Python code",
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
    assert str(caught.value).endswith("save it by model.export(DIRECTORY), as a SavedModel")


TEXTS = {
    "functional": (
        model_of(
            layer("InputLayer", config={"name": "x"}),
            layer("InputLayer", config={"name": "y"}),
            layer("StringLookup", config={"name": "ids"}, inbound_nodes=[[["x", 0, 0, {}]]]),
            layer("Add", inbound_nodes=[[["ids", 0, 0, {}], ["y", 0, 0, {}]]]),
        ),
        "the layer 'ids' is a StringLookup, which looks values up in tables; compile the part behind",
        "for name in ['ids', 'y']}` and `keras.Model(parts, model.outputs).save('numeric.keras')`",
    ),
    "functional, Keras 3": (
        model_of(
            layer("InputLayer", config={"name": "x"}),
            layer("Hashing", config={"name": "ids"}, inbound_nodes=[{"args": [tensor("x")]}]),
            layer("Dense", inbound_nodes=[{"args": [[tensor("ids"), tensor("x")]]}]),
        ),
        "the layer 'ids' is a Hashing, which hashes values as texts; compile the part behind it",
        "model.get_layer(name).output for name in ['ids', 'x']}`",
    ),
    "sequential": (
        model_of(layer("TextVectorization"), layer("Dense"), kind="Sequential"),
        "the layer 'first' is a TextVectorization, which looks values up in tables; compile",
        (
            "`text = model.layers[0].output` and `keras.Sequential([keras.Input(text.shape[1:], "
            "dtype=text.dtype, name='first'), *model.layers[1:]]).save('numeric.keras')`"
        ),
    ),
    "inside": (
        model(layer("TextVectorization")),
        "the layer 'first' is a TextVectorization, which looks values up in tables; compile",
        "make a model of the layers that follow",
    ),
}


@pytest.mark.parametrize(("described", "words", "code"), TEXTS.values(), ids=TEXTS)
def test_layers_of_texts_are_refused_with_code(
    described: dict[str, Any], words: str, code: str
) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        judge_config(described, lambda _: True)
    assert str(caught.value).startswith(words)
    assert code in str(caught.value)
    assert "\n" not in str(caught.value)


def of_keras_2(**config: Any) -> dict[str, Any]:
    """A model of Keras 2 of one layer."""
    return model(layer("Dense", config={"name": "first", "activation": "relu", **config}))


@pytest.mark.parametrize(
    ("described", "other"),
    [
        (of_keras_2(), False),
        (of_keras_2(kernel_initializer={"class_name": "Mine"}, dtype="float32"), False),
        (of_keras_2(dtype={"class_name": "Policy", "config": {"name": "float32"}}), False),
        (of_keras_2(activation=None), False),
        (of_keras_2(activation="hard_sigmoid"), True),
        (of_keras_2(recurrent_activation="hard_sigmoid"), True),
        (of_keras_2(activation={"class_name": "function", "config": "hard_sigmoid"}), True),
        (of_keras_2(activation={"class_name": "function", "config": "tanh"}), False),
        (of_keras_2(activation={"class_name": "LeakyReLU", "config": {"alpha": 0.1}}), False),
        (of_keras_2(activation={"class_name": "Softmax", "config": {"axis": [1]}}), True),
        (of_keras_2(cell={"class_name": "LSTMCell", "config": {"activation": "softmax"}}), False),
        (of_keras_2(cell={"class_name": "LSTMCell", "config": {"activation": "mine"}}), True),
        (of_keras_2(mask_zero=True), True),
        (of_keras_2(mask_zero=False, stateful=False), False),
        (of_keras_2(stateful=True), True),
        (of_keras_2(dtype="float16"), True),
        (of_keras_2(dtype={"class_name": "Policy", "config": {"name": "mixed_float16"}}), True),
        (model(layer("Masking")), True),
        (model(layer("TFOpLambda")), True),
        (model(layer("Dense", inbound_nodes=[[["x", 0, 0, {"training": True}]]])), True),
    ],
)
def test_what_keras_3_may_read_of_keras_2(described: dict[str, Any], *, other: bool) -> None:
    assert differs(described) is other


@pytest.mark.parametrize(
    ("module", "known"),
    [
        ("tf_keras.src.engine.functional", True),
        ("keras.src.engine.functional", True),
        ("keras.engine.functional", True),
        ("keras.src.models.functional", True),
        ("keras", True),
        ("tf_keras.src", True),
        ("tf_kerasx.src.engine.functional", False),
        ("keras.src.utils.functional", False),
        ("os", False),
    ],
)
def test_where_kerases_have_their_models(module: str, *, known: bool) -> None:
    described = {**model(layer("Dense")), "module": module}
    if known:
        judge_config(described, _KNOWN.__contains__)
    else:
        with pytest.raises(UnsupportedModelError, match="the class Functional"):
            judge_config(described, _KNOWN.__contains__)


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
