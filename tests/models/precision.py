"""Models whose float32 is more or less far from exact arithmetic: for test_precision.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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


def _images(x: Any, w: Any) -> dict[str, Any]:
    """What has no kernel for float64, also in the body of a loop; images of 5 x 4 pixels."""
    resize = tf.raw_ops.ResizeBilinear
    looped = x
    for step in tf.range(2):
        larger = resize(images=looped, size=[7, 6], half_pixel_centers=True)
        looped = resize(images=larger, size=[5, 4]) + tf.cast(step, tf.float32)
    pixels = tf.cast(tf.abs(x) * 100.0, tf.uint8)
    # As TensorFlow 1 has arrays.
    array, flow = tf.raw_ops.TensorArrayV3(size=2, dtype=tf.float32)
    for place in range(2):
        flow = tf.raw_ops.TensorArrayWriteV3(
            handle=array, index=place, value=x * (place + 0.3), flow_in=tf.identity(flow)
        )
    values = tf.raw_ops.TensorArrayGatherV3(
        handle=array, indices=[1, 0], flow_in=flow, dtype=tf.float32
    )
    normal, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x,
        scale=w[:2],
        offset=w[2:4],
        mean=w[4:6],
        variance=w[6:8],
        epsilon=1e-3,
        is_training=False,
    )
    volume = tf.stack([x, x * 0.5, -x], 1)
    filters = np.cos(np.arange(108, dtype=np.float32)).reshape(3, 2, 3, 3, 2)
    larger = tf.nn.conv3d_transpose(volume, filters, [tf.shape(x)[0], 6, 9, 4, 3], [2, 2, 1])
    return {
        "volume": tf.nn.max_pool3d(larger, [2, 3, 2], [2, 2, 1], "SAME"),
        "half_pixels": resize(images=x, size=[9, 3], half_pixel_centers=True),
        "corners": resize(images=x, size=[8, 1], align_corners=True),
        "legacy": resize(images=x, size=[3, 7]),
        "looped": looped,
        "pixels": resize(images=pixels, size=[2, 11], half_pixel_centers=True),
        "normal": normal,
        "array": values[0] - values[1] * 0.7,
    }


def _save(directory: Path, outputs: Any, shape: Sequence[int] = (16,)) -> None:
    module = tf.Module()
    module.weights = tf.Variable(np.load(directory.parent / "weights.npy"))
    specs = [tf.TensorSpec([None, *shape], tf.float32, name="x")]

    def call(x: Any) -> Any:
        return outputs(x, module.weights)

    function = tf.function(call, input_signature=specs)
    tf.saved_model.save(module, str(directory), function)


def save_all(directory: Path) -> None:
    """Saves the models beside the file of their weights.

    `precise`: errors that can be told apart; `chaotic`: errors that grow without bounds; `leaking`: rows that
    depend on each other only if one is not finite; `images`: operations that TensorFlow computes in float32 only.
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
    _save(directory / "images", _images, [5, 4, 2])
    _save(directory / "chaotic", lambda x, w: {"y": _ricker(tf.abs(x) + 0.0 * w, CHAOTIC_STEPS)})


if __name__ == "__main__":
    save_all(Path(sys.argv[1]))
