"""Runs the export lines of docs/formats/: `documented_exports DIRECTORY`.

Each line runs as it is printed there, in a directory of its own, with the names that it uses defined beforehand. What
the framework itself computes is written beside the model, as `rows.npz`. Prints one JSON object: by name, what
is missing to run the line, or nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

PAGES = sorted((Path(__file__).parents[2] / "docs" / "formats").glob("*.md"))
Names = dict[str, Any]
Predict = Callable[[Any], Any]

_RANDOM = np.random.default_rng(11)
FIRST, SECOND = (_RANDOM.standard_normal(s).astype(np.float32) for s in ((4, 6), (6, 3)))
ROWS = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)


# --- what the document says -----------------------------------------------------------------------


def section(title: str) -> str:
    """The text of a page, or of a section of one."""
    head = re.compile(rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)", re.MULTILINE | re.DOTALL)
    (found,) = filter(None, (head.search(page.read_text("utf-8")) for page in PAGES))
    return found[2]


def block(title: str, number: int = 0) -> str:
    """The Python code of a section, the first by default."""
    found = re.findall(r"^```python\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)
    return str(found[number])


def cell(title: str, row: str) -> list[str]:
    """The code in the second cell of a row of a section's table."""
    found = re.search(rf"^\| {re.escape(row)} \| (.*) \|$", section(title), re.MULTILINE)
    assert found is not None, row
    return re.findall(r"`([^`]+)`", found[1])


# --- what its lines need --------------------------------------------------------------------------


def _tf_module() -> tuple[Names, Predict]:
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc, unused-ignore]
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])  # type: ignore[untyped-decorator, unused-ignore]
        def call(self, x: Any) -> Any:
            return {"y": tf.tanh(x @ FIRST) @ SECOND}

    module = Module()
    return {"tf": tf, "module": module}, lambda x: module.call(tf.constant(x))["y"].numpy()


def _keras() -> tuple[Names, Predict]:
    import keras

    layers = [keras.Input((4,), name="x"), keras.layers.Dense(6, "tanh"), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    model.set_weights([FIRST, np.zeros(6), SECOND, np.array([0.5, -1, 2])])
    return {"keras": keras, "model": model}, lambda x: model(x).numpy()


def _graph() -> tuple[Names, Predict]:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        y = tf.linalg.matmul(tf.tanh(x @ FIRST), SECOND, name="y")

    def predict(values: Any) -> Any:
        with v1.Session(graph=graph) as session:
            return session.run(y, {x: values})

    return {"tf": tf, "graph_def": graph.as_graph_def(), "directory": "."}, predict


def _jax() -> tuple[Names, Predict]:
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        return jnp.tanh(x @ FIRST) @ SECOND

    return {"f": f}, f


def _linen() -> tuple[Names, Predict]:
    import jax
    from flax import linen

    model = linen.Sequential([linen.Dense(6), linen.gelu, linen.LayerNorm(), linen.Dense(3)])
    variables = model.init(jax.random.key(3), ROWS)
    return _function(
        "Flax (Linen)", {"model": model, "variables": variables}
    ), lambda x: model.apply(variables, x)


def _nnx() -> tuple[Names, Predict]:
    from flax import nnx

    class Model(nnx.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self, rngs: Any) -> None:
            self.first, self.second = nnx.Linear(4, 6, rngs=rngs), nnx.Linear(6, 3, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.second(nnx.relu(self.first(x)))

    model = Model(nnx.Rngs(4))
    return _function("Flax (NNX)", {"nnx": nnx, "model": model}), model


def _equinox() -> tuple[Names, Predict]:
    import equinox as eqx
    import jax

    model = eqx.nn.MLP(4, 3, 6, 2, key=jax.random.key(5))
    return _function("Equinox", {"eqx": eqx, "jax": jax, "model": model}), jax.vmap(model)


def _function(row: str, names: Names) -> Names:
    """The names with `f` as the table of JAX says; what else it says is run before."""
    function, *before = cell("JAX, Flax, Equinox", row)
    for line in before:
        exec(line, names)  # noqa: S102 - of the project's own document
    return {**names, "f": eval(function, names)}


def _torch() -> tuple[Names, Predict]:
    import torch

    class Model(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            return self.second(torch.nn.functional.gelu(self.first(x)))

    torch.manual_seed(6)
    model = Model()
    example = torch.from_numpy(ROWS)
    return {
        "torch": torch,
        "model": model,
        "example": example,
    }, lambda x: model(torch.from_numpy(x)).detach().numpy()


def _sklearn() -> tuple[Names, Predict]:
    import skl2onnx
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    rows = np.random.default_rng(7).standard_normal((40, 4))
    network = MLPRegressor(hidden_layer_sizes=(6,), max_iter=40, tol=1, random_state=1)
    pipeline = make_pipeline(MinMaxScaler(), network).fit(rows, np.sin(rows @ FIRST[:, :2]))
    return {"skl2onnx": skl2onnx, "pipeline": pipeline, "X": rows}, pipeline.predict


def _tf2onnx() -> tuple[Names, Predict]:
    names, predict = _tf_module()
    names["tf"].saved_model.save(names["module"], "DIRECTORY")
    return names, predict


@dataclass(frozen=True)
class Export:
    """A line of the document."""

    name: str
    file: str
    """What it writes."""
    modules: tuple[str, ...]
    """What it imports."""
    code: Callable[[], str]
    prepare: Callable[[], tuple[Names, Predict]]
    source: str = ""
    """What `source` in the spec says beyond the file."""
    save: str = ""
    """Code that follows, where the line returns a model."""


EXPORTS = (
    Export(
        "saved_model",
        "detector",
        ("tensorflow",),
        lambda: block("TensorFlow SavedModel"),
        _tf_module,
    ),
    Export(
        "keras_export",
        "detector",
        ("keras",),
        lambda: block("Keras", 1),
        _keras,
    ),
    Export(
        "graph_def",
        "frozen.pb",
        ("tensorflow",),
        lambda: _first(section("TensorFlow GraphDef"), r"`(tf\.io\.write_graph\(.*?\))`"),
        _graph,
        ", feeds: {x: x}, fetches: {y: y}",
    ),
    Export("keras", "detector.keras", ("keras",), lambda: block("Keras"), _keras),
    Export("jax", "model.jax", ("jax",), lambda: block("JAX, Flax, Equinox"), _jax),
    Export("flax_linen", "model.jax", ("flax",), lambda: block("JAX, Flax, Equinox"), _linen),
    Export("flax_nnx", "model.jax", ("flax",), lambda: block("JAX, Flax, Equinox"), _nnx),
    Export("equinox", "model.jax", ("equinox",), lambda: block("JAX, Flax, Equinox"), _equinox),
    Export(
        "torch_onnx",
        "model.onnx",
        ("torch", "onnxscript"),
        lambda: cell("ONNX", "PyTorch")[0],
        _torch,
    ),
    Export(
        "scikit_learn",
        "model.onnx",
        ("skl2onnx", "sklearn"),
        lambda: f"exported = {cell('ONNX', 'scikit-learn')[0]}",
        _sklearn,
        save="open('model.onnx', 'wb').write(exported.SerializeToString())",
    ),
    Export(
        "tf2onnx",
        "model.onnx",
        ("tf2onnx",),
        lambda: f"run({_first(section('ONNX'), r'`(python -m tf2onnx[^`]*)`')!r})",
        _tf2onnx,
    ),
    Export("torch", "model.pt2", ("torch",), lambda: block("PyTorch"), _torch),
)


def _first(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return found[1]


def _run(command: str) -> None:
    subprocess.run([sys.executable, *command.split()[1:]], check=True, capture_output=True)


def export(one: Export, directory: Path) -> str:
    """Runs a line; returns what is missing."""
    missing = [name for name in one.modules if find_spec(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    directory.mkdir(parents=True)
    os.chdir(directory)
    names, predict = one.prepare()
    exec(f"{one.code()}\n{one.save}", {**names, "run": _run})  # noqa: S102
    np.savez("rows.npz", x=ROWS, y=np.asarray(predict(ROWS)))
    return ""


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "tensorflow"
    home, wanted = Path(sys.argv[1]).absolute(), sys.argv[2:]
    chosen = [one for one in EXPORTS if not wanted or one.name in wanted]
    missing = {one.name: export(one, home / one.name) for one in chosen}
    sys.stdout.write(f"\n{json.dumps(missing)}\n")
