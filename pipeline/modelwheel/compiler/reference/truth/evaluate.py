"""Evaluates a frozen graph as it is: in a session, call after call, or compiled by XLA."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import wrap_function

from ....model.messages import first_line
from ....workers.endings import is_about_memory
from ...freeze.canonical import rename_functions
from ...freeze.frozen import FrozenGraph
from ...loaded.base import Arrays
from ...stablehlo.judge_module import MODULE_OP
from .convolution import expand_integer_convolutions, has_integer_convolutions
from .missing import NoTruthError
from .module_texts import texts_of, with_texts

_Call: TypeAlias = Callable[[Arrays], Arrays]

_KEPT_BYTES = 64 << 20
"""Of all graphs whose sessions are kept: XLA compiles a graph of thousands of operations for longer than it runs, whatever
its weights take."""

_MOST_MODULES = 16
"""In a graph that is not compiled as a whole: TensorFlow compiles each module by itself, for a tenth of a second."""


class _Sessions:
    """The sessions of graphs without state, each by what the graph is."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._calls: dict[str, _Call] = {}
        self._left = _KEPT_BYTES

    def call(self, graph_def: Any, frozen: FrozenGraph) -> _Call | None:
        """The function of a session that is kept; None if this one is not."""
        size = graph_def.ByteSize()
        if frozen.state or size > _KEPT_BYTES:
            return None
        content = hashlib.sha256(graph_def.SerializeToString(deterministic=True))
        content.update(
            repr((sorted(frozen.feeds.items()), sorted(frozen.fetches.items()))).encode()
        )
        key = content.hexdigest()
        if key not in self._calls:
            if size > self._left:
                return None
            self._calls[key] = self._stack.enter_context(_session(graph_def, frozen))
            self._left -= size
        return self._calls[key]


_sessions: ContextVar[_Sessions | None] = ContextVar("_sessions", default=None)


@contextmanager
def kept_sessions() -> Iterator[None]:
    """Within it, `opened` keeps sessions of small graphs open: boundary rows and others often need the same graph."""
    with ExitStack() as stack:
        token = _sessions.set(_Sessions(stack))
        try:
            yield
        finally:
            _sessions.reset(token)


@contextmanager
def opened(graph_def: Any, frozen: FrozenGraph) -> Iterator[_Call]:
    """A function that computes the outputs of a call, of calls in a row from the first state on.

    Args:
        graph_def: The frozen graph, perhaps with other types.
        frozen: Says what its inputs, outputs and state are. Inputs are converted to the types of the graph.

    Raises:
        NoTruthError: TensorFlow has no kernels for these types; the function raises it too.
    """
    sessions = _sessions.get()
    kept = None if sessions is None else sessions.call(graph_def, frozen)
    if kept is not None:
        yield kept
        return
    with _session(graph_def, frozen) as call:
        yield call


@contextmanager
def _session(graph_def: Any, frozen: FrozenGraph) -> Iterator[_Call]:
    modules = sum(node.op == MODULE_OP for node in graph_def.node)
    # Otherwise it is not copied: its weights may be large.
    if any(map(has_integer_convolutions, texts_of(graph_def))):
        graph_def = with_texts(graph_def, expand_integer_convolutions)
    if modules > _MOST_MODULES:
        with _without_kernels():
            compiled = _compiled(graph_def, frozen)

        def call_compiled(inputs: Arrays) -> Arrays:
            with _without_kernels():
                return compiled(inputs)

        yield call_compiled
        return
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
    with _without_kernels():
        call = _compiled(frozen.graph_def, frozen)
        return [call(inputs) for inputs in calls]


def _compiled(graph_def: Any, frozen: FrozenGraph) -> _Call:
    """A function that computes the outputs of a call, in one program of XLA; see `opened`."""
    graph_def = _with_own_functions(graph_def)
    state = {v.node: v.value for v in frozen.state}
    variables = {
        node.name: tf.Variable(tf.cast(state[node.name], node.attr["dtype"].type), trainable=False)
        for node in graph_def.node
        if node.name in state
    }

    def build() -> None:
        # XLA compiles variables that are passed to a function, but not operations that make some.
        handles = {f"{node}:0": tf.convert_to_tensor(v.handle) for node, v in variables.items()}
        tf.import_graph_def(graph_def, input_map=handles, name="")

    wrapped = wrap_function.wrap_function(build, [])
    feeds = {name: _tensor(wrapped.graph, node) for name, node in frozen.feeds.items()}
    fetches = [_tensor(wrapped.graph, node) for node in frozen.fetches.values()]
    specs = tuple(tf.TensorSpec(feed.shape, feed.dtype) for feed in feeds.values())
    pruned = wrapped.prune([*feeds.values()], fetches, input_signature=(specs, {}))

    def flat(*tensors: Any) -> Any:
        return pruned(*tensors)

    function = tf.function(flat, autograph=False, jit_compile=True)

    def call(inputs: Arrays) -> Arrays:
        fed = (tf.constant(np.asarray(inputs[n], t.dtype.as_numpy_dtype)) for n, t in feeds.items())
        return {n: v.numpy() for n, v in zip(frozen.fetches, function(*fed), strict=True)}

    return call


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
