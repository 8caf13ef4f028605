"""OpenTelemetry traces: a span for a build, and one below it for each step, sent by OTLP over HTTP.

The standard variables configure it: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .. import __version__
from ..engine.reporting import SilentReporter, kind_of
from ..errors import ModelwheelError
from ..util.text import one_line

_NANOSECONDS = 1_000_000_000

_PAUSE = 60.0
"""Seconds."""

_QUEUE = 1 << 16
"""Spans that wait to be sent, unless the standard variable says otherwise: results in the store come by thousands."""


class Traces(SilentReporter):
    """Makes the spans.

    Args:
        provider: Takes them.
        command: The name of the span of the build.
        parent: Headers of the W3C trace context, if the build belongs to a trace, such as that of a CI job.
    """

    def __init__(
        self, provider: TracerProvider, command: str, parent: Mapping[str, str] | None = None
    ) -> None:
        self._tracer = provider.get_tracer("modelwheel", __version__)
        context = TraceContextTextMapPropagator().extract(parent or {})
        self._build = self._tracer.start_span(command, context)
        self._below = set_span_in_context(self._build)
        self._guard = threading.Lock()
        self._started: dict[str, tuple[int, str | None]] = {}

    def started(self, name: str, worker: str | None = None) -> None:
        with self._guard:
            self._started[name] = time.time_ns(), worker

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        values: dict[str, str | int | bool] = {"modelwheel.cached": cached}
        if size is not None:
            values["modelwheel.bytes"] = size
        self._add(name, seconds, Status(StatusCode.OK), values)

    def failed(self, name: str, error: ModelwheelError) -> None:
        status = Status(StatusCode.ERROR, one_line(error))
        self._build.set_status(Status(StatusCode.ERROR, f"{one_line(name)} failed"))
        self._add(name, 0.0, status, {"error.type": error.code})

    def connected(self, address: str, dashboard: str | None) -> None:  # noqa: ARG002 - of people
        self._build.set_attribute("modelwheel.cluster", address)

    def worker_lost(self, name: str, why: str) -> None:
        values = {"modelwheel.worker": name, "modelwheel.why": one_line(why)}
        self._build.add_event("worker lost", values)

    def retried(self, step: str, worker: str, attempt: int) -> None:
        values = {"modelwheel.step": step, "modelwheel.worker": worker}
        self._build.add_event("step retried", {**values, "modelwheel.attempt": attempt})

    def _add(
        self, name: str, seconds: float, status: Status, values: Mapping[str, str | int | bool]
    ) -> None:
        end = time.time_ns()
        with self._guard:
            start, worker = self._started.pop(name, (end - int(seconds * _NANOSECONDS), None))
        span = self._tracer.start_span(
            kind_of(name), self._below, start_time=start, attributes={"modelwheel.step": name}
        )
        if worker is not None:
            span.set_attribute("modelwheel.worker", worker)
        span.set_attributes(values)
        span.set_status(status)
        span.end(max(start, end))

    def end(self, error: BaseException | None = None) -> None:
        """Ends the span of the build."""
        if error is not None:
            self._build.set_status(Status(StatusCode.ERROR, one_line(type(error).__name__)))
        self._build.end()


class _Exporter(SpanExporter):
    """Counts the spans that were lost, which the exporter itself only logs; leaves a collector that failed alone for a while.

    The exporter tries for ten seconds, again for each 512 spans. Without the pause, the end of a build would wait for all of them.
    """

    def __init__(self) -> None:
        self._exporter = OTLPSpanExporter()
        self._pause_until = 0.0
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        if time.monotonic() >= self._pause_until:
            result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.lost += len(spans)
            self._pause_until = time.monotonic() + _PAUSE
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _resource() -> Resource:
    resource = Resource.create()
    own = {"service.version": __version__}
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        own["service.name"] = "modelwheel"
    return resource.merge(Resource(own))


@contextmanager
def send(
    command: str, tell: Callable[[str], object], environment: Mapping[str, str] = os.environ
) -> Iterator[Traces]:
    """Sends what the build reports. A collector that does not answer delays the end by seconds, and fails nothing.

    Args:
        command: The name of the span of the build.
        tell: Called with a sentence if something could not be sent.
        environment: Where the trace that the build belongs to is named.
    """
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    if level == logging.NOTSET:  # unless somebody asked for it
        logger.setLevel(logging.CRITICAL)
    provider = TracerProvider(resource=_resource())
    exporter = _Exporter()
    size = int(environment.get("OTEL_BSP_MAX_QUEUE_SIZE") or _QUEUE)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=size))
    names = {"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE"}
    parent = {name: environment[key] for name, key in names.items() if environment.get(key)}
    traces = Traces(provider, command, parent)
    try:
        yield traces
        traces.end()
    except BaseException as error:
        traces.end(error)
        raise
    finally:
        provider.shutdown()
        logger.setLevel(level)
        if exporter.lost:
            tell(
                f"{exporter.lost} spans of the trace could not be sent: the collector that OTEL_EXPORTER_OTLP_ENDPOINT "
                "names did not take them"
            )
