"""Who hears of a build in addition to its display, as options, `modelwheel.toml` and the environment ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .. import extras
from ..config import MetricsRules, load_config
from ..engine.reporting import Reporter, Several
from ..errors import EnvironmentProblemError
from .events import EventsFile

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@contextmanager
def observe(
    display: Reporter,
    command: str,
    events: Path | None,
    metrics_port: int | None,
    tell: Callable[[str], object],
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Reporter]:
    """The reporter of one build: the display, and whoever else is to hear of it.

    Args:
        display: What people see.
        command: What runs, such as `modelwheel build`.
        events: A file for events.
        metrics_port: Where Prometheus asks for metrics.
        tell: Called with a sentence for people if something that was not asked for by an option is left out.
        environment: Where OpenTelemetry's variables are.

    Raises:
        UsageError: The file of events cannot be written.
        EnvironmentProblemError: The extra `metrics` is not installed, or metrics cannot be served or written.
    """
    with ExitStack() as stack:
        reporters = [display]
        if events is not None:
            reporters.append(stack.enter_context(EventsFile(events, tell)))
        rules = load_config().metrics
        if metrics_port is not None or rules.port is not None or rules.file is not None:
            reporters.append(stack.enter_context(_metrics(metrics_port, rules, tell)))
        if _wants_traces(environment, tell):
            from .traces import send

            reporters.append(stack.enter_context(send(command, tell, environment)))
        yield reporters[0] if len(reporters) == 1 else Several(*reporters)


@contextmanager
def _metrics(
    port: int | None, rules: MetricsRules, tell: Callable[[str], object]
) -> Iterator[Reporter]:
    extras.require("metrics", "showing metrics")
    from .prometheus import Metrics, serve, write_file

    metrics = Metrics()
    with ExitStack() as stack:
        chosen = rules.port if port is None else port
        if chosen is not None:
            try:
                tell(f"metrics: {stack.enter_context(serve(metrics, rules.host, chosen))}")
            except EnvironmentProblemError as error:
                if port is not None:
                    raise
                tell(str(error))  # of another build on this machine, perhaps
        if (
            rules.file is not None
        ):  # now, so that a place that cannot be written is refused before anything slow
            write_file(metrics, Path(rules.file))
        try:
            yield metrics
        finally:
            if rules.file is not None:
                write_file(metrics, Path(rules.file))


def _wants_traces(environment: Mapping[str, str], tell: Callable[[str], object]) -> bool:
    """Whether the standard variables ask for traces. They are often set for all programs: none of this is an error."""
    endpoint = next((name for name in _ENDPOINTS if environment.get(name)), None)
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporter = environment.get("OTEL_TRACES_EXPORTER") or "otlp"
    if endpoint is None or off or exporter == "none":
        return False
    protocol = next((environment[n] for n in _PROTOCOLS if environment.get(n)), "http/protobuf")
    if exporter != "otlp" or protocol != "http/protobuf":
        tell(
            f"no traces are sent: only OTLP by http/protobuf is known, not {exporter} by {protocol}"
        )
        return False
    if missing := extras.missing("metrics"):
        tell(
            f"{endpoint} is set, but no traces are sent, because {', '.join(missing)} is not installed: "
            "pip install 'modelwheel[metrics]'"
        )
        return False
    return True
