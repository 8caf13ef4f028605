"""TensorFlow's side: the same SavedModel, loaded and called in graph mode."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from timing import serve  # type: ignore[import-not-found]  # it lies beside this script

start = time.perf_counter()
import tensorflow as tf  # its import is timed

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
loaded = tf.saved_model.load(sys.argv[2])
import_ms = (time.perf_counter() - start) * 1e3

signature = loaded.signatures["serving_default"]
(name,) = signature.structured_input_signature[1]
(output,) = signature.structured_outputs


def predict(images: Any) -> Any:
    """Probabilities, float32 of shape [n, 10], for images of shape [n, 8, 8, 1]."""
    return signature(**{name: tf.constant(images)})[output].numpy()


data = np.load(sys.argv[1])
probabilities = predict(data["images"])
accuracy = float((probabilities.argmax(axis=1) == data["labels"]).mean())
serve(
    {"accuracy": accuracy, "import_ms": import_ms, "probabilities": probabilities.tolist()},
    predict,
    data["images"],
)
