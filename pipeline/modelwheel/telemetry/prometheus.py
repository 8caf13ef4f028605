"""Metrics of a running build for Prometheus, over HTTP and, when it ends, in a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    start_http_server,
    write_to_textfile,
)

from .. import __version__
from ..engine.reporting import SilentReporter, kind_of
from ..engine.tally import Tally
from ..errors import EnvironmentProblemError, ModelwheelError

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Upper bounds of the histogram: from the link of a small wheel to the longest step that is allowed by default."""


class Metrics(SilentReporter):
    """Counts what a build reports, in a registry of its own. The names are in docs/clusters.md."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._tally = Tally()
        ProcessCollector(registry=registry)
        Info("modelwheel_build", "What runs.", registry=registry).info({"version": __version__})
        self._steps = Counter(
            "modelwheel_steps", "Steps that ended.", ("kind", "result"), registry=registry
        )
        self._seconds = Histogram(
            "modelwheel_step_seconds",
            "Seconds of the steps that ran.",
            ("kind",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._bytes = Counter(
            "modelwheel_result_bytes",
            "Bytes of results, made or found in the store.",
            ("kind", "result"),
            registry=registry,
        )
        self._losses = Counter(
            "modelwheel_worker_losses", "Workers that were lost.", registry=registry
        )
        self._retries = Counter(
            "modelwheel_step_retries", "Steps that started again.", ("kind",), registry=registry
        )
        for name, help_, value in (
            ("queue_steps", "Steps that have not started.", lambda: self._tally.queue),
            ("running_steps", "Steps that run now.", lambda: len(self._tally.running())),
            ("workers", "Workers of the cluster.", lambda: self._tally.workers),
        ):
            Gauge(f"modelwheel_{name}", help_, registry=registry).set_function(value)

    def planned(self, names: Sequence[str]) -> None:
        self._tally.planned(names)

    def started(self, name: str, worker: str | None = None) -> None:
        self._tally.started(name, worker)

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        self._tally.finished(name, seconds, cached=cached, size=size)
        kind, result = kind_of(name), "cached" if cached else "run"
        self._steps.labels(kind, result).inc()
        self._bytes.labels(kind, result).inc(size or 0)
        if not cached:
            self._seconds.labels(kind).observe(seconds)

    def failed(self, name: str, error: ModelwheelError) -> None:
        self._tally.failed(name, error)
        self._steps.labels(kind_of(name), "failed").inc()

    def worker_joined(self, name: str, slots: int) -> None:
        self._tally.worker_joined(name, slots)

    def worker_lost(self, name: str, why: str) -> None:
        self._tally.worker_lost(name, why)
        self._losses.inc()

    def retried(self, step: str, worker: str, attempt: int) -> None:  # noqa: ARG002 - the step alone counts
        self._retries.labels(kind_of(step)).inc()


@contextmanager
def serve(metrics: Metrics, host: str, port: int) -> Iterator[str]:
    """Answers Prometheus while a build runs; yields the address.

    Args:
        metrics: What is told.
        host: The address to listen at.
        port: 0 for one that is free.

    Raises:
        EnvironmentProblemError: Nobody can listen there.
    """
    server: WSGIServer
    thread: threading.Thread
    try:
        server, thread = start_http_server(port, host, registry=metrics.registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EnvironmentProblemError(
            f"metrics cannot be served at {host}:{port}: {reason}; choose another port"
        ) from None
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_file(metrics: Metrics, path: Path) -> None:
    """Writes the metrics for the textfile collector of Prometheus's node exporter; it sees a whole file or none.

    Raises:
        EnvironmentProblemError: The file cannot be written.
    """
    try:
        write_to_textfile(str(path), metrics.registry)
    except OSError as error:
        raise EnvironmentProblemError(
            f"cannot write the metrics to {path}: {error.strerror or error}"
        ) from None
