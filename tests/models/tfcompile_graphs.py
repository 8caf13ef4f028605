"""Graphs with a tf2xla Config each, like those that tfcompile is tested with (tensorflow/compiler/aot/tests).

python -m tests.models.tfcompile_graphs DIRECTORY writes NAME.pb and NAME.config.pbtxt, checkpoints, and the
frozen graphs of `tests/models/frozen_graphs.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saver_pb2

from tests.models import frozen_graphs

v1 = tf.compat.v1

_WRITTEN: dict[str, Callable[[Path], str]] = {}


def _graph(function: Callable[[Path], str]) -> Callable[[Path], str]:
    """A function that adds a graph to the default one and returns its Config."""
    _WRITTEN[function.__name__.removeprefix("_")] = function
    return function


def _feed(node: str, *shape: int, index: int = 0, name: str = "") -> str:
    output = f"output_index: {index}" if index else ""
    dims = " ".join(f"dim {{ size: {extent} }}" for extent in shape)
    named = f'name: "{name}"' if name else ""
    return f'feed {{ id {{ node_name: "{node}" {output} }} shape {{ {dims} }} {named} }}\n'


def _fetch(node: str, name: str = "", index: int = 0) -> str:
    output = f"output_index: {index}" if index else ""
    named = f'name: "{name}"' if name else ""
    return f'fetch {{ id {{ node_name: "{node}" {output} }} {named} }}\n'


def _variable(node: str, rest: str = "") -> str:
    return f'variable {{ node_name: "{node}" type: DT_FLOAT {rest} }}\n'


@_graph
def add(_: Path) -> str:
    """Feeds of nodes that are no placeholders; positional names."""
    tf.add(tf.constant([1], name="x_const"), tf.constant([2], name="y_const"), name="x_y_sum")
    # The other way round than the names are sorted.
    return _feed("y_const", 1) + _feed("x_const", 1) + _fetch("x_y_sum")


def _save(directory: Path, name: str, saver: Any, *updates: Any) -> None:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for update in updates:
            session.run(update)
        saver.save(session, str(directory / name), write_meta_graph=False, write_state=False)


def _add_variable(directory: Path, name: str, saver_name: str | None, version: int) -> str:
    x = v1.placeholder(tf.int32, name="x_hold")
    # A variable whose readers see its memory, as TensorFlow 1 makes it.
    y = v1.get_variable("y_saved", initializer=tf.constant([0]), use_resource=False)
    tf.add(x, y, name="x_y_sum")
    saver = v1.train.Saver({"y_in_the_file": y}, name=saver_name, write_version=version)
    _save(directory, name, saver, y.assign(y + 42))
    return _feed("x_hold", 1) + _fetch("x_y_sum")


@_graph
def add_with_ckpt(directory: Path) -> str:
    """A variable in a checkpoint of the first version."""
    return _add_variable(directory, "add_with_ckpt.ckpt", None, saver_pb2.SaverDef.V1)


@_graph
def add_with_ckpt_saver(directory: Path) -> str:
    """A saver of another name, and a checkpoint of the second version."""
    return _add_variable(directory, "add_with_ckpt_saver.ckpt", "abcprefix", saver_pb2.SaverDef.V2)


@_graph
def savers(directory: Path) -> str:
    """One variable that each of two savers restores from another name, and a saver of another variable."""
    with tf.Graph().as_default():
        values = {"a": 42, "b": 7}
        written = [v1.get_variable(k, initializer=v, use_resource=False) for k, v in values.items()]
        version = saver_pb2.SaverDef.V2
        saver = v1.train.Saver(dict(zip(values, written, strict=True)), write_version=version)
        _save(directory, "savers.ckpt", saver)
    x = v1.placeholder(tf.int32, name="x_hold")
    y = v1.get_variable("y", initializer=0, use_resource=False)
    other = v1.get_variable("other", initializer=0, use_resource=False)
    tf.add(x, y, name="x_y_sum")
    restored = {"first": {"a": y}, "second": {"b": y}, "third": {"a": other}}
    for name, variables in restored.items():
        saver_def = v1.train.Saver(variables, name=name).as_saver_def()
        (directory / f"savers.{name}.saver").write_bytes(saver_def.SerializeToString())
        (directory / f"savers.{name}.saver.pbtxt").write_text(str(saver_def), encoding="utf-8")
    return _feed("x_hold") + _fetch("x_y_sum")


@_graph
def product(_: Path) -> str:
    """A product that is worth several threads."""
    weights = np.random.default_rng(4).standard_normal((512, 512)).astype(np.float32)
    x = v1.placeholder(tf.float32, name="x_hold")
    tf.matmul(x, tf.constant(weights), name="x_w_prod")
    return _feed("x_hold", 256, 512) + _fetch("x_w_prod")


@_graph
def assert_eq(_: Path) -> str:
    """An assertion, which no output depends on."""
    x, y = v1.placeholder(tf.int32, name="x_hold"), v1.placeholder(tf.int32, name="y_hold")
    tf.debugging.Assert(tf.equal(x, y), ["Expected x == y."], name="assert_eq")
    tf.add(x, tf.negative(y), name="x_y_diff")
    return _feed("x_hold") + _feed("y_hold") + _fetch("x_y_diff")


@_graph
def cond(_: Path) -> str:
    """A branch of TensorFlow 2, as a node that calls functions."""
    p = v1.placeholder(tf.bool, name="p_hold")
    x, y = v1.placeholder(tf.int32, name="x_hold"), v1.placeholder(tf.int32, name="y_hold")
    tf.identity(tf.cond(p, lambda: x, lambda: y), name="result")
    return _feed("p_hold") + _feed("x_hold") + _feed("y_hold") + _fetch("result")


@_graph
def cond_v1(_: Path) -> str:
    """The same by Switch and Merge."""
    v1.disable_control_flow_v2()
    try:
        return cond(_)
    finally:
        v1.enable_control_flow_v2()


@_graph
def function(_: Path) -> str:
    """A call of a function of the graph's library."""

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32), tf.TensorSpec(None, tf.int32)])  # type: ignore[untyped-decorator]
    def call(a: Any, b: Any) -> Any:
        return a - b

    tf.identity(
        call(tf.constant([1], name="x_const"), tf.constant([2], name="y_const")), name="result"
    )
    return _feed("x_const", 1) + _feed("y_const", 1) + _fetch("result")


@_graph
def gather(_: Path) -> str:
    """Indices as an input."""
    params = v1.placeholder(tf.float32, name="params")
    tf.gather(params, v1.placeholder(tf.int32, name="indices"), name="gather_output")
    return _feed("params", 4) + _feed("indices", 2) + _fetch("gather_output")


@_graph
def matmul(_: Path) -> str:
    """Placeholders without a shape, which the Config has."""
    x, y = v1.placeholder(tf.float32, name="x_hold"), v1.placeholder(tf.float32, name="y_hold")
    tf.matmul(x, y, name="x_y_prod")
    return _feed("x_hold", 2, 3) + _feed("y_hold", 3, 2) + _fetch("x_y_prod")


@_graph
def matmul_and_add(_: Path) -> str:
    """Several outputs, and names for everything."""
    x, y = v1.placeholder(tf.float32, name="x_hold"), v1.placeholder(tf.float32, name="y_hold")
    tf.matmul(x, y, name="x_y_prod")
    tf.add(x, y, name="x_y_sum")
    feeds = _feed("y_hold", 2, 2, name="y") + _feed("x_hold", 2, 2, name="x")
    return feeds + _fetch("x_y_sum", "x_y_sum") + _fetch("x_y_prod", "x_y_prod")


@_graph
def random_uniform(_: Path) -> str:
    """Random numbers with a seed."""
    v1.random_uniform([10], minval=1.0, maxval=2.0, seed=42, name="result")
    return _fetch("result")


@_graph
def scatter(_: Path) -> str:
    """Updates at indices that are inputs."""
    indices, updates = (
        [v1.placeholder(kind, name=f"{name}_{number}") for number in range(2)]
        for kind, name in ((tf.int32, "indices"), (tf.float32, "updates"))
    )
    tf.scatter_nd(indices[0], updates[0], tf.constant([8]), name="result_0")
    base = tf.constant(np.arange(8, dtype=np.float32))
    tf.tensor_scatter_nd_update(base, indices[1], updates[1], name="result_1")
    feeds = "".join(_feed(f"indices_{n}", 4, 1) + _feed(f"updates_{n}", 4) for n in range(2))
    return feeds + _fetch("result_0") + _fetch("result_1")


@_graph
def splits(_: Path) -> str:
    """A graph with more nodes: splits and products of what was put together again."""
    x = v1.placeholder(tf.float32, shape=[2, 2], name="x")
    y = v1.placeholder(tf.float32, shape=[2, 2], name="y")
    for _round in range(3):
        (x0, x1), (y0, y1) = tf.split(x, 2, 0), tf.split(y, 2, 0)
        product = tf.matmul(x, y)
        upper, lower = tf.concat([x0 + 1, y1], 0), tf.concat([y0 + 1, x1], 0)
        x = tf.matmul(upper, lower)
        y = x + product
    tf.identity(y, name="result")
    return _feed("x", 2, 2) + _feed("y", 2, 2) + _fetch("result")


@_graph
def top_k(_: Path) -> str:
    """Two outputs of one node, of which the Config names the second by its index."""
    x = v1.placeholder(tf.int32, shape=[5], name="x")
    tf.nn.top_k(x, 2, name="top")
    return _feed("x", 5) + _fetch("top", "values") + _fetch("top", "indices", index=1)


@_graph
def variable_readonly(directory: Path) -> str:
    """A variable that is only read: its value is the checkpoint's, not the graph's own."""
    x = v1.get_variable("x", initializer=1000.0, use_resource=True)
    v1.get_variable("y", initializer=1000.0, use_resource=True)
    tf.identity(x.read_value() + 42.0, name="result")
    saver = v1.train.Saver(write_version=saver_pb2.SaverDef.V2)
    _save(directory, "variable_readonly.ckpt", saver, x.assign(23.0))
    return _fetch("result") + _variable("x", "shape { } readonly: true")


@_graph
def variable(_: Path) -> str:
    """A variable that each call changes; it begins with the value that the graph gives it."""
    x = v1.get_variable("x", initializer=[23.0], use_resource=True)
    old = x.read_value()
    with tf.control_dependencies([old]):
        new = x.assign_add([42.0], read_value=True)
    tf.stack([old, new], name="result")
    return _fetch("result") + _variable("x", "shape { dim { size: 1 } }")


@_graph
def variable_sequential_updates(_: Path) -> str:
    """Several updates in one call, whose order only control edges define."""
    x = v1.get_variable("x", initializer=2.0, use_resource=True)
    y = v1.get_variable("y", initializer=1.0, use_resource=True)
    update: Any = tf.no_op()
    for _round in range(3):
        with tf.control_dependencies([update]):
            update = x.assign_sub(0.1 * (x.read_value() + y.read_value()))
    tf.identity(update, name="result")
    return _fetch("result") + _variable("x") + _variable("y", "readonly: true")


@_graph
def variable_uninitialized(_: Path) -> str:
    """A variable that nothing gives a value: it begins as zeros."""
    step = v1.placeholder(tf.float32, name="step")
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3], shared_name="x", name="x")
    update = tf.raw_ops.AssignAddVariableOp(resource=handle, value=step)
    with tf.control_dependencies([update]):
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name="result")
    return _feed("step", 3) + _fetch("result") + _variable("x", "shape { dim { size: 3 } }")


def write(directory: Path) -> None:
    """Writes every graph and its Config."""
    for name, build in _WRITTEN.items():
        with tf.Graph().as_default() as graph:
            config = build(directory)
        (directory / f"{name}.pb").write_bytes(graph.as_graph_def().SerializeToString())
        text = f"# Text form of tensorflow.tf2xla.Config\n{config}"
        (directory / f"{name}.config.pbtxt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    frozen_graphs.write(Path(sys.argv[1]))
