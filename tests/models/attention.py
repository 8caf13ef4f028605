"""A model of attention with masks: `attention.py DIRECTORY` writes a SavedModel.

Masks are written as Keras 2 and 3 and PyTorch write them: a large number that is added, or a condition that chooses. The last
layers are a loop over their weights, as `jax.lax.scan` has them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

TOKENS, HEADS, WIDTH, LAYERS = 37, 3, 8, 3
LARGE = -1e9


def _values(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32) / 4


def _weights(seed: float) -> np.ndarray[Any, Any]:
    weights: np.ndarray[Any, Any] = _values(HEADS * WIDTH, HEADS * WIDTH) * np.float32(seed)
    return weights


def _heads(x: Any, weights: Any) -> Any:
    return tf.transpose(tf.reshape(x @ weights, [-1, TOKENS, HEADS, WIDTH]), [0, 2, 1, 3])


def _attention(x: Any, weights: Sequence[Any], masked: Any) -> Any:
    query, key, value = (_heads(x, one) for one in weights)
    scores = tf.matmul(query, key, transpose_b=True) * 0.35
    mixed = tf.matmul(tf.nn.softmax(masked(scores)), value)
    return x + tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, TOKENS, HEADS * WIDTH])


def _serve(x: Any, bias: Any, tokens: Any) -> dict[str, Any]:
    here = tf.not_equal(tokens, 0)[:, None, None, :]
    causal = tf.linalg.band_part(tf.ones([TOKENS, TOKENS], tf.bool), -1, 0)
    both = tf.logical_and(here, causal)
    added = (1.0 - tf.cast(here, tf.float32)) * LARGE
    absent = tf.equal(tokens, 0)[:, None, None, :]
    masks = (
        lambda scores: scores + added,
        lambda scores: scores + bias[:, None],
        lambda scores: tf.where(causal, scores, LARGE),
        lambda scores: tf.where(both, scores, -np.inf),
        lambda scores: tf.where(absent, -np.inf, scores),
        lambda scores: tf.where(here, scores + bias[:, None], LARGE),
        lambda scores: scores + _values(1, HEADS, TOKENS, TOKENS),
    )
    seeds = (1.0, -2.0, 1.5)
    for number, masked in enumerate(masks):
        x = _attention(x, [_weights(seed + number / 64) for seed in seeds], masked)
    layers = [tf.stack([_weights(seed + n / 8) for n in range(LAYERS)]) for seed in seeds]

    def layer(number: Any, x: Any) -> tuple[Any, Any]:
        return number + 1, _attention(x, [one[number] for one in layers], masks[3])

    _, x = tf.while_loop(lambda number, _: number < LAYERS, layer, (0, x))
    return {"y": x}


def save(directory: str) -> None:
    """Saves the model."""
    model = tf.Module()
    shapes = {
        "x": [None, TOKENS, HEADS * WIDTH],
        "bias": [None, TOKENS, TOKENS],
        "tokens": [None, TOKENS],
    }
    specs = [
        tf.TensorSpec(shape, tf.int32 if name == "tokens" else tf.float32, name=name)
        for name, shape in shapes.items()
    ]
    model.serve = tf.function(_serve, input_signature=specs)
    tf.saved_model.save(model, directory, signatures=model.serve)


if __name__ == "__main__":
    save(sys.argv[1])
