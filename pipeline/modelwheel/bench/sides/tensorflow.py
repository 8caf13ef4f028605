"""TensorFlow as a side of `modelwheel bench`: functions of a SavedModel, with and without XLA's jit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

_SIGNATURE = "serving_default"


class TensorFlowSide:
    """The function of a SavedModel's signature.

    Args:
        path: The SavedModel.
        threads: For each operation.
        jit: Whether XLA compiles the function.
    """

    def __init__(self, path: str, threads: int, *, jit: bool) -> None:
        self.version: str = tf.__version__
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self._model = tf.saved_model.load(path)  # its variables live as long as this
        self._function = self._model.signatures[_SIGNATURE]
        self._jit = jit

    def bind(
        self, inputs: Mapping[str, np.ndarray[Any, Any]]
    ) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
        """A call with tensors that have these values."""
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        function = self._function
        if self._jit:
            specs = {name: tf.TensorSpec.from_tensor(t) for name, t in tensors.items()}
            compiled = tf.function(lambda arrays: self._function(**arrays), jit_compile=True)
            concrete = compiled.get_concrete_function(specs)
            call: Callable[[], Any] = lambda: concrete(tensors)
        else:
            call = lambda: function(**tensors)
        return call, lambda: {name: tensor.numpy() for name, tensor in call().items()}
