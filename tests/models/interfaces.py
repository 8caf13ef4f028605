"""Models whose inputs and outputs are unusual: python -m tests.models.interfaces DIRECTORY."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

_WEIGHTS = np.random.default_rng(9)


def save_interfaces(directory: Path) -> None:
    """Saves every model below the directory."""
    models = {
        "batched": batched,
        "whole": whole,
        "lengths": lengths,
        "unmasked": unmasked,
        "halves": halves,
    }
    for name, function in models.items():
        module = tf.Module()
        module.call = function
        signatures = {"serving_default": function.get_concrete_function()}
        tf.saved_model.save(module, str(directory / name), signatures=signatures)


def _weights(*shape: int) -> Any:
    return tf.constant(_WEIGHTS.standard_normal(shape).astype(np.float32))


def _function(**shapes: tuple[Any, Any]) -> Any:
    specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in shapes.items()]
    return tf.function(input_signature=specs)


@_function(
    input_1=([None, 3], tf.float32),
    flag=([None], tf.bool),
    count=([None, 2], tf.int64),
    nothing=([None, 0], tf.float32),
    unused=([None, 5], tf.int16),
    shared=([], tf.float32),
)
def batched(  # type: ignore[no-untyped-def]
    input_1,
    flag,
    count,
    nothing,
    unused,  # noqa: ARG001
    shared,
):
    """Rows of all kinds, one input that nothing uses and one that all rows share."""
    y = tf.tanh(input_1 @ _weights(3, 6)) * shared
    return {
        "output_0": y,
        "copy": input_1,
        "again": y,
        "flag": tf.logical_not(flag),
        "chosen": tf.where(flag, count[:, 0], count[:, 1]),
        "several": tf.reshape(y, [-1, 2]),
        "empty": tf.concat([nothing, nothing * 2], axis=1),
        "empty_part": y[:, 2:2],
        "with_empty": tf.concat([y, tf.zeros([tf.shape(y)[0], 0])], axis=1) + 1,
        "sum": tf.reduce_sum(y, axis=1),
    }


@_function(x=([2, 3], tf.float32), k=([], tf.int32), a=([], tf.bool), empty=([0, 4], tf.float32))
def whole(x, k, a, empty):  # type: ignore[no-untyped-def]
    """No batch axis: constants, scalars and aliases."""
    return {
        "constant": tf.constant([[1.5, -2.0]]),
        "empty_constant": tf.zeros([3, 0], tf.int32),
        "scalar": tf.reduce_sum(x) * tf.cast(k, tf.float32),
        "k": k,
        "either": tf.where(a, k, -k),
        "k_again": k,
        "empty_sum": tf.reduce_sum(empty, axis=0),
        "empty_product": tf.matmul(tf.zeros([2, 0]), empty) + x[:, :1],
        "product": x @ _weights(3, 2),
    }


@_function(
    tokens=([None, None], tf.int32),
    mask=([None, None], tf.float32),
    bias=([None], tf.float32),
)
def lengths(tokens, mask, bias):  # type: ignore[no-untyped-def]
    """A masked attention over tokens: padding changes nothing where the mask is zero."""
    x = tf.gather(_weights(7, 4), tokens) + bias[None, :, None]
    scores = tf.einsum("bid,bjd->bij", x @ _weights(4, 4), x) + (mask[:, None, :] - 1) * 1e9
    y = tf.nn.softmax(scores) @ x
    mean = tf.reduce_sum(y * mask[:, :, None], 1) / (tf.reduce_sum(mask, 1, keepdims=True) + 1)
    return {
        "each": y * mask[:, :, None],
        "flat": tf.reshape(y * mask[:, :, None], [-1, 4]),
        "pairs": tf.nn.softmax(scores) * mask[:, :, None],
        "twice": tf.repeat(mask, 2, axis=1),
        "mean": mean,
    }


@_function(x=([None, None, 3], tf.float32))
def unmasked(x):  # type: ignore[no-untyped-def]
    """A mean over the length, without a mask."""
    return {"mean": tf.reduce_mean(x, axis=1)}


@_function(x=([None, None, 3], tf.float32))
def halves(x):  # type: ignore[no-untyped-def]
    """Every second element: half as many, rounded up."""
    return {"half": x[:, ::2] * 2}


if __name__ == "__main__":
    save_interfaces(Path(sys.argv[1]))
