"""How far a build is, and how long it will take."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from modelwheel.engine import reporting
from modelwheel.engine.reporting import Several, SilentReporter, kind_of
from modelwheel.engine.steps import Goal, steps_of
from modelwheel.engine.tally import Tally
from modelwheel.errors import CompileError
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from tests.support.toys import Recorder


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_documented_names() -> None:
    assert doctest.testmod(reporting).failed == 0
    assert doctest.testmod(reporting).attempted >= 1


@pytest.mark.parametrize(
    "goal", ["wheel", "sdist", "bundle", "static-bundle", "project", "profile"]
)
def test_the_kind_of_every_step_is_in_its_name(goal: Goal, tmp_path: Path) -> None:
    spec = tmp_path / "net.yaml"
    spec.write_text(
        'model: {name: net, version: "1.0.0", saved_model: ./model}\n'
        "compilation: {batch_sizes: [1, 4]}\npackage: {bindings: shared}\n"
    )
    steps = steps_of(make_request(load_spec(spec)), "0" * 64, {}, goal)
    assert [kind_of(step.name) for step in steps] == [step.kind for step in steps]


def test_steps_are_queued_run_and_end() -> None:
    tally = Tally()
    tally.planned(["m-1/fetch", "m-1/freeze/b1", "m-1/wheel", "m-1/verify"])
    tally.started("m-1/fetch")
    tally.started("m-1/freeze/b1", "worker-1")
    tally.progressed("m-1/freeze/b1", "half")
    tally.progressed("another", "unknown")
    assert (tally.total, tally.queue, tally.ended) == (4, 2, 0)
    assert tally.running() == [("m-1/fetch", ""), ("m-1/freeze/b1", "half")]
    tally.started("m-1/freeze/b1", "worker-2")  # again: the first worker was lost
    assert tally.queue == 2
    tally.finished("m-1/fetch", 1.0, cached=False)
    tally.finished("m-1/wheel", 0.0, cached=True)  # without a start
    tally.failed("m-1/freeze/b1", CompileError("no"))
    assert (tally.queue, tally.ended, tally.failures, tally.running()) == (1, 3, 1, [])


def test_the_time_left_follows_what_steps_of_a_kind_took() -> None:
    clock = Clock()
    tally = Tally(clock)
    compiling = [f"m-1/linux-x86_64/x86-64/b{number}" for number in range(10)]
    tally.planned(["m-1/fetch", *compiling, "m-1/wheel"])
    assert tally.seconds_left() is None, "nothing is known yet"
    tally.started(compiling[0])
    tally.started(compiling[1])
    clock.now = 20.0
    tally.finished(compiling[0], 20.0, cached=False)
    # 8 more of 20 s, one that is about to end, fetch and wheel as the average; two at once.
    assert tally.seconds_left() == pytest.approx((8 * 20 + 2 * 20) / 2)
    tally.finished("m-1/fetch", 0.0, cached=True)
    tally.finished(compiling[2], 0.0, cached=True)
    # Half of what was compiled was in the store: so may be the rest.
    assert tally.seconds_left() == pytest.approx((7 * 10 + 20 / 3) / 2)
    tally.worker_joined("a", 8)
    tally.worker_joined("b", 8)
    tally.started(compiling[3])
    assert tally.seconds_left() == pytest.approx(10), "no less than what has just begun"
    tally.worker_lost("a", "killed")
    assert (tally.workers, tally.losses) == (1, 1)


def test_earlier_builds_say_what_kinds_take() -> None:
    tally = Tally(Clock())
    tally.expect({"freeze": 3.0})
    tally.planned(["m-1/freeze/b1", "m-1/freeze/b4"])
    assert tally.seconds_left() == 6.0
    tally.finished("m-1/freeze/b1", 5.0, cached=False)
    assert tally.seconds_left() == 5.0


def test_several_hear_the_same() -> None:
    first, second = Recorder(), Recorder()
    both = Several(first, second, SilentReporter())
    both.planned(["a", "b"])
    both.started("a", "worker")
    both.progressed("a", "half")
    both.finished("a", 1.0, cached=False, size=3)
    both.failed("b", CompileError("no"))
    both.findings("a", [])
    both.connected("tcp://a:1", None)
    both.worker_joined("w", 2)
    both.retried("a", "w", 2)
    both.worker_lost("w", "gone")
    assert first.events == second.events
    assert [event for event, _ in first.events] == [
        "planned",
        "planned",
        "started",
        "finished",
        "failed",
    ]
