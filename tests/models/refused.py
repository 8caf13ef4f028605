"""Models that are refused, or of which something must be known: one for each row of docs/errors.md.

python -m tests.models.refused DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_ROWS = tf.TensorSpec([None, 4], tf.float32, name="x")
_FIXED = tf.TensorSpec([4], tf.float32, name="x")
_TOKENS = tf.TensorSpec([None, 4], tf.int32, name="x")
_TEXT = tf.TensorSpec([None], tf.string, name="x")
_COUNT = tf.TensorSpec([], tf.int32, name="k")


def _weights(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


class _Holder(tf.Module):  # type: ignore[misc]
    """Holds what functions refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = tf.Variable(_weights(4, 3))
        keys = tf.constant([1, 2], tf.int32)
        values = tf.constant([0.5, 1.5])
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), -1.0
        )


_HOLDER = _Holder()


def _grow(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4])
    turns = tf.cast(tf.reduce_max(tf.abs(x)) * 3, tf.int32)
    _, array = tf.while_loop(
        lambda i, _: i < turns, lambda i, a: (i + 1, a.write(i, x)), [0, array]
    )
    return array.stack()


@tf.function(experimental_implements="modelwheel.softmax")  # type: ignore[untyped-decorator]
def _largest_first(x: Any) -> Any:
    return tf.sort(x, direction="DESCENDING")


def _print(x: Any) -> Any:
    tf.print("rows", tf.shape(x))
    return x * 2.0


def _assert_small(x: Any) -> Any:
    tf.debugging.assert_less(x, 1.0, message="x must be below 1")
    return x * 2.0


def _queue(x: Any) -> Any:
    handle = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], shapes=[[4]])
    tf.raw_ops.QueueEnqueueV2(handle=handle, components=[x[0]])
    return x + tf.raw_ops.QueueDequeueV2(handle=handle, component_types=[tf.float32])[0]


def _python(x: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(np.sin, [x], tf.float32), [None, 4])


def _images(x: Any) -> Any:
    decode = lambda text: tf.io.decode_jpeg(text, channels=3)[:2, :2]
    return tf.map_fn(decode, x, fn_output_signature=tf.TensorSpec([2, 2, 3], tf.uint8))


def _dataset(x: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(x).reduce(tf.zeros([4]), lambda a, b: a + b)


CASES: dict[str, tuple[list[tf.TensorSpec], Callable[..., Any]]] = {
    "fusion_interface": ([_TOKENS], _largest_first),
    "fusion_nowhere": ([_ROWS], lambda x: tf.exp(x) / tf.reduce_sum(x)),
    "fusion_unknown": ([_ROWS], tf.nn.softmax),
    "string_input": ([_TEXT], tf.strings.length),
    "string_output": ([_TOKENS], tf.strings.as_string),
    "images": ([_TEXT], _images),
    "records": (
        [_TEXT], lambda x: tf.io.parse_example(x, {"a": tf.io.FixedLenFeature([2], tf.float32)})["a"]
    ),
    "ragged": (
        [_TOKENS], lambda x: tf.RaggedTensor.from_tensor(x, padding=0).to_tensor(shape=[None, 4])
    ),
    "sparse": ([_ROWS], lambda x: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x), _weights(4, 3))),
    "unsupported_op": ([_ROWS], tf.math.special.bessel_j0),
    "type": ([_ROWS], lambda x: tf.quantization.quantize(x, -1.0, 1.0, tf.qint8).output),
    "where": ([_FIXED], lambda x: tf.where(x > 0)),
    "boolean_mask": ([_FIXED], lambda x: tf.boolean_mask(x, x > 0)),
    "unique": ([_FIXED], lambda x: tf.unique(x).y),
    "partition": ([_FIXED], lambda x: tf.dynamic_partition(x, tf.cast(x > 0, tf.int32), 2)[0]),
    "detections": (
        [tf.TensorSpec([6, 4], tf.float32, name="x")],
        lambda x: tf.image.non_max_suppression(x, x[:, 0], 3),
    ),
    "dynamic_top_k": ([_FIXED, _COUNT], lambda x, k: tf.math.top_k(x, k).values),
    "dynamic_reshape": ([_FIXED, _COUNT], lambda x, k: tf.reshape(x, [k, -1])),
    "dynamic_range": ([_COUNT], tf.range),
    "dynamic_fill": ([_FIXED, _COUNT], lambda x, k: tf.fill([k], x[0])),
    "dynamic_tile": ([_FIXED, _COUNT], lambda x, k: tf.tile(x, [k])),
    "dynamic_depth": ([_TOKENS, _COUNT], tf.one_hot),
    "dynamic_slice": ([_FIXED, _COUNT], lambda x, k: x[:k]),
    "dynamic_resize": (
        [tf.TensorSpec([1, 4, 4, 1], tf.float32, name="x"), _COUNT],
        lambda x, k: tf.image.resize(x, [k, k]),
    ),
    "growing_array": ([_FIXED], _grow),
    "gather": ([_TOKENS], lambda x: tf.gather(_HOLDER.weights, x)),
    "assertion": ([_ROWS], _assert_small),
    "not_a_number": ([_ROWS], lambda x: tf.debugging.check_numerics(tf.math.log(x), "log")),
    "one_row_only": ([_ROWS], lambda x: tf.reshape(x, [2, 2]) @ _weights(2, 3)),
    "random": ([_ROWS], lambda x: x + tf.random.normal([4])),
    "queue": ([_ROWS], _queue),
    "hash_table": ([_TOKENS], _HOLDER.table.lookup),
    "python": ([_ROWS], _python),
    "print": ([_ROWS], _print),
    "dataset": ([_ROWS], _dataset),
    "read_file": ([_ROWS], lambda x: x + tf.io.decode_raw(tf.io.read_file("a.bin"), tf.float32)[:4]),
    "free_axes": ([tf.TensorSpec([None, None, 4], tf.float32, name="x")], lambda x: x * 2.0),
    "time_major": ([tf.TensorSpec([8, None, 4], tf.float32, name="x")], lambda x: x * 2.0),
    "unknown_rank": ([tf.TensorSpec(None, tf.float32, name="x")], lambda x: x * 2.0),
    "unused_input": (
        [_ROWS, tf.TensorSpec([None, 2], tf.float32, name="unused")], lambda x, _: x * 2.0
    ),
    "rows_together": ([_ROWS], lambda x: x - tf.reduce_mean(x, 0)),
    "fixed_batch": ([_FIXED], lambda x: x * 2.0),
    "endless_loop": ([_ROWS], lambda x: x * tf.while_loop(lambda i: i >= 0.0, lambda i: i + 1, [0.0])[0]),
    "too_large": ([_ROWS], lambda x: x + tf.reduce_sum(tf.zeros([70000, 70000]))),
}  # fmt: skip
"""Inputs and function of the models that TensorFlow saves."""


def _rename(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function with as many arguments as there are inputs, whose result has a name."""
    if count == 1:
        return lambda x: {"y": function(x)}
    return lambda x, k: {"y": function(x, k)}


def save(directory: Path) -> None:
    """Saves all models below the directory."""
    for name, (specs, function) in CASES.items():
        signature = tf.function(_rename(function, len(specs)), input_signature=specs)
        _HOLDER.signature = signature
        tf.saved_model.save(_HOLDER, str(directory / name), signatures=signature)
    _HOLDER.signature = None
    _save_others(directory)
    _save_in_training_mode(directory / "training_mode")


def _save_in_training_mode(directory: Path) -> None:
    """As Keras 3 exports a model that begins with augmentation."""
    import keras

    image = keras.Input((6, 6, 2), name="x")
    x = keras.layers.BatchNormalization(name="normal")(keras.layers.RandomFlip(name="flip")(image))
    keras.Model(image, keras.layers.Flatten()(x)).export(str(directory), verbose=False)


def _save_others(directory: Path) -> None:
    """What TensorFlow does not save: models without signature, of other tags, and damaged ones."""
    tf.saved_model.save(tf.Module(), str(directory / "no_signature"))
    path = directory / "free_axes" / "saved_model.pb"
    for name in (
        "wrong_tags",
        "custom_op",
        "damaged",
        "huge",
        "text_form",
        "sparse_input",
        "unknown_signature",
    ):
        (directory / name).mkdir()
        message = saved_model_pb2.SavedModel.FromString(
            (directory / "unsupported_op" / "saved_model.pb").read_bytes()
        )
        meta_graph = message.meta_graphs[0]
        if name == "wrong_tags":
            meta_graph.meta_info_def.tags[:] = ["gpu"]
            message.meta_graphs.add().CopyFrom(meta_graph)
            message.meta_graphs[1].meta_info_def.tags[:] = ["tpu"]
        for function in meta_graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "BesselJ0" and name == "custom_op":
                    node.op = "MyFancyOp"
        if name == "sparse_input":
            info = meta_graph.signature_def["serving_default"].inputs["x"]
            part = info.name
            info.coo_sparse.values_tensor_name = part
            info.coo_sparse.indices_tensor_name = part
            info.coo_sparse.dense_shape_tensor_name = part
        content = message.SerializeToString()
        (directory / name / "saved_model.pb").write_bytes(
            content[: len(content) // 2] if name == "damaged" else content
        )
    (directory / "text_form" / "saved_model.pbtxt").touch()
    with (directory / "huge" / "saved_model.pb").open("r+b") as file:
        file.truncate((2 << 30) + 1)  # a hole, which needs no disk
    (directory / "absent").mkdir()
    (directory / "absent" / "notes.txt").write_bytes(path.read_bytes()[:10])


if __name__ == "__main__":
    save(Path(sys.argv[1]))
