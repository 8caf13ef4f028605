"""Traces, received and decoded as a collector does."""

from __future__ import annotations

import gzip
import logging
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from modelwheel import extras
from modelwheel.errors import CompileError
from modelwheel.telemetry.observing import observe
from tests.support.toys import Recorder

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(ThreadingHTTPServer):
    """Takes traces by OTLP over HTTP."""

    daemon_threads = True

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.received: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.paths.append(self.path)
        if self.server.status == 200:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            self.server.received.append(request)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def collector(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Collector]:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    server = Collector(getattr(request, "param", 200))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def build(told: list[str], environment: dict[str, str] | None = None) -> None:
    import os

    whole = {**os.environ, **(environment or {})}
    with observe(Recorder(), "modelwheel build", None, None, told.append, whole) as reporter:
        reporter.planned(["m-1/fetch", "m-1/freeze/b1", "m-1/wheel"])
        reporter.connected("tcp://scheduler:8786", None)
        reporter.started("m-1/fetch")
        reporter.finished("m-1/fetch", 0.0, cached=True, size=10)
        reporter.started("m-1/freeze/b1", "w-1")
        time.sleep(0.02)
        reporter.worker_lost("w-1", "killed")
        reporter.retried("m-1/freeze/b1", "w-1", 2)
        reporter.finished("m-1/freeze/b1", 0.02, cached=False, size=20)
        reporter.finished("m-1/objects", 5.0, cached=False)  # nobody said that it started
        reporter.failed("m-1/wheel", CompileError("no\nlinker"))


def attributes(span: Span) -> dict[str, object]:
    return {
        pair.key: getattr(pair.value, str(pair.value.WhichOneof("value")))
        for pair in span.attributes
    }


def test_spans_of_a_build_arrive(collector: Collector) -> None:
    told: list[str] = []
    build(told, {"TRACEPARENT": PARENT})
    assert told == []
    assert set(collector.paths) == {"/v1/traces"}
    spans = {span.name: span for span in collector.spans()}
    assert set(spans) == {"modelwheel build", "fetch", "freeze", "objects", "wheel"}
    root = spans.pop("modelwheel build")
    assert root.trace_id.hex() == PARENT.split("-")[1]
    assert root.parent_span_id.hex() == PARENT.split("-")[2], "of the job that runs the build"
    assert {span.trace_id for span in spans.values()} == {root.trace_id}
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    assert [event.name for event in root.events] == ["worker lost", "step retried"]
    assert attributes(root) == {"modelwheel.cluster": "tcp://scheduler:8786"}
    assert root.status.code == 2
    assert attributes(spans["fetch"]) == {
        "modelwheel.step": "m-1/fetch",
        "modelwheel.cached": True,
        "modelwheel.bytes": 10,
    }
    assert attributes(spans["freeze"])["modelwheel.worker"] == "w-1"
    assert spans["freeze"].end_time_unix_nano - spans["freeze"].start_time_unix_nano >= 15_000_000
    length = spans["objects"].end_time_unix_nano - spans["objects"].start_time_unix_nano
    assert length == 5_000_000_000
    assert attributes(spans["wheel"])["error.type"] == "MW500"
    assert (spans["wheel"].status.code, spans["wheel"].status.message) == (2, r"no\x0alinker")


def test_the_service_is_named_as_the_variables_say(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def service() -> object:
        collector.received.clear()
        build([])
        resource = collector.received[0].resource_spans[0].resource
        return {pair.key: pair.value.string_value for pair in resource.attributes}["service.name"]

    assert service() == "modelwheel"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=nightly")
    assert service() == "nightly"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "weekly")
    assert service() == "weekly"


@pytest.mark.parametrize("collector", [400], indirect=True)
def test_a_collector_that_refuses_fails_no_build(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    build(told)
    assert collector.paths
    (said,) = told
    assert said.startswith("5 spans of the trace could not be sent: the collector that OTEL_")
    assert not caplog.records
    assert logging.getLogger("opentelemetry").level == logging.NOTSET


@pytest.mark.parametrize(
    "off",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_traces_are_off(collector: Collector, off: dict[str, str]) -> None:
    told: list[str] = []
    build(told, off)
    assert (told, collector.paths) == ([], [])


def test_what_is_not_known_is_told(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    build(told, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    build(told, {"OTEL_TRACES_EXPORTER": "zipkin"})
    monkeypatch.setattr(extras, "missing", lambda _: ["opentelemetry-sdk"])
    build(told)
    assert collector.paths == []
    assert told == [
        "no traces are sent: only OTLP by http/protobuf is known, not otlp by grpc",
        "no traces are sent: only OTLP by http/protobuf is known, not zipkin by http/protobuf",
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no traces are sent, because opentelemetry-sdk is not installed: "
            "pip install 'modelwheel[metrics]'"
        ),
    ]


@pytest.mark.parametrize("collector", [503], indirect=True)
def test_a_collector_that_failed_is_left_alone(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the end of a build would wait ten seconds for each batch of 512 spans."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    told: list[str] = []
    with observe(Recorder(), "modelwheel build", None, None, told.append) as reporter:
        for number in range(3000):
            reporter.finished(f"m-1/freeze/b{number}", 0.0, cached=True)
    assert told[0].startswith("3001 spans of the trace could not be sent")
    assert len(collector.paths) <= 3, "attempts of one batch"
