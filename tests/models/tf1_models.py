"""Models of TensorFlow 1: its control flow in graphs and below functions, and several graphs in one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def _weights(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32) * 0.5


@contextmanager
def _session() -> Iterator[Any]:
    """A session of a new graph in which loops and branches are those of TensorFlow 1."""
    graph = tf.Graph()
    v1.disable_control_flow_v2()
    try:
        with graph.as_default(), v1.Session(graph=graph) as session:
            yield session
    finally:
        v1.enable_control_flow_v2()


def tf1_loop(directory: Path) -> None:
    """TensorFlow 1: a reference variable, control flow of switches and merges, no functions."""
    with _session() as session:
        x = v1.placeholder(tf.float32, [2, 4], "x")
        with v1.variable_scope("net", use_resource=False):
            w = v1.get_variable("w", initializer=np.eye(4, dtype=np.float32) * 0.5)
        y, _ = v1.while_loop(
            lambda y, turn: (tf.reduce_max(tf.abs(y)) > 0.1) & (turn < 20),
            lambda y, turn: (tf.matmul(y, w), turn + 1),
            (x, tf.constant(0)),
        )
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(directory), {"x": x}, {"y": y})


def tf1_branch(directory: Path) -> None:
    """TensorFlow 1 with a free batch axis, resource variables, and a branch."""
    with _session() as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        unused = v1.placeholder(tf.float32, [None], "unused")
        with v1.variable_scope("net", use_resource=True):
            w = v1.get_variable("w", initializer=np.eye(4, dtype=np.float32) * 0.5)
        y = v1.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, w) + 1.0, lambda: x - 2.0)
        session.run(v1.global_variables_initializer())
        inputs = {"x": x, "unused": unused}
        v1.saved_model.simple_save(session, str(directory), inputs, {"y": y, "again": y})


def _recurrent(directory: Path) -> None:
    """A recurrent network with an array of its steps, and dropout behind a flag that is off."""
    with _session() as session:
        x = v1.placeholder(tf.float32, [None, 6, 4], "x")
        training = v1.placeholder_with_default(input=False, shape=[], name="training")
        with v1.variable_scope("net", use_resource=True):
            w = v1.get_variable("w", initializer=_weights(8, 4))
            b = v1.get_variable("b", initializer=_weights(4))

        def step(turn: Any, h: Any, steps: Any) -> Any:
            joined = tf.concat([tf.transpose(x, [1, 0, 2])[turn], h], 1)
            h = tf.tanh(tf.matmul(joined, w) + b)
            return turn + 1, h, steps.write(turn, h)

        start = (tf.constant(0), tf.zeros([tf.shape(x)[0], 4]), tf.TensorArray(tf.float32, 6))
        _, h, steps = v1.while_loop(lambda turn, *_: turn < 6, step, start)
        h = v1.cond(training, lambda: h * tf.random.uniform([4]), lambda: h * 1.0)
        outputs = {"last": tf.matmul(h, w[4:]), "all": tf.transpose(steps.stack(), [1, 0, 2])}
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(directory), {"x": x}, outputs)


def tf1_saved_again(directory: Path) -> None:
    """A model of TensorFlow 1, loaded by TensorFlow 2 and saved again: its loop is below functions."""
    _recurrent(directory / "first")
    module = tf.Module()
    module.first = tf.saved_model.load(str(directory / "first"))
    function = module.first.signatures["serving_default"]
    module.call = tf.function(
        lambda x: function(x=x), input_signature=[tf.TensorSpec([None, 6, 4], tf.float32, "x")]
    )
    tf.saved_model.save(module, str(directory), signatures=module.call)


def _nested_loops() -> Any:
    """A GraphDef from `x` to `out`: a loop in a loop, whose numbers of turns depend on values."""
    with _session() as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        w = tf.constant(_weights(4, 4))

        def turn(y: Any, count: Any) -> Any:
            inner = v1.while_loop(
                lambda _, k: k < count + 1,
                lambda a, k: (tf.tanh(tf.matmul(a, w)), k + 1),
                (y, tf.constant(0)),
            )
            return inner[0] + 0.1, count + 1

        y, _ = v1.while_loop(
            lambda y, count: (tf.reduce_max(tf.abs(y)) > 0.05) & (count < 5),
            turn,
            (x, tf.constant(0)),
        )
        out = v1.cond(tf.reduce_sum(y) > 0, lambda: tf.matmul(y, w) + 1.0, lambda: y - 2.0)
        tf.identity(out, "out")
        return session.graph.as_graph_def()


def tf1_below_branches(directory: Path) -> None:
    """Loops of TensorFlow 1 in functions that the branches and bodies of TensorFlow 2 call."""
    graph_def = _nested_loops()
    spec = tf.TensorSpec([None, 4], tf.float32, "x")
    module = tf.Module()
    module.loops = v1.wrap_function(
        lambda x: tf.graph_util.import_graph_def(graph_def, {"x:0": x}, ["out:0"]), [spec]
    )

    def loops(x: Any) -> Any:
        return tf.ensure_shape(module.loops(x)[0], [None, 4])

    def call(x: Any) -> Any:
        y, _ = tf.while_loop(lambda _, k: k < 3, lambda y, k: (loops(y) * 0.5, k + 1), (x, 0))
        return {
            "twice": loops(loops(x)),
            "chosen": tf.cond(tf.reduce_sum(x) > 0, lambda: loops(y), lambda: y),
            **{
                f"branch_{k}": tf.switch_case(
                    tf.shape(x)[1] - 4 + k + 0 * tf.cast(y[0, 0], tf.int32),
                    [lambda: loops(x), lambda: y * 2, lambda: loops(y) + x],
                )
                for k in (0, 1, 2, 5)
            },
        }

    module.call = tf.function(call, input_signature=[spec])
    tf.saved_model.save(module, str(directory), signatures=module.call)


def several_graphs(directory: Path) -> None:
    """Graphs with the tags [serve], [serve, gpu] and [train], each with two signatures."""
    builder = v1.saved_model.Builder(str(directory))
    for number, tags in enumerate((["serve"], ["serve", "gpu"], ["train"])):
        with _session() as session:
            x = v1.placeholder(tf.float32, [None, 4], "x")
            w = v1.get_variable("w", initializer=_weights(4, 3))
            y = tf.matmul(x, w) * (number + 1.0)
            predict = v1.saved_model.predict_signature_def
            signatures = {
                "serving_default": predict({"x": x}, {"y": y}),
                "negated": predict({"x": x}, {"z": -y}),
            }
            session.run(v1.global_variables_initializer())
            if number:
                builder.add_meta_graph(tags, signatures)
            else:
                builder.add_meta_graph_and_variables(session, tags, signatures)
    builder.save()


MODELS: tuple[Callable[[Path], None], ...] = (
    tf1_loop,
    tf1_branch,
    tf1_saved_again,
    tf1_below_branches,
    several_graphs,
)
