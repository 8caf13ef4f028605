"""TensorFlow as a side of `modelwheel bench`: functions of a SavedModel, with and without XLA's jit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
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
        self._path, self._jit = path, jit
        self._load()

    def _load(self) -> None:
        self._model = tf.saved_model.load(self._path)  # its variables live as long as this
        self._function = self._model.signatures[_SIGNATURE]
        graph = self._function.graph.as_graph_def()
        nodes = chain(graph.node, *(function.node_def for function in graph.library.function))
        self._has_state = any(node.op.startswith("Assign") for node in nodes)
        self._compiled = tf.function(lambda arrays: self._function(**arrays), jit_compile=True)

    def _begin(self) -> None:
        """Puts variables back to what they are in the file."""
        if self._has_state:
            self._load()

    def bind(
        self, inputs: Mapping[str, np.ndarray[Any, Any]]
    ) -> tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]:
        """A call with tensors that have these values."""
        self._begin()
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        function = self._function
        if self._jit:
            specs = {name: tf.TensorSpec.from_tensor(t) for name, t in tensors.items()}
            concrete = self._compiled.get_concrete_function(specs)
            call: Callable[[], Any] = lambda: concrete(tensors)
        else:
            call = lambda: function(**tensors)
        return call, _arrays

    def plain(
        self,
    ) -> tuple[
        Callable[[Mapping[str, np.ndarray[Any, Any]]], Any], Callable[[Any], dict[str, Any]]
    ]:
        """A call that makes tensors of its inputs; XLA compiles the function for each shape that it meets."""
        self._begin()
        function: Callable[[dict[str, Any]], Any] = (
            self._compiled if self._jit else lambda tensors: self._function(**tensors)
        )
        call = lambda inputs: function({name: tf.constant(a) for name, a in inputs.items()})
        return call, _arrays


def _arrays(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
