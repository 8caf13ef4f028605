"""What is written beside a delivered wheel: the times of the framework, and what else was timed of the same file."""

from __future__ import annotations

from pathlib import Path

from modelwheel.engine.delivery import deliver_times
from modelwheel.model.reference_result import FrameworkTime, FrameworkTimes
from modelwheel.wheelfile.reports import BENCH_SUFFIX, Timing, read_timings, write_timings

OURS = Timing(level="x86-64-v3", rows=1, rule="1:1", nanoseconds=5.0, cpu="a CPU")


def _times(*nanoseconds: float) -> bytes:
    times = tuple(FrameworkTime(rows=1, nanoseconds=value) for value in nanoseconds)
    found = FrameworkTimes(framework="TensorFlow 9 on one thread", cpu="a CPU", times=times)
    return found.model_dump_json().encode()


def test_times_stay_beside_those_of_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "model.whl"
    write_timings([OURS], wheel)
    deliver_times(_times(70.0), wheel)
    deliver_times(_times(80.0), wheel)  # of another build of the same wheel
    ours, theirs = read_timings(wheel)
    assert ours == OURS
    assert (theirs.framework, theirs.nanoseconds) == ("TensorFlow 9 on one thread", 80.0)


def test_a_model_that_was_not_timed_has_no_file(tmp_path: Path) -> None:
    deliver_times(_times(), tmp_path / "model.whl")
    assert not (tmp_path / f"model.whl{BENCH_SUFFIX}").exists()
