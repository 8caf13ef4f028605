"""The pool and its processes, with a worker that speaks the protocol without TensorFlow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from modelwheel.compiler.flags import Flags
from modelwheel.compiler.jobs import CompileRequest, InspectRequest, JobResult
from modelwheel.compiler.pool import WorkerPool
from modelwheel.compiler.worker_process import WorkerError
from modelwheel.errors import UnsupportedModelError
from modelwheel.levels import LEVELS
from modelwheel.platforms import PLATFORMS
from modelwheel.store.store import Store
from tests.support.toy_worker import COMMAND

_SECONDS = 30


class _Jobs:
    """Submits inspect jobs to a pool of toy workers."""

    def __init__(self, directory: Path, pool: WorkerPool) -> None:
        self.pool = pool
        self._directory = directory
        self._count = 0

    def submit(
        self, *behaviour: str, started: Callable[[], object] = lambda: None
    ) -> Future[JobResult]:
        """One job; `behaviour` is what the worker does with it."""
        self._count += 1
        model, out = (self._directory / f"{name}{self._count}" for name in ("model", "out"))
        model.mkdir()
        out.mkdir()
        (model / "behaviour").write_text("\n".join(behaviour))
        return self.pool.submit(InspectRequest().job(model, out), started)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "workers"
    path.mkdir()
    return path


@pytest.fixture
def jobs(tmp_path: Path, directory: Path) -> Iterator[_Jobs]:
    """One worker."""
    with WorkerPool(directory, 1, command=COMMAND) as pool:
        yield _Jobs(tmp_path, pool)


def _children() -> set[psutil.Process]:
    return {child for child in psutil.Process().children() if child.is_running()}


def _wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


# --- answers --------------------------------------------------------------------------------------


def test_a_job_that_is_done(jobs: _Jobs) -> None:
    assert jobs.submit().result() == JobResult(seconds=0.5)


def test_what_a_job_refuses_is_raised_as_its_own_class(jobs: _Jobs) -> None:
    with pytest.raises(UnsupportedModelError, match=r"^no such signature$"):
        jobs.submit("refuse no such signature").result()
    assert jobs.submit().result()


def test_an_unexpected_failure_keeps_its_traceback(jobs: _Jobs) -> None:
    with pytest.raises(WorkerError, match="TensorFlow failed") as caught:
        jobs.submit("fail TensorFlow failed: KeyError").result()
    assert caught.value.detail == "Traceback"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("number 17", "the worker answered 17, not 1"),
        ("say hello", "the worker sent no valid answer"),
        ('say {"id": 1, "second": 2}', "the worker sent no valid answer"),
        ("exit 3", "the worker process ended with exit code 3"),
        pytest.param(
            *("crash F0000 00:00 1 a.cc:1] Check failed: x", "SIGABRT.*Check failed: x"),
            marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals"),
        ),
        ("forget inspection.json", "inspect did not write inspection.json"),
        ("add core.dump", "inspect also wrote core.dump"),
    ],
)
def test_a_worker_that_does_not_keep_to_the_protocol(
    jobs: _Jobs, behaviour: str, words: str
) -> None:
    with pytest.raises(WorkerError, match=words):
        jobs.submit(behaviour).result()
    assert jobs.submit().result()  # by another worker, if that one cannot be trusted any more


# --- processes ------------------------------------------------------------------------------------


def test_a_worker_takes_one_job_after_another(jobs: _Jobs) -> None:
    before = _children()
    jobs.submit().result()
    (worker,) = _children() - before
    jobs.submit("refuse it").exception()
    jobs.submit().result()
    assert _children() - before == {worker}


def test_other_flags_get_another_worker(jobs: _Jobs, tmp_path: Path) -> None:
    before = _children()
    jobs.submit().result()
    (first,) = _children() - before
    out = tmp_path / "compiled"
    out.mkdir()
    level, platform = LEVELS["x86-64-v3"], PLATFORMS["linux-x86_64"]
    request = CompileRequest.at(platform, level, "mw::a", Flags(("--xla_a=1",)))
    jobs.pool.submit(request.job(tmp_path, out)).result()
    (second,) = _children() - before
    assert second != first
    assert second.environ()["XLA_FLAGS"] == "--xla_a=1"


def test_jobs_run_side_by_side_in_as_many_workers_as_allowed(
    tmp_path: Path, directory: Path
) -> None:
    before = _children()
    with WorkerPool(directory, 2, 10**12, COMMAND) as pool:
        jobs = _Jobs(tmp_path, pool)
        futures = [jobs.submit("sleep 0.3") for _ in range(4)]
        _wait_until(lambda: len(_children() - before) == 2)
        assert [future.result().seconds for future in futures] == [0.5] * 4
        assert len(_children() - before) == 2
    assert not _children() - before


def test_short_memory_allows_one_worker(tmp_path: Path, directory: Path) -> None:
    before = _children()
    with WorkerPool(directory, 4, 10**9, COMMAND) as pool:
        jobs = _Jobs(tmp_path, pool)
        futures = [jobs.submit("sleep 0.1") for _ in range(3)]
        _wait_until(futures[1].running)
        assert len(_children() - before) == 1


def test_big_jobs_wait_for_memory(tmp_path: Path, directory: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    with (model / "weights").open("wb") as file:
        file.truncate(10**9)  # a hole: 21 GB are expected for a model of this size
    events: list[str] = []
    with WorkerPool(directory, 4, 30 * 10**9, COMMAND) as pool:
        for number in range(3):
            out = tmp_path / str(number)
            out.mkdir()
            job = InspectRequest().job(model, out)
            future = pool.submit(job, partial(events.append, "starts"))
            future.add_done_callback(lambda _: events.append("ends"))
    assert events == ["starts", "ends"] * 3


def test_started_is_called_when_a_worker_is_free(jobs: _Jobs) -> None:
    events: list[str] = []
    for name in ("first", "second"):
        future = jobs.submit(started=partial(events.append, f"{name} starts"))
        future.add_done_callback(lambda _, name=name: events.append(f"{name} ends"))  # type: ignore[misc]
    _wait_until(lambda: len(events) == 4)
    assert events == ["first starts", "first ends", "second starts", "second ends"]


def test_a_job_that_waits_can_be_cancelled(jobs: _Jobs) -> None:
    begun = threading.Event()
    running = jobs.submit("sleep 0.3", started=begun.set)
    assert begun.wait(_SECONDS)
    waiting, last = jobs.submit("add never"), jobs.submit()
    assert waiting.cancel()
    assert running.result()
    assert last.result()
    with pytest.raises(CancelledError):
        waiting.result()


# --- ends -----------------------------------------------------------------------------------------


def test_an_interrupt_ends_every_worker_at_once(tmp_path: Path, directory: Path) -> None:
    before, start = _children(), time.monotonic()
    with suppress(KeyboardInterrupt), WorkerPool(directory, 2, 10**12, COMMAND) as pool:
        jobs = _Jobs(tmp_path, pool)
        futures = [jobs.submit("sleep 600") for _ in range(4)]
        _wait_until(lambda: len(_children() - before) == 2)
        raise KeyboardInterrupt
    assert time.monotonic() - start < _SECONDS
    assert not _children() - before
    for future in futures:
        with pytest.raises(WorkerError, match="stopped because the build ended"):
            future.result()
    with pytest.raises(RuntimeError, match="closed"):
        jobs.submit()


_POOL = """
import sys, time
from pathlib import Path
from modelwheel.compiler.jobs import InspectRequest
from modelwheel.compiler.pool import WorkerPool
from modelwheel.store.store import Store

store = Store(Path(sys.argv[1]))
model, out = Path(sys.argv[2]), Path(sys.argv[3])
with store.scratch() as scratch, WorkerPool(scratch, 1, command=sys.argv[4:]) as pool:
    pool.submit(InspectRequest().job(model, out), lambda: print("started", flush=True)).result()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_pool_that_is_killed_leaves_nothing_in_the_temporary_directory(tmp_path: Path) -> None:
    """Neither its own files nor its workers'; the next process empties the store's scratch space."""
    for name in ("temporary", "model", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "behaviour").write_text("sleep 1")
    names = ("TMPDIR", "TEMP", "TMP")
    process = subprocess.Popen(
        [sys.executable, "-c", _POOL, *(tmp_path / n for n in ("store", "model", "out")), *COMMAND],
        env={
            **os.environ,
            **dict.fromkeys(names, str(tmp_path / "temporary")),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    _wait_until((tmp_path / "out" / "inspection.json").exists)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    psutil.wait_procs(workers, timeout=_SECONDS)
    assert list((tmp_path / "temporary").iterdir()) == []
    left = [path.name for path in (tmp_path / "store" / "tmp").rglob("worker-1.log")]
    assert left == ["worker-1.log"]
    store = Store(tmp_path / "store")
    with store.scratch():
        assert list((tmp_path / "store" / "tmp").rglob("worker-1.log")) == []
    store.close()
