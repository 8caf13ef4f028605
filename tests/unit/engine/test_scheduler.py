"""The scheduler with toy steps: a real store, threads in place of workers, no TensorFlow."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from modelwheel.engine.scheduler import Outcome, Task, Tools, run_steps
from modelwheel.engine.steps.base import Records, Step
from modelwheel.errors import CompileError, EnvironmentProblemError, UnsupportedModelError
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import list_entries
from modelwheel.util.processes.process import ProcessError, run
from tests.support.sandboxes import NONE
from tests.support.stores import finish, start
from tests.support.toys import (
    TODO,
    OptionalJob,
    Recorder,
    ThreadPool,
    ToyJob,
    ToyLocal,
    VitalJob,
    toy_key,
)
from tests.support.waiting import wait_until

_SECONDS = 30
"""After this long, what a test waits for does not come any more."""


def _run(
    store: Store,
    *tasks: Sequence[Step],
    reporter: Recorder | None = None,
    keep: Path | None = None,
    workers: int = 2,
    accept: Callable[[Step, Record], None] = lambda *_: None,
) -> list[Outcome]:
    with ThreadPool(workers) as pool:
        tools = Tools(store, pool, reporter or Recorder(), NONE, keep)
        return run_steps([Task(steps, store.root, accept) for steps in tasks], tools)


def _fail(message: str) -> Callable[[], object]:
    def fail() -> None:
        raise CompileError(message)

    return fail


def _text(store: Store, outcome: Outcome, name: str) -> str:
    return store.read_bytes(outcome.records[name], "text").decode()


def _diamond(**actions: Callable[[], object]) -> list[Step]:
    none: Callable[[], object] = lambda: None
    return [
        ToyJob("top", (), actions.get("top", none)),
        ToyJob("left", ("top",), actions.get("left", none)),
        ToyJob("right", ("top",), actions.get("right", none)),
        ToyLocal("bottom", ("left", "right"), actions.get("bottom", none)),
    ]


# --- disks ----------------------------------------------------------------------------------------


def test_a_full_disk_fails_the_step_that_meets_it_and_keeps_the_others(store: Store) -> None:
    def fill() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(store.root / "tmp" / "object.o"))

    (outcome,) = _run(store, _diamond(bottom=fill))
    ((name, error),) = outcome.errors
    assert name == "bottom"
    assert error.exit_code == 10
    assert str(error) == (
        f"cannot read or write {store.root / 'tmp' / 'object.o'}: the disk is full: free some space, "
        "or set MODELWHEEL_CACHE_DIR to a directory elsewhere"
    )
    (outcome,) = _run(store, _diamond())
    assert (outcome.run, set(outcome.cached)) == (["bottom"], {"top", "left", "right"})


def test_a_mistake_of_a_step_is_not_taken_for_a_disk_error(store: Store) -> None:
    def miss() -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "x")

    with pytest.raises(FileNotFoundError):
        _run(store, [ToyLocal("step", (), miss)])


# --- results --------------------------------------------------------------------------------------


def test_a_diamond_runs_every_step_once_after_what_it_needs(store: Store) -> None:
    reporter = Recorder()
    (outcome,) = _run(store, _diamond(), reporter=reporter)
    assert _text(store, outcome, "bottom") == "bottom(left(top()), right(top()))"
    assert (outcome.errors, outcome.cached, outcome.skipped) == ([], [], [])
    assert (outcome.run[0], sorted(outcome.run[1:3]), outcome.run[3]) == (
        *("top", ["left", "right"], "bottom"),
    )


@dataclass(frozen=True)
class Waiting(ToyLocal):
    """A step that waits for `first`, whose result it does not use."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        return ("first",)


def test_a_step_starts_after_those_that_it_waits_for(store: Store) -> None:
    order: list[str] = []

    def first() -> None:
        time.sleep(0.05)
        order.append("first")

    steps = [ToyLocal("first", (), first), Waiting("second", (), lambda: order.append("second"))]
    (outcome,) = _run(store, steps)
    assert order == ["first", "second"]
    assert _text(store, outcome, "second") == "second()"


def test_a_step_does_not_start_if_what_it_waits_for_fails(store: Store) -> None:
    def fail() -> None:
        raise UnsupportedModelError("no")

    (outcome,) = _run(store, [ToyLocal("first", (), fail), Waiting("second")])
    assert (outcome.run, len(outcome.errors)) == ([], 1)


def test_both_sides_of_a_diamond_run_at_the_same_time(store: Store) -> None:
    meeting = threading.Barrier(2, timeout=_SECONDS)
    (outcome,) = _run(store, _diamond(left=meeting.wait, right=meeting.wait))
    assert outcome.errors == []


def test_two_local_steps_run_at_once_and_no_more(store: Store) -> None:
    meeting = threading.Barrier(2, timeout=_SECONDS)
    running: list[str] = []
    most: list[int] = []

    def work() -> None:
        running.append("")
        most.append(len(running))
        meeting.wait()
        running.pop()
        meeting.wait()

    (outcome,) = _run(store, [ToyLocal(f"step {i}", (), work) for i in range(4)])
    assert outcome.errors == []
    assert max(most) == 2


def test_a_second_run_takes_everything_from_the_store(store: Store) -> None:
    _run(store, _diamond())
    reporter = Recorder()
    failing = _diamond(**dict.fromkeys(("top", "left", "right", "bottom"), _fail("ran again")))
    (outcome,) = _run(store, failing, reporter=reporter)
    assert (outcome.run, sorted(outcome.cached)) == ([], ["bottom", "left", "right", "top"])
    assert reporter.of("started") == []
    assert len(reporter.of("cached")) == 4


def test_only_what_changed_runs_again(store: Store) -> None:
    _run(store, [ToyJob("a"), ToyJob("b", ("a",)), ToyJob("c", ("a",))])
    (outcome,) = _run(store, [ToyJob("a"), ToyJob("b", ("a",)), ToyJob("d", ("b",))])
    assert (outcome.run, outcome.cached) == (["d"], ["a", "b"])


def test_a_result_that_two_specs_share_is_made_once(store: Store) -> None:
    made: list[str] = []
    both = [[ToyJob("same", (), lambda: made.append("x"))] for _ in range(2)]
    first, second = _run(store, *both)
    assert made == ["x"]
    assert sorted([*first.run, *second.cached, *first.cached, *second.run]) == ["same", "same"]
    assert len(first.run) + len(second.run) == 1


# --- events ---------------------------------------------------------------------------------------


def test_the_order_of_events(store: Store) -> None:
    reporter = Recorder()
    steps = [ToyJob("a"), ToyJob("b", ("a",)), ToyLocal("c", ("b",), _fail("no"))]
    _run(store, steps, reporter=reporter)
    assert reporter.events == [
        *(("started", "a"), ("finished", "a")),
        *(("started", "b"), ("finished", "b")),
        *(("started", "c"), ("failed", "c: no")),
    ]


def test_results_are_accepted_before_they_are_reported(store: Store) -> None:
    reporter = Recorder()

    def accept(step: Step, record: Record) -> None:
        reporter.events.append(("accepted", step.name))
        assert set(record.files) == {"text"}
        if step.name == "b":
            raise UnsupportedModelError("not this one")

    (outcome,) = _run(
        store, [ToyJob("a"), ToyJob("b", ("a",)), ToyJob("c", ("b",))],
        reporter=reporter, accept=accept,
    )  # fmt: skip
    assert reporter.events == [
        *(("started", "a"), ("accepted", "a"), ("finished", "a")),
        *(("started", "b"), ("accepted", "b"), ("failed", "b: not this one")),
    ]
    assert (outcome.run, outcome.skipped) == (["a"], ["c"])


# --- failures -------------------------------------------------------------------------------------


def test_a_failure_stops_only_what_depends_on_it(store: Store) -> None:
    steps = [
        ToyJob("a"),
        ToyJob("bad", ("a",), _fail("broken")),
        ToyJob("after bad", ("bad",)),
        ToyJob("good", ("a",)),
        ToyJob("after good", ("good",)),
        ToyLocal("end", ("after bad", "after good")),
    ]
    (outcome,) = _run(store, steps, workers=1)
    assert [(name, str(error)) for name, error in outcome.errors] == [("bad", "broken")]
    assert outcome.run == ["a", "good", "after good"]
    assert outcome.skipped == ["after bad", "end"]


def test_further_steps_follow_from_the_results_of_the_first(store: Store) -> None:
    first = [ToyJob("first"), ToyJob("second", ("first",))]
    recorder = Recorder()

    def more(records: Records) -> list[Step]:
        return [*first, ToyLocal("last", tuple(records))]

    with ThreadPool(1) as pool:
        tools = Tools(store, pool, recorder, NONE)
        (outcome,) = run_steps([Task(first, store.root, more=more)], tools)
    assert outcome.run == ["first", "second", "last"]
    assert _text(store, outcome, "last") == "last(first(), second(first()))"
    assert ("planned", "last") in recorder.events


def test_an_optional_step_that_fails_leaves_nothing_behind(store: Store) -> None:
    recorder = Recorder()
    first = [ToyJob("first"), OptionalJob("try", ("first",), _fail("no")), ToyLocal("so", ("try",))]

    def more(records: Records) -> list[Step]:
        return [ToyJob("last", tuple(records))]

    with ThreadPool(1) as pool:
        tools = Tools(store, pool, recorder, NONE)
        (outcome,) = run_steps([Task(first, store.root, more=more)], tools)
    assert (outcome.run, outcome.errors, outcome.skipped) == (["first", "last"], [], [])
    assert not any(event == "failed" for event, _ in recorder.events)


def test_a_failure_does_not_touch_other_specs(store: Store) -> None:
    first, second = _run(store, [ToyJob("x", (), _fail("broken"))], _diamond())
    assert [name for name, _ in first.errors] == ["x"]
    assert len(second.run) == 4


def test_all_failures_are_reported(store: Store) -> None:
    (outcome,) = _run(store, _diamond(left=_fail("one"), right=_fail("two")))
    assert sorted(str(error) for _, error in outcome.errors) == ["one", "two"]
    assert outcome.skipped == ["bottom"]


def test_no_step_starts_after_a_vital_one_failed(store: Store) -> None:
    """Two workers: `slow` runs beside `vital`; the others are queued when that fails."""
    begun, failed = threading.Event(), threading.Event()

    def fail_when_slow_runs() -> None:
        assert begun.wait(_SECONDS)
        raise CompileError("TensorFlow refuses it")

    def wait_for_failure() -> None:
        begun.set()
        assert failed.wait(_SECONDS)
        time.sleep(1)  # the scheduler has given up meanwhile

    reporter = Recorder(on_event=lambda event, _: failed.set() if event == "failed" else None)
    steps = [
        VitalJob("vital", (), fail_when_slow_runs),
        ToyJob("slow", (), wait_for_failure),
        *(ToyJob(f"queued {i}", ("slow",)) for i in range(3)),
        ToyLocal("end", ("vital",)),
    ]
    (outcome,) = _run(store, steps, reporter=reporter)
    assert sorted(reporter.of("started")) == ["slow", "vital"]
    assert [name for name, _ in outcome.errors] == ["vital"]
    # What ran already comes to its end and is kept for the next build.
    assert outcome.run == ["slow"]
    assert outcome.skipped == ["queued 0", "queued 1", "queued 2", "end"]
    assert store.lookup(toy_key("slow")) is not None


def test_queued_jobs_are_cancelled_when_a_vital_step_fails(store: Store) -> None:
    """One worker, which is busy with the vital step until all others are queued behind it."""
    begun, failed = threading.Event(), threading.Event()

    def wait_for_failure() -> None:
        assert failed.wait(_SECONDS)
        time.sleep(1)  # the scheduler cancels the others meanwhile

    def fail_when_all_are_queued() -> None:
        begun.set()
        wait_until(lambda: len(TODO) == 5)
        raise CompileError("no")

    queued = [ToyJob(f"queued {i}", ("gate",), wait_for_failure) for i in range(5)]
    gate = ToyLocal("gate", (), lambda: begun.wait(_SECONDS))
    reporter = Recorder(on_event=lambda event, _: failed.set() if event == "failed" else None)
    (outcome,) = _run(
        store, [VitalJob("vital", (), fail_when_all_are_queued), gate, *queued],
        reporter=reporter, workers=1,
    )  # fmt: skip
    # The worker takes the next job at once; the others are cancelled while it runs.
    assert len(reporter.of("started")) <= 3
    assert len(outcome.skipped) >= 4
    assert [name for name, _ in outcome.errors] == ["vital"]


def test_a_vital_failure_does_not_touch_other_specs(store: Store) -> None:
    first, second = _run(store, [VitalJob("vital", (), _fail("no")), ToyJob("x")], _diamond())
    assert [name for name, _ in first.errors] == ["vital"]
    assert len(second.run) == 4


def test_a_step_that_waits_for_a_lock_gives_up_with_its_spec(store: Store) -> None:
    other = start(
        "store = Store(pathlib.Path(sys.argv[1]))\n"
        "with store.lock(sys.argv[2]):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n",
        store.root,
        toy_key("locked"),
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        begun = time.monotonic()
        steps = [ToyJob("locked"), VitalJob("vital", (), _fail("no"))]
        (outcome,) = _run(store, steps)
        assert time.monotonic() - begun < _SECONDS
    finally:
        other.kill()
        other.communicate()
    assert [name for name, _ in outcome.errors] == ["vital"]
    assert outcome.skipped == ["locked"]


def test_a_fault_of_the_program_is_not_hidden(store: Store) -> None:
    def break_down() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        _run(store, [ToyJob("a", (), break_down)])


# --- interruptions --------------------------------------------------------------------------------


def _interrupt_at(event: str, name: str) -> Recorder:
    """A reporter where Ctrl-C arrives, in the main thread, at one event."""

    def interrupt(given: str, of: str) -> None:
        if (given, of) == (event, name):
            raise KeyboardInterrupt

    return Recorder(on_event=interrupt)


def test_ctrl_c_leaves_a_whole_store_and_the_next_run_continues(store: Store) -> None:
    started: list[str] = []
    steps = [
        ToyJob(str(i), (str(i - 1),) if i else (), lambda: started.append("x")) for i in range(5)
    ]
    with pytest.raises(KeyboardInterrupt):
        _run(store, steps, reporter=_interrupt_at("finished", "2"), workers=1)
    time.sleep(0.1)
    assert len(started) == 3
    assert len(list_entries(store)) == 3
    assert all(store.lookup(entry.key) is not None for entry in list_entries(store))
    (outcome,) = _run(store, steps)
    assert (outcome.cached, outcome.run) == (["0", "1", "2"], ["3", "4"])


def test_ctrl_c_kills_the_programs_of_local_steps(store: Store) -> None:
    pids: list[int] = []
    begun = threading.Event()

    def sleep() -> None:
        begun.set()
        try:
            run([sys.executable, "-c", "import time; time.sleep(600)"])
        except ProcessError as error:
            pids.append(error.returncode or 0)
            raise

    def interrupt(event: str, name: str) -> None:
        if (event, name) == ("finished", "quick"):
            assert begun.wait(_SECONDS)
            time.sleep(0.2)
            raise KeyboardInterrupt

    steps = [ToyLocal("slow", (), sleep), ToyJob("quick")]
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _run(store, steps, reporter=Recorder(on_event=interrupt))
    assert time.monotonic() - before < _SECONDS
    assert len(pids) == 1
    assert list_entries(store) == [
        entry for entry in list_entries(store) if entry.note["step"] == "quick"
    ]


def test_a_vital_step_that_fails_stops_the_programs_of_local_steps(store: Store) -> None:
    begun = threading.Event()

    def sleep() -> None:
        begun.set()
        run([sys.executable, "-c", "import time; time.sleep(600)"])

    def refuse() -> None:
        assert begun.wait(_SECONDS)
        raise UnsupportedModelError("refused")

    steps = [ToyLocal("slow", (), sleep), VitalJob("inspect", (), refuse)]
    before = time.monotonic()
    (outcome,) = _run(store, steps)
    assert time.monotonic() - before < _SECONDS
    assert [name for name, _ in outcome.errors] == ["inspect"]
    assert outcome.skipped == ["slow"]


def test_ctrl_c_ends_the_wait_for_a_lock(store: Store) -> None:
    def waits() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("job")]

    wait_until(lambda: not waits())  # of earlier tests
    reporter = _interrupt_at("finished", "a")
    with store.lock(toy_key("locked")):
        with pytest.raises(KeyboardInterrupt):
            _run(store, [ToyJob("locked"), ToyJob("a")], reporter=reporter)
        wait_until(lambda: not waits())
    assert store.lookup(toy_key("locked")) is None


# --- other builds ---------------------------------------------------------------------------------

_OTHER_BUILD = """
store = Store(pathlib.Path(sys.argv[1]))
key = sys.argv[2]
with store.lock(key):
    print("held", flush=True)
    sys.stdin.readline()
    made = pathlib.Path(sys.argv[3])
    made.mkdir()
    (made / "text").write_text("by the other build")
    store.publish(key, made)
store.close()
"""


def test_the_work_of_another_build_is_waited_for_and_used(store: Store, tmp_path: Path) -> None:
    other = start(_OTHER_BUILD, store.root, toy_key("shared"), tmp_path / "made")
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"

    def release(event: str, name: str) -> None:
        if (event, name) == ("finished", "own"):
            assert other.stdin is not None
            other.stdin.write("go on\n")
            other.stdin.flush()

    reporter = Recorder(on_event=release)
    (outcome,) = _run(store, [ToyJob("shared"), ToyJob("own")], reporter=reporter)
    finish(other)
    assert (outcome.run, outcome.cached) == (["own"], ["shared"])
    assert _text(store, outcome, "shared") == "by the other build"
    assert reporter.of("started") == ["own"]


# --- kept files -----------------------------------------------------------------------------------


def test_the_files_of_steps_are_kept_also_of_failed_ones(store: Store, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    steps = [ToyJob("spec/a"), ToyLocal("spec/b", ("spec/a",), _fail("no"))]
    _run(store, steps, keep=keep)
    assert (keep / "spec" / "a" / "out" / "text").read_text() == "spec/a()"
    assert list((keep / "spec" / "b" / "out").iterdir()) == []
    (keep / "spec" / "a" / "out" / "old").write_text("")
    _run(store, steps, keep=keep)
    assert (keep / "spec" / "a" / "out" / "old").exists()  # a cached step runs nothing


def test_files_that_cannot_be_kept_fail_the_step(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (outcome,) = _run(store, [ToyJob("a")], keep=tmp_path / "file")
    ((name, error),) = outcome.errors
    assert name == "a"
    assert isinstance(error, EnvironmentProblemError)
    assert "cannot write to" in str(error)
    assert "choose another directory" in str(error)


def test_nothing_is_left_in_the_scratch_directory(store: Store, tmp_path: Path) -> None:
    _run(store, _diamond(left=_fail("no")))
    store.close()
    assert [path.name for path in (tmp_path / "store" / "tmp").iterdir()] == [".lock"]
