"""Evaluates a frozen graph as it is: in a session, call after call, or compiled by XLA."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import wrap_function

from ....model.messages import first_line
from ....workers.endings import is_about_memory
from ...freeze.canonical import rename_functions
from ...freeze.frozen import FrozenGraph
from ...loaded.base import Arrays
from .missing import NoTruthError


@contextmanager
def opened(graph_def: Any, frozen: FrozenGraph) -> Iterator[Callable[[Arrays], Arrays]]:
    """A function that computes the outputs of a call, of calls in a row from the first state on.

    Args:
        graph_def: The frozen graph, perhaps with other types.
        frozen: Says what its inputs, outputs and state are. Inputs are converted to the types of the graph.

    Raises:
        NoTruthError: TensorFlow has no kernels for these types; the function raises it too.
    """
    graph = tf.Graph()
    # The graph is the default one only while it is made: in between, others are, or none.
    with closing(tf.compat.v1.Session(graph=graph, config=_config())) as session:
        with graph.as_default(), _without_kernels():
            tf.import_graph_def(graph_def, name="")
            feeds = {name: _tensor(graph, node) for name, node in frozen.feeds.items()}
            fetches = {name: _tensor(graph, node) for name, node in frozen.fetches.items()}
            for variable in frozen.state:
                handle = _tensor(graph, variable.node)
                dtype = tf.dtypes.as_dtype(handle.op.get_attr("dtype")).as_numpy_dtype
                value = np.asarray(variable.value, dtype)
                session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=value))

        def call(inputs: Arrays) -> Arrays:
            fed = {t: np.asarray(inputs[n], t.dtype.as_numpy_dtype) for n, t in feeds.items()}
            with _without_kernels():
                outputs: Arrays = session.run(fetches, fed)
            return outputs

        yield call


@contextmanager
def _without_kernels() -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, ValueError, TypeError, MemoryError) as error:
        raise NoTruthError(_reason(error)) from error


def run_calls(graph_def: Any, frozen: FrozenGraph, calls: Iterable[Arrays]) -> list[Arrays]:
    """The outputs of calls in a row, from the first state on; see `opened`."""
    with opened(graph_def, frozen) as call:
        return [call(inputs) for inputs in calls]


def run_compiled(frozen: FrozenGraph, calls: Iterable[Arrays]) -> list[Arrays]:
    """The outputs of calls in a row, from the first state on, of the graph as XLA compiles it for this machine.

    Raises:
        NoTruthError: XLA refuses it.
    """
    graph_def = _with_own_functions(frozen.graph_def)
    state = {v.node: tf.Variable(v.value, trainable=False) for v in frozen.state}

    def build() -> None:
        # XLA compiles variables that are passed to a function, but not operations that make some.
        handles = {f"{node}:0": tf.convert_to_tensor(v.handle) for node, v in state.items()}
        tf.import_graph_def(graph_def, input_map=handles, name="")

    try:
        wrapped = wrap_function.wrap_function(build, [])
        feeds = [_tensor(wrapped.graph, node) for node in frozen.feeds.values()]
        fetches = [_tensor(wrapped.graph, node) for node in frozen.fetches.values()]
        specs = tuple(tf.TensorSpec(feed.shape, feed.dtype) for feed in feeds)
        pruned = wrapped.prune(feeds, fetches, input_signature=(specs, {}))

        def call(*tensors: Any) -> Any:
            return pruned(*tensors)

        function = tf.function(call, autograph=False, jit_compile=True)
        results: list[Arrays] = []
        for inputs in calls:
            values = function(*(tf.constant(inputs[name]) for name in frozen.feeds))
            results.append({n: v.numpy() for n, v in zip(frozen.fetches, values, strict=True)})
    except (tf.errors.OpError, ValueError, TypeError, MemoryError) as error:
        raise NoTruthError(_reason(error)) from error
    return results


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError) or is_about_memory(str(error)):
        return "memory ran out; raise `memory_gb` of [sandbox] in modelwheel.toml"
    return first_line(error)


def _with_own_functions(graph_def: Any) -> Any:
    """A copy whose functions have names of their own: graphs of one process must not share names for different ones."""
    copy = type(graph_def)()
    copy.CopyFrom(graph_def)
    digest = hashlib.sha256(copy.library.SerializeToString(deterministic=True)).hexdigest()[:16]
    names = [function.signature.name for function in copy.library.function]
    rename_functions(copy, {name: f"{name}_{digest}" for name in names})
    return copy


def _tensor(graph: tf.Graph, node: str) -> Any:
    return graph.get_tensor_by_name(f"{node}:0")


def _config() -> Any:
    """Without the optimisations that would copy the weights."""
    config = config_pb2.ConfigProto()
    config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
