"""Writes the tiny SavedModels of the tests: `make_models.py DIRECTORY`, one sub-directory for each model.

Every model stands for one property that the pipeline has to handle or to refuse; its docstring says
which. Weights come from a fixed seed. Needs TensorFlow.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.models import tf1_models

_Function = Callable[..., dict[str, Any]]


def _weights(*shape: int) -> Any:
    rng = np.random.default_rng(shape)
    return tf.Variable(rng.standard_normal(shape).astype(np.float32))


def _spec(shape: list[int | None], dtype: Any = tf.float32) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype)


class _Model(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.hidden = _weights(4, 8)
        self.output = _weights(8, 3)


def _save(directory: Path, module: tf.Module, function: _Function, **inputs: tf.TensorSpec) -> None:
    """Saves `function` as the signature `serving_default`; its inputs are named as the keywords."""
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in inputs.items()]
    traced = tf.function(function, input_signature=specs)
    tf.saved_model.save(module, str(directory), signatures={"serving_default": traced})


def mlp(directory: Path) -> None:
    """The usual case: a free batch axis, two dense layers."""
    m = _Model()
    _save(
        directory,
        m,
        lambda x: {"y": tf.nn.softmax(tf.nn.relu(x @ m.hidden) @ m.output)},
        x=_spec([None, 4]),
    )


def multi(directory: Path) -> None:
    """Two inputs of different types, a float and a bool output, as CMS's test-multi."""
    m = _Model()

    def run(input1: Any, input2: Any) -> dict[str, Any]:
        y = input1 @ m.hidden + tf.cast(input2, tf.float32)
        return {"output1": y, "output2": y > 0.5}

    _save(directory, m, run, input1=_spec([None, 4]), input2=_spec([None, 8], tf.float64))


def fixed(directory: Path) -> None:
    """No free axis at all."""
    m = _Model()
    _save(directory, m, lambda x: {"y": 2.0 * x @ m.hidden}, x=_spec([2, 4]))


def triple_rows(directory: Path) -> None:
    """An output with three rows for each row of the batch."""
    m = _Model()
    _save(
        directory,
        m,
        lambda x: {"points": tf.reshape((x @ m.hidden)[:, :6], [-1, 2])},
        x=_spec([None, 4]),
    )


def batch_mean(directory: Path) -> None:
    """Rows interact: the mean over the batch is subtracted."""
    m = _Model()
    _save(
        directory,
        m,
        lambda x: {"y": (x - tf.reduce_mean(x, axis=0, keepdims=True)) @ m.hidden},
        x=_spec([None, 4]),
    )


def total(directory: Path) -> None:
    """An output that does not grow with the batch."""
    m = _Model()
    _save(directory, m, lambda x: {"sum": tf.reduce_sum(x @ m.hidden)}, x=_spec([None, 4]))


def text(directory: Path) -> None:
    """A string input."""
    m = _Model()
    _save(
        directory,
        m,
        lambda line: {"length": tf.strings.length(line)},
        line=_spec([None], tf.string),
    )


def counter(directory: Path) -> None:
    """State: every call changes a variable that the next call reads."""
    m = _Model()
    m.calls = tf.Variable(0.0)
    _save(directory, m, lambda x: {"y": x + m.calls.assign_add(1.0)}, x=_spec([None, 4]))


def unused_input(directory: Path) -> None:
    """An input that no output depends on."""
    m = _Model()
    _save(
        directory,
        m,
        lambda x, unused: {"y": x @ m.hidden},  # noqa: ARG005
        x=_spec([None, 4]),
        unused=_spec([None, 2]),
    )


def branches(directory: Path) -> None:
    """A switch with three branches, chosen by an input that has no batch axis."""
    m = _Model()

    def run(branch: Any, x: Any) -> dict[str, Any]:
        y = x @ m.hidden
        return {"y": tf.switch_case(branch, [lambda: y, lambda: -y, lambda: tf.exp(y)])}

    _save(directory, m, run, branch=_spec([], tf.int32), x=_spec([None, 4]))


def loop(directory: Path) -> None:
    """A while loop whose number of turns depends on the data, and whose body reads a variable."""
    m = _Model()

    def run(x: Any) -> dict[str, Any]:
        y, _ = tf.while_loop(
            lambda y, turn: (tf.reduce_max(tf.abs(y)) > 0.1) & (turn < 20),
            lambda y, turn: (0.5 * y + 0.001 * m.hidden[0, :4], turn + 1),
            (x, 0),
        )
        return {"y": y}

    _save(directory, m, run, x=_spec([None, 4]))


def sequence(directory: Path) -> None:
    """A second free axis: steps of a sequence."""
    m = _Model()
    _save(
        directory,
        m,
        lambda tokens: {"y": tf.reduce_mean(tokens @ m.hidden, axis=1)},
        tokens=_spec([None, None, 4]),
    )


def names(directory: Path) -> None:
    """Names that are no identifiers."""
    m = _Model()

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec([None, 4], tf.float32, "detector/energy"),
            tf.TensorSpec([None, 4], tf.float32, "1st"),
        ]
    )
    def run(energy: Any, first: Any) -> dict[str, Any]:
        return {"score/raw": energy @ m.hidden, "score_raw": first @ m.hidden}

    tf.saved_model.save(m, str(directory), signatures={"serving_default": run})


def bessel(directory: Path) -> None:
    """An operation that XLA does not have."""
    m = _Model()

    def run(x: Any) -> dict[str, Any]:
        with tf.name_scope("special/bessel"):
            return {"y": tf.math.special.bessel_j0(x @ m.hidden)}

    _save(directory, m, run, x=_spec([None, 4]))


def bessel_loop(directory: Path) -> None:
    """An operation that XLA does not have in the body of a loop, a function of its own."""
    m = _Model()

    def run(x: Any) -> dict[str, Any]:
        y, _ = tf.while_loop(
            lambda y, turn: (tf.reduce_max(tf.abs(y)) > 0.1) & (turn < 20),
            lambda y, turn: (0.5 * tf.math.special.bessel_j0(y), turn + 1),
            (x, 0),
        )
        return {"y": y}

    _save(directory, m, run, x=_spec([None, 4]))


def gather(directory: Path) -> None:
    """A look-up by an index, which TensorFlow refuses if it is too large."""
    m = _Model()
    _save(
        directory,
        m,
        lambda index: {"y": tf.gather(m.hidden, index)},
        index=_spec([None], tf.int32),
    )


def table(directory: Path) -> None:
    """A lookup table."""
    m = _Model()
    keys = tf.constant([1, 2], tf.int64)
    m.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, tf.constant([0.5, 1.5])), -1.0
    )
    _save(directory, m, lambda x: {"y": m.table.lookup(x)}, x=_spec([None], tf.int64))


def counted(directory: Path) -> None:
    """A shape inside depends on the data: XLA has every operation, but refuses the whole."""
    m = _Model()

    def run(x: Any) -> dict[str, Any]:
        count = tf.cast(tf.abs(x[0, 0]), tf.int32)
        return {"y": x + tf.reduce_sum(tf.range(count, dtype=tf.float32))}

    _save(directory, m, run, x=_spec([None, 4]))


def selected(directory: Path) -> None:
    """The shape of an output depends on the data, which XLA compiles with room for the largest."""
    m = _Model()
    _save(
        directory,
        m,
        lambda x: {"y": tf.boolean_mask(x @ m.hidden, x[:, 0] > 0)},
        x=_spec([None, 4]),
    )


def noise(directory: Path) -> None:
    """Random numbers in the output."""
    m = _Model()
    _save(directory, m, lambda x: {"y": x + tf.random.normal([4])}, x=_spec([None, 4]))


def nothing_learned(directory: Path) -> None:
    """No variable, an input that is returned as it is, one tensor under two names, types of all kinds."""

    def run(x: Any, i: Any, h: Any) -> dict[str, Any]:
        y = tf.cast(i, tf.float32)[:, tf.newaxis] + x
        return {"same": x, "y": y, "z": y, "half": h + h}

    _save(
        directory,
        tf.Module(),
        run,
        x=_spec([None, 2]),
        i=_spec([None], tf.int64),
        h=_spec([None, 3], tf.float16),
    )


def kinds(directory: Path) -> None:
    """Element types of every kind, names with slashes, and an output of three rows for each row."""
    shapes = {
        "cut/flag": _spec([None], tf.bool),
        "cut/count": _spec([None, 2], tf.int32),
        "cut/id": _spec([None], tf.int64),
        "track/half": _spec([None, 3], tf.float16),
        "track/exact": _spec([None, 2], tf.float64),
    }
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in shapes.items()]

    @tf.function(input_signature=specs)  # type: ignore[untyped-decorator]
    def run(flag: Any, count: Any, number: Any, half: Any, exact: Any) -> dict[str, Any]:
        return {
            "flag/not": tf.logical_not(flag),
            "count/sum": tf.reduce_sum(count, axis=1),
            "id/next": number + 1,
            "half/twice": half + half,
            "exact/square": exact * exact + tf.cast(count, tf.float64),
            "half/points": tf.reshape(half, [-1, 1]),
        }

    tf.saved_model.save(tf.Module(), str(directory), signatures={"serving_default": run})


class _Dense(tf.Module):  # type: ignore[misc]
    """Five layers of 128 units, as the models have that CMSDIST builds to test itself."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        widths = [inputs, *[128] * 5, 2]
        self.layers = [_weights(*shape) for shape in itertools.pairwise(widths)]

    def scores(self, x: Any) -> Any:
        *hidden, last = self.layers
        for weights in hidden:
            x = tf.tanh(x @ weights / 10)
        return tf.nn.softmax(x @ last)


def cms_simple(directory: Path) -> None:
    """The signature of CMSDIST's test-simple: f32(4) -> f32(2)."""
    m = _Dense(4)
    _save(directory, m, lambda input: {"output": m.scores(input)}, input=_spec([None, 4]))  # noqa: A006


def cms_multi(directory: Path) -> None:
    """The signature of CMSDIST's test-multi: f32(4), f64(4) -> f32(2), b(2)."""
    m = _Dense(8)

    def run(input1: Any, input2: Any) -> dict[str, Any]:
        scores = m.scores(tf.concat([input1, tf.cast(input2, tf.float32)], axis=1))
        return {"output1": scores, "output2": scores > 0.5}

    _save(directory, m, run, input1=_spec([None, 4]), input2=_spec([None, 4], tf.float64))


def unknown_rank(directory: Path) -> None:
    """An input of unknown rank."""
    m = _Model()
    _save(directory, m, lambda x: {"y": tf.abs(x)}, x=tf.TensorSpec(None, tf.float32))


def _edit(directory: Path, change: Callable[[Any], None]) -> None:
    path = directory / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(message.meta_graphs[0])
    path.write_bytes(message.SerializeToString(deterministic=True))


def custom_op(directory: Path) -> None:
    """An operation that no TensorFlow library registers."""
    mlp(directory)

    def rename(meta_graph: Any) -> None:
        for function in meta_graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "Relu":
                    node.op = "ExperimentRelu"

    _edit(directory, rename)


def needs_keras(directory: Path) -> None:
    """Objects that TensorFlow alone cannot restore: an optimizer's slot, as Keras 2 writes it."""
    mlp(directory)

    def add_slot(meta_graph: Any) -> None:
        nodes = meta_graph.object_graph_def.nodes
        optimizer = len(nodes)
        variables = [i for i, n in enumerate(nodes) if n.WhichOneof("kind") == "variable"]
        node = nodes.add()
        node.user_object.identifier = "optimizer"
        node.slot_variables.add(
            original_variable_node_id=variables[0],
            slot_name="m",
            slot_variable_node_id=variables[1],
        )
        nodes[0].children.add(node_id=optimizer, local_name="optimizer")

    _edit(directory, add_slot)


MODELS: tuple[Callable[[Path], None], ...] = (
    mlp,
    multi,
    fixed,
    triple_rows,
    batch_mean,
    total,
    text,
    counter,
    unused_input,
    branches,
    loop,
    sequence,
    names,
    bessel,
    bessel_loop,
    gather,
    table,
    counted,
    selected,
    noise,
    nothing_learned,
    kinds,
    cms_simple,
    cms_multi,
    unknown_rank,
    custom_op,
    needs_keras,
    *tf1_models.MODELS,
)


def main() -> None:
    root = Path(sys.argv[1])
    for make in MODELS:
        make(root / make.__name__)


if __name__ == "__main__":
    main()
