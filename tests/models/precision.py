"""Models whose float32 is more or less far from exact arithmetic: for test_precision.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

SENSITIVE_STEPS, CHAOTIC_STEPS = 14, 80


def _ricker(x: Any, steps: int) -> Any:
    """Ricker's map, a model of populations: each step about doubles errors."""
    for _ in range(steps):
        x = x * tf.exp(3.0 * (1.0 - x))
    return x


def _save(directory: Path, outputs: Any) -> None:
    module = tf.Module()
    module.weights = tf.Variable(np.load(directory.parent / "weights.npy"))
    specs = [tf.TensorSpec([None, 16], tf.float32, name="x")]

    def call(x: Any) -> Any:
        return outputs(x, module.weights)

    function = tf.function(call, input_signature=specs)
    tf.saved_model.save(module, str(directory), function)


def save_all(directory: Path) -> None:
    """Saves the models beside the file of their weights.

    `precise`: errors that can be told apart; `chaotic`: errors that grow without bounds; `leaking`: rows that
    depend on each other only if one is not finite.
    """
    _save(
        directory / "precise",
        lambda x, w: {
            "scaled": x * w,
            "sensitive": _ricker(tf.abs(x), SENSITIVE_STEPS),
            "decided": tf.argmax(x * w, -1),
        },
    )
    _save(directory / "leaking", lambda x, w: {"y": x * w + 0.0 * tf.reduce_sum(x)})
    _save(directory / "chaotic", lambda x, w: {"y": _ricker(tf.abs(x) + 0.0 * w, CHAOTIC_STEPS)})


if __name__ == "__main__":
    save_all(Path(sys.argv[1]))
