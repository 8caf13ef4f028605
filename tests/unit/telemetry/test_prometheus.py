"""Metrics, asked for over HTTP as Prometheus does and read by its own parser."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from modelwheel.engine.reporting import Reporter
from modelwheel.errors import CompileError, EnvironmentProblemError
from modelwheel.telemetry.observing import observe
from modelwheel.telemetry.prometheus import Metrics, serve, write_file
from tests.support.toys import Recorder

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def say_something(reporter: Reporter) -> None:
    names = [f"m-1/linux-x86_64/x86-64/b{number}" for number in range(6)]
    reporter.planned(names)
    reporter.worker_joined("a", 1)
    reporter.worker_joined("b", 1)
    for name in names[:4]:
        reporter.started(name)
    reporter.finished(names[0], 2.0, cached=False, size=1000)
    reporter.finished(names[1], 40.0, cached=False, size=500)
    reporter.finished(names[2], 0.0, cached=True, size=70)
    reporter.worker_lost("b", "killed")
    reporter.retried(names[3], "b", 2)
    reporter.failed(names[3], CompileError("no"))
    reporter.started(names[4])


def parse(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def check(samples: Samples) -> None:
    kind = ("kind", "compile")
    for result, number in (("run", 2), ("cached", 1), ("failed", 1)):
        assert samples["modelwheel_steps_total", (kind, ("result", result))] == number
    assert samples["modelwheel_step_seconds_count", (kind,)] == 2
    assert samples["modelwheel_step_seconds_sum", (kind,)] == 42
    assert samples["modelwheel_step_seconds_bucket", (kind, ("le", "3.0"))] == 1
    assert samples["modelwheel_result_bytes_total", (kind, ("result", "run"))] == 1500
    assert samples["modelwheel_result_bytes_total", (kind, ("result", "cached"))] == 70
    assert samples["modelwheel_queue_steps", ()] == 1
    assert samples["modelwheel_running_steps", ()] == 1
    assert samples["modelwheel_workers", ()] == 1
    assert samples["modelwheel_worker_losses_total", ()] == 1
    assert samples["modelwheel_step_retries_total", (kind,)] == 1


def test_a_build_is_scraped_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modelwheel.toml").write_text(f"[metrics]\nfile = '{tmp_path / 'm.prom'}'\n")
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    recorder = Recorder()
    with observe(recorder, "modelwheel build", None, 0, told.append, {}) as reporter:
        say_something(reporter)
        (said,) = told
        address = said.removeprefix("metrics: ")
        assert address.startswith("http://127.0.0.1:")
        answer = requests.get(address, timeout=10)
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        check(parse(answer.text))
    assert recorder.of("failed"), "the display hears the same"
    with pytest.raises(requests.ConnectionError):
        requests.get(address, timeout=10)
    check(parse((tmp_path / "m.prom").read_text()))


def test_a_port_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of who asked for it; no reason to fail where every build of a machine has the same."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(EnvironmentProblemError, match=f"cannot be served at 127.0.0.1:{port}"),
            serve(Metrics(), "127.0.0.1", port),
        ):
            pytest.fail("it is served")
        (tmp_path / "modelwheel.toml").write_text(f"[metrics]\nport = {port}\n")
        told: list[str] = []
        with observe(Recorder(), "modelwheel build", None, None, told.append, {}) as reporter:
            say_something(reporter)
        assert f"127.0.0.1:{port}" in told[0]
        with (
            pytest.raises(EnvironmentProblemError, match="choose another port"),
            observe(Recorder(), "modelwheel build", None, port, told.append, {}),
        ):
            pytest.fail("it is served")


def test_a_host_that_is_none(tmp_path: Path) -> None:
    with (
        pytest.raises(EnvironmentProblemError, match=r"192\.0\.2\.1"),
        serve(Metrics(), "192.0.2.1", 0),
    ):
        pytest.fail("it is served")
    with pytest.raises(EnvironmentProblemError, match="cannot write the metrics to"):
        write_file(Metrics(), tmp_path / "missing" / "m.prom")


def test_the_page_names_every_metric() -> None:
    page = (Path(__file__).parents[3] / "docs" / "watching.md").read_text(encoding="utf-8")
    names = {family.name for family in Metrics().registry.collect()}
    own = {name for name in names if name.startswith("modelwheel_")}
    assert len(own) == 9
    for name in own:
        assert f"`{name}" in page
