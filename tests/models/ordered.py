"""Models whose inputs and outputs are in no order of names: `python -m tests.models.ordered FRAMEWORK DIRECTORY`.

Each computes `weigh` of twelve inputs. Beside each file or directory NAME is NAME.npz: the arguments by position
(`in/0`), the results of the framework's own call with them (`out/0`), and the names that it has for both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

INPUTS = ("zeta", "alpha", *(f"x{n}" for n in range(10, 0, -1)))
OUTPUTS = ("total", "best", *(f"y{n}" for n in range(10, 0, -1)))
NUMBERED_INPUTS = tuple(f"x{n}" for n in range(1, 13))
NUMBERED_OUTPUTS = tuple(f"y{n}" for n in range(1, 13))
SHAPE = (4, 2)


def weigh(*arguments: Any) -> list[Any]:
    """As many results as arguments, each different for every order of them."""
    total = arguments[0] * 1.0
    for number, argument in enumerate(arguments[1:], 2):
        total = total + argument * float(number)
    return [total * float(number) for number in range(1, len(arguments) + 1)]


def given() -> list[Any]:
    """Arguments by position."""
    random = np.random.default_rng(2)
    return [random.normal(size=SHAPE).astype(np.float32) for _ in INPUTS]


def _keep(
    path: Path,
    results: Sequence[Any],
    inputs: Sequence[str] = INPUTS,
    outputs: Sequence[str] = OUTPUTS,
) -> None:
    arrays = {f"in/{n}": values for n, values in enumerate(given())}
    arrays |= {f"out/{n}": np.asarray(values) for n, values in enumerate(results)}
    np.savez(f"{path}.npz", inputs=np.array(inputs), outputs=np.array(outputs), **arrays)


def write_onnx(directory: Path) -> None:
    """A graph, called as ONNX Runtime takes inputs and returns outputs."""
    import onnxruntime
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Sum", [f"{name}/scaled" for name in INPUTS], ["sum"])]
    constants = []
    for number, (name, output) in enumerate(zip(INPUTS, OUTPUTS, strict=True), 1):
        constants.append(helper.make_tensor(f"c{number}", TensorProto.FLOAT, (), [number]))
        nodes.insert(0, helper.make_node("Mul", [name, f"c{number}"], [f"{name}/scaled"]))
        nodes.append(helper.make_node("Mul", ["sum", f"c{number}"], [output]))
    graph = helper.make_graph(
        nodes,
        "ordered",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in INPUTS],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in OUTPUTS],
        constants,
    )
    opset = [helper.make_opsetid("", 17)]
    content = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    path = directory / "ordered.onnx"
    path.write_bytes(content)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    _keep(path, session.run(None, dict(zip(names, given(), strict=True))), names)


def write_jax(directory: Path) -> None:
    """Arguments by position, and some by keyword; the module alone too."""
    import jax
    from jax import export

    spec = jax.ShapeDtypeStruct(SHAPE, np.float32)  # type: ignore[no-untyped-call, unused-ignore]
    specs = [spec] * len(INPUTS)
    exported = export.export(jax.jit(weigh), platforms=["cpu"])(*specs)
    names = tuple(f"arg{n}" for n in range(12)), tuple(f"result{n}" for n in range(12))
    for file, content in (
        ("ordered.jax", bytes(exported.serialize())),
        ("ordered.mlir", exported.mlir_module().encode()),
    ):
        (directory / file).write_bytes(content)
        _keep(directory / file, jax.jit(weigh)(*given()), *names)

    def by_keyword(x: Any, *, zeta: Any, alpha: Any) -> dict[str, Any]:
        return {"y": weigh(x, alpha, zeta)[0], "b": weigh(x, alpha, zeta)[1]}

    x, alpha, zeta = given()[:3]
    results = jax.jit(by_keyword)(x, zeta=zeta, alpha=alpha)
    keywords = export.export(jax.jit(by_keyword), platforms=["cpu"])(
        specs[0], zeta=specs[0], alpha=specs[0]
    )
    (directory / "keywords.jax").write_bytes(bytes(keywords.serialize()))
    # JAX sorts keywords and keys.
    values = [results["b"], results["y"]]
    _keep(directory / "keywords.jax", values, ("arg0", "alpha", "zeta"), ("b", "y"))


def write_torch(directory: Path) -> None:
    """A program with arguments by name and results in a dictionary."""
    import torch

    class Ordered(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def forward(
            self, zeta: Any, alpha: Any, x10: Any, x9: Any, x8: Any, x7: Any, x6: Any, x5: Any,
            x4: Any, x3: Any, x2: Any, x1: Any,
        ) -> dict[str, Any]:  # fmt: skip
            results = weigh(zeta, alpha, x10, x9, x8, x7, x6, x5, x4, x3, x2, x1)
            return dict(zip(OUTPUTS, results, strict=True))

    arguments = tuple(map(torch.from_numpy, given()))
    path = directory / "ordered.pt2"
    torch.export.save(torch.export.export(Ordered(), arguments), path)
    _keep(path, list(Ordered()(*arguments).values()))


def write_tensorflow(directory: Path) -> None:
    """SavedModels of TensorFlow 2 and 1, and a GraphDef whose nodes are in another order."""
    import tensorflow as tf

    module = tf.Module()
    specs = [tf.TensorSpec(SHAPE, tf.float32, name) for name in INPUTS]
    function = tf.function(lambda *arguments: tuple(weigh(*arguments)), input_signature=specs)
    module.call = function
    path = directory / "saved"
    tf.saved_model.save(module, str(path), signatures=function)
    positions = [f"output_{n}" for n in range(12)]
    _keep(path, function(*given()), INPUTS, positions)
    loaded = tf.saved_model.load(str(path))
    tf.saved_model.save(loaded, str(directory / "saved_again"), signatures=loaded.signatures)
    _keep(directory / "saved_again", function(*given()), INPUTS, positions)

    # Numbered keys, which TensorFlow sorts as text.
    def by_key(features: dict[str, Any]) -> dict[str, Any]:
        values = weigh(*(features[name] for name in NUMBERED_INPUTS))
        return dict(zip(NUMBERED_OUTPUTS, values, strict=True))

    keyed = {name: tf.TensorSpec(SHAPE, tf.float32, name) for name in NUMBERED_INPUTS}
    module = tf.Module()
    module.call = tf.function(by_key, input_signature=[keyed])
    tf.saved_model.save(module, str(directory / "keyed"), signatures=module.call)
    expected = weigh(*given())
    _keep(directory / "keyed", expected, NUMBERED_INPUTS, NUMBERED_OUTPUTS)

    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        placeholders = {
            name: tf.compat.v1.placeholder(tf.float32, SHAPE, name)
            for name in reversed(NUMBERED_INPUTS)
        }
        values = weigh(*(placeholders[name] for name in NUMBERED_INPUTS))
        results = {
            name: tf.identity(value, name)
            for name, value in zip(NUMBERED_OUTPUTS, values, strict=True)
        }
        tf.compat.v1.saved_model.simple_save(
            session, str(directory / "tf1"), placeholders, dict(reversed(results.items()))
        )
        (directory / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    _keep(directory / "tf1", expected, NUMBERED_INPUTS, NUMBERED_OUTPUTS)
    _keep(directory / "graph.pb", expected)


def write_keras(directory: Path) -> None:
    """Functional models with lists and dictionaries of inputs and outputs; files, and exported ones."""
    import keras

    def make(package: Any, inputs: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        layers = package.layers
        tensors = {name: package.Input(SHAPE[1:], name=name) for name in inputs}
        scaled = [layers.Rescaling(float(n))(t) for n, t in enumerate(tensors.values(), 1)]
        total = layers.Add()(scaled)
        outputs = {
            name: layers.Rescaling(float(n), name=name)(total) for n, name in enumerate(OUTPUTS, 1)
        }
        return tensors, outputs

    inputs, outputs = make(keras, INPUTS)
    model = keras.Model(list(inputs.values()), list(outputs.values()))
    results = [values.numpy() for values in model(given())]
    model.save(directory / "ordered.keras")
    _keep(directory / "ordered.keras", results)
    model.export(directory / "exported", verbose=False)
    _keep(directory / "exported", results, INPUTS, [f"output_{n}" for n in range(12)])
    inputs, outputs = make(keras, INPUTS)
    model = keras.Model(inputs, outputs)
    by_key = model(dict(zip(INPUTS, given(), strict=True)))
    model.save(directory / "keyed.keras")
    _keep(directory / "keyed.keras", [by_key[name].numpy() for name in OUTPUTS])
    try:
        import tf_keras
    except ImportError:
        return
    inputs, outputs = make(tf_keras, INPUTS)
    model = tf_keras.Model(list(inputs.values()), list(outputs.values()))
    results = [values.numpy() for values in model(given())]
    model.save(directory / "ordered.h5")
    _keep(directory / "ordered.h5", results)


WRITERS: dict[str, Callable[[Path], None]] = {
    "onnx": write_onnx,
    "jax": write_jax,
    "torch": write_torch,
    "tensorflow": write_tensorflow,
    "keras": write_keras,
}

if __name__ == "__main__":
    WRITERS[sys.argv[1]](Path(sys.argv[2]))
