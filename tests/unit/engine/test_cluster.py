"""Toy steps on a real Dask cluster, whose processes are killed and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from modelwheel.engine.cluster import connection
from modelwheel.engine.cluster import executor as cluster_executor
from modelwheel.engine.cluster.address import parse_target
from modelwheel.engine.cluster.connection import open_cluster
from modelwheel.engine.cluster.executor import ClusterExecutor
from modelwheel.engine.cluster.tasks import Settings
from modelwheel.engine.scheduler import Task, Tools, run_on, run_steps
from modelwheel.engine.steps.base import Step
from modelwheel.errors import ClusterError, CompileError
from modelwheel.sandbox.policy import Policy
from modelwheel.store import opening
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import list_entries
from modelwheel.store.upkeep.inventory import take_inventory
from tests.support.cluster_toys import ClusterToy, VitalToy, chain, note, noted
from tests.support.clusters import MODEL_KEY, ROOT, Cluster, cluster, executor, make_keys, run_toys
from tests.support.object_stores import serve_objects
from tests.support.sandboxes import NONE
from tests.support.toys import Recorder, ThreadPool
from tests.support.waiting import wait_until

_SECONDS = 60


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """One for tests that do not break it for good."""
    with cluster() as found:
        yield found


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary"
    path.mkdir()
    return path


class Told(Recorder):
    """Also remembers what a cluster says."""

    def connected(self, address: str, dashboard: str | None) -> None:  # noqa: ARG002
        self._add("connected", address)

    def worker_joined(self, name: str, slots: int) -> None:  # noqa: ARG002
        self._add("joined", name)

    def worker_lost(self, name: str, why: str) -> None:
        self._add("lost", f"{name}: {why}")

    def retried(self, step: str, worker: str, attempt: int) -> None:  # noqa: ARG002
        self._add("retried", f"{step} {attempt}")


def _contents(store: Store) -> dict[str, object]:
    """Every result by its key."""
    return {
        one.record.key: dict(one.record.files)
        for one in take_inventory(store.backend).records
        if one.record.note.get("step") not in ("model", "cluster")
    }


# --- results --------------------------------------------------------------------------------------


def test_steps_run_once_and_make_what_a_local_build_makes(
    shared: Cluster, store: Store, diary: Path, tmp_path: Path
) -> None:
    steps: Sequence[Step] = [
        *chain(diary, "a", 2),
        ClusterToy("left", ("a/1",), diary),
        ClusterToy("right", ("a/1",), diary),
        ClusterToy("end", ("left", "right"), diary),
    ]
    told = Told()
    (outcome,) = run_toys(shared.address, store, steps, reporter=told)
    assert sorted(outcome.run) == sorted(step.name for step in steps)
    assert (outcome.errors, outcome.skipped) == ([], [])
    assert [len(noted(diary, step.name)) for step in steps] == [1] * len(steps)
    assert os.getpid() not in noted(diary, "end")
    assert told.of("connected") == [shared.address]
    assert len(told.of("joined")) == 2
    local = Store(tmp_path / "local")
    with ThreadPool(1) as pool:
        run_steps([Task(steps, tmp_path)], Tools(local, pool, Recorder(), NONE))
    assert _contents(local) == _contents(store)
    local.close()


def test_nothing_that_is_in_the_store_runs_again(
    shared: Cluster, store: Store, diary: Path
) -> None:
    steps = chain(diary, "a", 2)
    run_toys(shared.address, store, steps)
    (outcome,) = run_toys(shared.address, store, [*steps, ClusterToy("b", ("a/1",), diary)])
    assert (outcome.cached, outcome.run) == (["a/0", "a/1"], ["b"])
    assert [len(noted(diary, name)) for name in ("a/0", "a/1", "b")] == [1, 1, 1]


def test_an_error_of_a_step_is_that_of_a_local_build(
    shared: Cluster, store: Store, diary: Path
) -> None:
    steps = [
        ClusterToy("bad", (), diary, "fail no such operation"),
        ClusterToy("c", ("bad",), diary),
    ]
    (outcome, other) = run_toys(shared.address, store, steps, chain(diary, "good", 1))
    ((name, error),) = outcome.errors
    assert (name, str(error), type(error)) == ("bad", "no such operation", CompileError)
    assert (outcome.skipped, other.run) == (["c"], ["good/0"])


def test_a_fault_of_the_program_is_not_hidden(shared: Cluster, store: Store, diary: Path) -> None:
    with pytest.raises(KeyError, match="bug"):
        run_toys(shared.address, store, [ClusterToy("a", (), diary, "crash bug")])


def test_a_vital_step_that_fails_ends_its_spec_and_no_other(
    shared: Cluster, store: Store, diary: Path
) -> None:
    steps = [VitalToy("vital", (), diary, "fail no"), ClusterToy("slow", (), diary, "program 600")]
    first, second = run_toys(shared.address, store, steps, chain(diary, "good", 3, "sleep 0.1"))
    assert [name for name, _ in first.errors] == ["vital"]
    assert first.skipped == ["slow"]
    assert len(second.run) == 3


# --- dying workers --------------------------------------------------------------------------------


def test_a_step_that_kills_its_workers_fails_alone(
    shared: Cluster, store: Store, diary: Path
) -> None:
    told = Told()
    good = [chain(diary, f"good{number}", 4, "sleep 0.2") for number in range(2)]
    (bad, *others) = run_toys(
        shared.address, store, [ClusterToy("poison", (), diary, "die")], *good, reporter=told
    )
    ((name, error),) = bad.errors
    assert (name, type(error), error.code) == ("poison", ClusterError, "MW764")
    assert str(error).startswith("poison was lost 4 times because the worker that ran it died: ")
    assert len(noted(diary, "poison")) == 4
    retried = [said for said in told.of("retried") if said.startswith("poison")]
    assert retried == ["poison 2", "poison 3", "poison 4"]
    assert all(len(outcome.run) + len(outcome.cached) == 4 for outcome in others)
    for steps in good:
        assert [len(noted(diary, step.name, "ended")) for step in steps] == [1] * 4


def test_a_step_whose_worker_was_killed_runs_again_elsewhere(
    shared: Cluster, store: Store, diary: Path
) -> None:
    told = Told()
    (outcome,) = run_toys(
        shared.address, store, [ClusterToy("unlucky", (), diary, "die 1")], reporter=told
    )
    assert (outcome.run, outcome.errors) == (["unlucky"], [])
    first, second = noted(diary, "unlucky")
    assert first != second
    assert told.of("retried") == ["unlucky 2"]


def test_nothing_waits_for_the_lost_result_of_a_step_that_was_tried_again(
    shared: Cluster, store: Store, diary: Path
) -> None:
    steps = [
        # Its second attempt may run only where the first did not: Dask must not be asked to make its result again.
        ClusterToy("unlucky", (), diary, "die 1"),
        ClusterToy("killer", ("unlucky",), diary, "kill unlucky"),
        ClusterToy("last", ("unlucky", "killer"), diary),
    ]
    ended = threading.Event()

    def run() -> None:
        (outcome,) = run_toys(shared.address, store, steps)
        assert outcome.errors == []
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert ended.wait(_SECONDS), "it hangs"
    assert len(noted(diary, "unlucky", "ended")) == 1
    assert len(noted(diary, "last", "ended")) == 1


def test_a_step_that_no_worker_can_run_is_refused_by_name(
    shared: Cluster, store: Store, diary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_executor, "_UNFIT_SECONDS", 0.1)
    monkeypatch.setattr(ClusterExecutor, "_needs", lambda *_: {"modelwheel-memory": 1e15})
    (outcome,) = run_toys(shared.address, store, chain(diary, "large", 2))
    ((name, error),) = outcome.errors
    assert (name, error.code, outcome.skipped) == ("large/0", "MW763", ["large/1"])
    assert "waits for a worker with" in str(error)


# --- the network and the scheduler ----------------------------------------------------------------


def test_a_network_that_stands_still_costs_nothing(
    shared: Cluster, store: Store, diary: Path
) -> None:
    assert shared.scheduler is not None
    steps = [chain(diary, f"model{number}", 4, "sleep 0.3") for number in range(2)]
    pause = threading.Timer(0.5, shared.scheduler.send_signal, [signal.SIGSTOP])
    go_on = threading.Timer(3.5, shared.scheduler.send_signal, [signal.SIGCONT])

    def stop(event: str, name: str) -> None:
        if (event, name) == ("connected", shared.address):
            pause.start()
            go_on.start()

    outcomes = run_toys(shared.address, store, *steps, reporter=Told(on_event=stop))
    go_on.join()
    assert [len(outcome.run) for outcome in outcomes] == [4, 4]
    assert [len(noted(diary, step.name)) for task in steps for step in task] == [1] * 8


def test_a_scheduler_that_is_started_again_loses_nothing(store: Store, diary: Path) -> None:
    steps = [chain(diary, f"model{number}", 3, "sleep 0.2") for number in range(2)]
    with cluster() as own:

        def restart(event: str, name: str) -> None:
            if (event, name) == ("finished", "model0/0"):
                assert own.scheduler is not None
                own.scheduler.kill()
                own.scheduler.wait()
                own.start_scheduler()

        outcomes = run_toys(own.address, store, *steps, reporter=Told(on_event=restart))
    assert [len(outcome.run) + len(outcome.cached) for outcome in outcomes] == [3, 3]
    assert [len(noted(diary, step.name, "ended")) for task in steps for step in task] == [1] * 6


# --- the client -----------------------------------------------------------------------------------


def _client(address: str, store: Store, length: int, does: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.clusters", address, str(store.root)]
    return subprocess.Popen([*command, str(length), does], cwd=ROOT)


def test_a_client_that_is_killed_and_started_again_goes_on(
    shared: Cluster, store: Store, diary: Path
) -> None:
    first = _client(shared.address, store, 4, "sleep 0.4")
    try:
        wait_until(lambda: noted(diary, "model0/1"))
    finally:
        first.kill()
        first.wait()
    outcomes = run_toys(
        shared.address,
        store,
        *(chain(diary, f"model{number}", 4, "sleep 0.4") for number in range(2)),
    )
    assert [outcome.errors for outcome in outcomes] == [[], []]
    assert [len(outcome.run) + len(outcome.cached) for outcome in outcomes] == [4, 4]
    assert all("model0/0" in outcome.cached for outcome in outcomes[:1])
    names = [f"model{model}/{number}" for model in range(2) for number in range(4)]
    assert [len(noted(diary, name, "ended")) for name in names] == [1] * 8


def test_ctrl_c_ends_the_steps_of_this_build_and_no_others(
    shared: Cluster, store: Store, diary: Path
) -> None:
    ours = [ClusterToy("ours", (), diary, "program 600"), ClusterToy("quick", (), diary, "sleep 1")]
    theirs = ClusterToy("theirs", (), diary, "wait go")
    done: list[object] = []
    other = threading.Thread(
        target=lambda: done.extend(run_toys(shared.address, store, [theirs])), daemon=True
    )
    other.start()
    wait_until(lambda: noted(diary, "theirs"))

    def interrupt(event: str, name: str) -> None:
        if (event, name) == ("finished", "quick"):
            wait_until((diary / "ours.pid").exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_toys(shared.address, store, ours, reporter=Told(on_event=interrupt))
    program = int((diary / "ours.pid").read_text())
    wait_until(lambda: not psutil.pid_exists(program), 10)
    assert not done
    note(diary, "go", "go")
    other.join(_SECONDS)
    assert [getattr(outcome, "run", None) for outcome in done] == [["theirs"]]
    assert {e.note.get("step") for e in list_entries(store)} >= {"quick", "theirs"}
    assert "ours" not in {e.note.get("step") for e in list_entries(store)}


# --- other stores ---------------------------------------------------------------------------------


def test_steps_run_with_a_store_of_objects(diary: Path, tmp_path: Path) -> None:
    steps = [*chain(diary, "a", 2), ClusterToy("b", ("a/1",), diary)]
    with serve_objects("s3") as url, cluster() as own:
        for expected in ("run", "cached"):
            # Another machine's directory each time: what counts is in the bucket.
            store = opening.open_store(f"{url}/store", cache=tmp_path / expected)
            (outcome,) = run_toys(own.address, store, steps)
            assert (outcome.errors, len(getattr(outcome, expected))) == ([], 3)
            assert store.read_bytes(outcome.records["b"], "text") == b"b(a/1(a/0()))"
            store.close()
    assert [len(noted(diary, step.name)) for step in steps] == [1, 1, 1]


# --- what is refused ------------------------------------------------------------------------------


def test_a_cluster_that_is_not_there_is_one_sentence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1)
    with (
        pytest.raises(
            ClusterError, match=r"cannot reach a Dask scheduler at tcp://127\.0\.0\.1:9 "
        ) as e,
        executor("tcp://127.0.0.1:9", store),
    ):
        pass
    assert e.value.code == "MW761"


def test_a_worker_with_another_version_is_refused_by_name(store: Store) -> None:
    with cluster(0) as own:
        own.start_other_worker("tests.support.other_worker")
        with pytest.raises(ClusterError) as error, executor(own.address, store):
            pass
    assert "the worker elsewhere-other has TensorFlow 2.20.0, and modelwheel " in str(error.value)
    assert error.value.code == "MW762"


def test_who_has_no_key_of_the_cluster_is_refused(
    store: Store, diary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 5)
    with cluster(1, tls=True) as own:
        (outcome,) = run_toys(own.address, store, chain(diary, "a", 1), tls=own.tls)
        strangers = make_keys(store.root.parent)
        with (
            pytest.raises(ClusterError, match="cannot reach"),
            executor(own.address, store, tls=strangers),
        ):
            pass
        with (
            pytest.raises(ClusterError, match="cannot reach"),
            executor(own.address.replace("tls", "tcp"), store),
        ):
            pass
    assert outcome.run == ["a/0"]


def test_a_store_that_workers_do_not_see_is_refused(
    shared: Cluster, store: Store, tmp_path: Path
) -> None:
    settings = Settings("build", str(tmp_path / "elsewhere"), sandbox=Policy.PREFERRED)
    with (
        open_cluster(parse_target(shared.address)) as link,
        pytest.raises(
            ClusterError, match=r"the worker \S+ sees another store at \S+elsewhere, or one"
        ) as error,
    ):
        ClusterExecutor(link, settings, store, Recorder())
    assert error.value.code == "MW762"
    assert len(str(error.value).splitlines()) == 2


def test_a_worker_that_comes_later_takes_part(store: Store, diary: Path) -> None:
    told = Told()
    with cluster(1) as own:
        wait = [ClusterToy(f"wait {number}", (), diary, "wait go") for number in range(2)]
        steps = [*wait, ClusterToy("late", (), diary, "sleep 0.1")]

        def go(event: str, _: str) -> None:
            if event == "connected":
                own.start_workers(1)
            # The scheduler may give the new worker a step before the build hears of it.
            if "late" in told.of("finished") and len(told.of("joined")) == 2:
                note(diary, "go", "go")

        told.on_event = go
        (outcome,) = run_toys(own.address, store, steps, reporter=told)
    assert sorted(outcome.run) == ["late", "wait 0", "wait 1"]
    assert len(told.of("joined")) == 2


def test_a_step_that_runs_goes_on_while_its_worker_is_stopped(
    shared: Cluster, store: Store, diary: Path
) -> None:
    """Machines that swap or are suspended come back."""
    steps = chain(diary, "model", 2, "sleep 0.5")
    with executor(shared.address, store) as found:
        model = store.root.parent
        thread = threading.Thread(
            target=lambda: run_on(
                found, [Task(steps, model / "diary", model_key=MODEL_KEY)], Recorder()
            )
        )
        thread.start()
        wait_until(lambda: noted(diary, "model/0"))
        (worker,) = noted(diary, "model/0")
        os.kill(worker, signal.SIGSTOP)
        time.sleep(1)
        os.kill(worker, signal.SIGCONT)
        thread.join(_SECONDS)
    assert len(noted(diary, "model/1", "ended")) == 1
