"""Dilated convolutions as TensorFlow and Keras write them become convolutions with dilations, with equal results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from modelwheel.compiler.freeze.dilations import join_dilations

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def graph_of(function: Any, shape: tuple[int, ...], declared: list[int | None]) -> tuple[Any, ...]:
    """The graph of a function, its input of a shape, and the names of its input and output."""
    traced = tf.function(function).get_concrete_function(tf.TensorSpec(declared, tf.float32))
    frozen = convert_variables_to_constants_v2(traced)
    graph = frozen.graph.as_graph_def()
    (feed,) = (node for node in graph.node if node.op == "Placeholder")
    feed.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return graph, f"{feed.name}:0", frozen.outputs[0].name


def run(graph: Any, feed: str, fetch: str, x: Any) -> Any:
    with tf.Graph().as_default() as built, tf.compat.v1.Session(graph=built) as session:
        tf.import_graph_def(graph, name="")
        return session.run(fetch, {feed: x})


def run_compiled(graph: Any, feed: str, fetch: str, x: Any) -> Any:
    """By XLA: kernels of TensorFlow for convolutions of single features have dilations on some CPUs only."""
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph, name=""), [])
    pruned = wrapped.prune(feed, fetch)

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator, unused-ignore]
    def call(value: Any) -> Any:
        return pruned(value)

    return call(tf.constant(x)).numpy()


def left(graph: Any, fetch: str) -> set[str]:
    """The operations that an output still depends on."""
    nodes = {node.name: node for node in graph.node}
    reached, waiting = set(), [fetch.split(":", maxsplit=1)[0]]
    while waiting:
        if (name := waiting.pop()) not in reached:
            reached.add(name)
            waiting += [tensor.split(":")[0].lstrip("^") for tensor in nodes[name].input]
    return {nodes[name].op for name in reached}


def check(function: Any, shape: tuple[int, ...], declared: list[int | None] | None = None) -> None:
    graph, feed, fetch = graph_of(function, shape, declared or list(shape))
    x = numbers(*shape)
    expected = run(graph, feed, fetch, x)
    assert {"SpaceToBatchND", "BatchToSpaceND"} <= left(graph, fetch)
    join_dilations(graph)
    assert not {"SpaceToBatchND", "BatchToSpaceND"} & left(graph, fetch)
    found = run_compiled(graph, feed, fetch, x)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dilations", [[2, 3], [1, 3], [2, 1]])
def test_a_convolution_of_two_axes(padding: str, dilations: list[int]) -> None:
    kernel = numbers(3, 3, 4, 5)
    check(
        lambda x: tf.nn.convolution(x, kernel, padding=padding, dilations=dilations), (2, 17, 19, 4)
    )


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_depthwise_convolution(padding: str) -> None:
    kernel = numbers(3, 3, 4, 1)
    check(
        lambda x: tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], padding, dilations=[2, 2]),
        (2, 17, 19, 4),
    )


@pytest.mark.parametrize("padding", ["SAME", "VALID", "causal"])
def test_paddings_that_follow_from_shapes(padding: str) -> None:
    """As layers of Keras have them, whose inputs were of any size when they were traced."""
    kernel = numbers(4, 4, 5)

    def layer(x: Any) -> Any:
        behind = tf.pad(x, [[0, 0], [12, 0], [0, 0]]) if padding == "causal" else x
        mode = "VALID" if padding == "causal" else padding
        return tf.nn.convolution(behind, kernel, padding=mode, dilations=[4])

    check(layer, (2, 33, 4), [None, None, 4])


def test_two_paddings_that_follow_from_shapes() -> None:
    kernel = numbers(3, 3, 4, 5)
    check(
        lambda x: tf.nn.convolution(x, kernel, padding="SAME", dilations=[2, 3]),
        (2, 17, 13, 4),
        [None, None, None, 4],
    )


@pytest.mark.parametrize(
    "function",
    [
        tf.nn.relu,  # no convolution
        lambda x: tf.nn.conv2d(x, numbers(1, 1, 4, 5), 1, "SAME"),  # with padding of its own
        lambda x: tf.nn.conv2d(x, numbers(2, 2, 4, 5), 2, "VALID"),  # with strides
    ],
)
def test_others_stay(function: Callable[[Any], Any]) -> None:
    def parts(x: Any) -> Any:
        divided = tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]])
        return tf.batch_to_space(function(divided), [2, 2], [[0, 0], [0, 0]])

    graph, _, fetch = graph_of(parts, (2, 16, 16, 4), [2, 16, 16, 4])
    join_dilations(graph)
    assert {"SpaceToBatchND", "BatchToSpaceND"} <= left(graph, fetch)


def test_a_convolution_that_is_read_twice_stays() -> None:
    kernel = numbers(3, 3, 4, 4)

    def parts(x: Any) -> Any:
        convolved = tf.nn.conv2d(tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]), kernel, 1, "VALID")
        joined = tf.batch_to_space(convolved, [2, 2], [[0, 0], [0, 0]])
        return tf.reduce_sum(joined) + tf.reduce_sum(convolved)

    graph, _, fetch = graph_of(parts, (2, 16, 16, 4), [2, 16, 16, 4])
    join_dilations(graph)
    assert "SpaceToBatchND" in left(graph, fetch)
