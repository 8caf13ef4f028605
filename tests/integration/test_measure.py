"""Measuring wheels: installed for real beside a released version, with a module that plays the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import VerifyError
from modelwheel.index.site import write_site
from modelwheel.levels import cpu_name
from modelwheel.release.measure import measure_wheels
from modelwheel.store.store import Store
from modelwheel.wheelfile.reports import Timing, read_report, read_timings, write_timings
from tests.support.commands import Modelwheel
from tests.support.index_wheels import make_wheel
from tests.support.sandboxes import BEST
from tests.support.site_server import serve

PLAYS = """\
import json, sys
compared = {{"level": "x86-64", "rows": 4, "rule": "4:4", "output": "scores", "absolute": {error},
             "relative": 0.0, "limit": 1.0, "passed": {error} <= 1.0}}
if sys.argv[1] == "selftest":
    print(json.dumps({{"passed": compared["passed"], "comparisons": [compared], "skipped": {{}}}}))
else:
    print(json.dumps([{{"level": "x86-64", "rows": 4, "rule": "4:4", "nanoseconds": {time}}}]))
"""


def plays(error: float = 0.5, time: float = 10.0) -> str:
    return PLAYS.format(error=error, time=time)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()  # no configuration is looked for above it
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_results_are_stored_beside_the_wheel(directory: Path) -> None:
    wheel = make_wheel(directory, "digits", main=plays())
    elsewhere = make_wheel(directory, "digits", tag="cp39-cp39-win32")
    (measured,) = measure_wheels([wheel, elsewhere], Store(directory / "cache"), BEST)
    assert measured.error is None
    assert measured.worst is not None
    assert measured.worst.absolute == 0.5
    assert read_report(wheel) == measured.report
    assert read_timings(wheel) == measured.timings
    assert measured.not_compared == ("not compared with a released version: no index is configured")


def test_the_released_version_is_measured_too(directory: Path) -> None:
    released = directory / "released"
    released.mkdir()
    for version, time in (("0.8", 99.0), ("0.9", 20.0)):
        make_wheel(released, "digits", version=version, main=plays(time=time))
    wheel = make_wheel(directory, "digits", main=plays())
    new = make_wheel(directory, "new", main=plays())
    with serve(write_site([released], directory / "site").directory) as server:
        index_url = f"{server.url}simple/"
        measured, first = measure_wheels([wheel, new], Store(directory / "cache"), BEST, index_url)
    assert measured.released is not None
    assert (measured.released.version, measured.not_compared) == ("0.9", None)
    assert [timing.nanoseconds for timing in measured.released.timings] == [20.0]
    assert measured.released.differences == ()
    assert first.released is None
    assert first.not_compared is not None
    assert f"{index_url} has no wheel of model-new" in first.not_compared


def test_the_framework_of_the_same_cpu_is_compared(directory: Path) -> None:
    wheel = make_wheel(directory, "digits", main=plays())
    here, elsewhere = (
        Timing(level="", rows=4, rule="", nanoseconds=70.0, cpu=cpu, framework="TensorFlow 9")
        for cpu in (cpu_name(), "another")
    )
    write_timings([here, elsewhere], wheel)
    (measured,) = measure_wheels([wheel], Store(directory / "cache"), BEST)
    assert measured.framework == (here,)
    (again,) = measure_wheels([wheel], Store(directory / "cache"), BEST)
    assert again.framework == (here,)  # what a build recorded stays
    assert read_timings(wheel) == (*again.timings, here, elsewhere)


def test_a_wheel_that_fails_does_not_stop_the_others(directory: Path) -> None:
    bad = make_wheel(directory, "bad", main=plays(error=2.0))
    good = make_wheel(directory, "good", main=plays())
    first, second = measure_wheels([bad, good], Store(directory / "cache"), BEST)
    assert isinstance(first.error, VerifyError)
    assert "1 of 1 comparisons exceed their tolerance" in str(first.error)
    assert read_report(bad) == first.report  # the catalogue shows the failure
    assert second.error is None


def test_a_missing_comparison_is_reported_everywhere(directory: Path) -> None:
    make_wheel(directory, "digits", main=plays())
    said = "not compared with a released version: no index is configured"
    # An empty URL, as a pull request from a fork has it.
    arguments = ("report", directory, "--index-url", "")
    modelwheel = Modelwheel(directory / "cache")
    assert said in modelwheel(*arguments, "--summary", "summary.md").out
    assert said in (directory / "summary.md").read_text().replace("\\", "")
    (measured,) = modelwheel(*arguments, "--json").json
    assert measured["not_compared"] == said
    assert measured["released"] is None


def test_a_directory_without_wheels_is_no_error(directory: Path) -> None:
    """A pull request may only remove specs."""
    (directory / "dist").mkdir()
    assert Modelwheel(directory / "cache")("report", "dist").out == "no wheel for this machine\n"
