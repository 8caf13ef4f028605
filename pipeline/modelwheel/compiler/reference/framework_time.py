"""How long the framework takes for a call, on one thread: what a compiled model is compared with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from ...levels import cpu_name
from ...model.messages import first_line
from ...model.reference_result import FrameworkTime, FrameworkTimes
from ...model.shapes import batched_inputs, static_shapes
from ...util.text import one_line
from ...workers.jobs import ReferenceRequest
from ..loaded.base import Arrays, LoadedModel
from .drawn_inputs import draw_inputs

_SECONDS = 0.05
"""How long each number of rows is timed, after a call that counts for nothing."""
_SLOW = 3.0
"""Seconds that a call may take, by the time of each row in one before; larger numbers of rows are left out. They would need
much memory, too."""
_MAX_GRAPH = 500 << 20
"""Bytes: the graph is in memory once more while it is timed."""


class _UntimedError(Exception):
    """Why a model is not timed, as a clause."""


def allow_one_thread() -> None:
    """Lets sessions have threads of their own; all of a process share those of the first one otherwise.

    TensorFlow reads this once, before it runs anything (tensorflow/core/common_runtime/local_device.cc).
    """
    os.environ["TF_OVERRIDE_GLOBAL_THREADPOOL"] = "1"


def time_framework(loaded: LoadedModel, request: ReferenceRequest) -> FrameworkTimes:
    """The times of calls with each batch size, or why there are none. It never fails."""
    by, cpu = f"{loaded.evaluator} on one thread", cpu_name()
    times: list[FrameworkTime] = []
    missing = None
    try:
        timed = _choose(loaded, request)
        row = 0.0
        for rows in request.batch_sizes or (1,):
            if rows * row > _SLOW:
                break
            seconds = timed(_inputs(loaded, request, rows))
            times.append(FrameworkTime(rows=rows, nanoseconds=round(seconds * 1e9, 1)))
            row = seconds / rows
    except Exception as error:  # noqa: BLE001 - of any class: the wheel does not depend on it
        missing = one_line(first_line(error))
    return FrameworkTimes(framework=by, cpu=cpu, times=tuple(times), missing=missing)


def _choose(loaded: LoadedModel, request: ReferenceRequest) -> Callable[[Arrays], float]:
    if request.keep_state:
        raise _UntimedError("it keeps state")
    if loaded.evaluator.startswith("ONNX Runtime"):
        return lambda inputs: _time_runtime(loaded, inputs)
    if loaded.evaluator.startswith("TensorFlow"):
        return lambda inputs: _time_graph(loaded, inputs)
    raise _UntimedError(f"{loaded.evaluator} is not timed")


def _inputs(loaded: LoadedModel, request: ReferenceRequest, rows: int) -> Arrays:
    batched = bool(batched_inputs(loaded.info, request.shapes))
    shapes = static_shapes(loaded.info, request.shapes, rows if batched else None)
    return draw_inputs(loaded.info, shapes, request.seed, request)


def _time_runtime(loaded: LoadedModel, inputs: Arrays) -> float:
    """With all optimisations, which the reference is computed without; its sessions have one thread."""
    from ..formats.onnx.onnx_evaluate import optimised

    with optimised():
        return _best(lambda: loaded(inputs))


def _time_graph(loaded: LoadedModel, inputs: Arrays) -> float:
    """As a graph with constants for its variables and all optimisations: the fastest that TensorFlow offers without XLA."""
    graph = loaded.graph({name: values.shape for name, values in inputs.items()})
    if graph.graph_def.ByteSize() > _MAX_GRAPH:
        raise _UntimedError("its graph is too large")
    threads = config_pb2.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=1,
        use_per_session_threads=True,
    )
    with tf.Graph().as_default(), tf.compat.v1.Session(config=threads) as session:
        tf.import_graph_def(graph.graph_def, name="")
        fetches = [fetch.tensor for fetch in graph.fetches.values()]
        call = session.make_callable(fetches, [f"{node}:0" for node in graph.feeds.values()])
        values = [inputs[name] for name in graph.feeds]
        return _best(lambda: call(*values))


def _best(call: Callable[[], object]) -> float:
    """The shortest of some calls."""
    call()
    end, best = time.perf_counter() + _SECONDS, float("inf")
    while time.perf_counter() < end:
        before = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - before)
    return best
