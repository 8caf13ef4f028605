"""The pool: what it does when workers die, when it is interrupted, and when memory is short."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from modelwheel.compiler.flags import Flags, xla_flags
from modelwheel.compiler.jobs import CompileRequest, InspectRequest, JobResult
from modelwheel.compiler.pool import WorkerPool
from modelwheel.compiler.worker_process import WorkerError
from modelwheel.errors import UnsupportedModelError
from modelwheel.levels import LEVELS
from modelwheel.platforms import PLATFORMS

pytestmark = pytest.mark.slow


def _workers(before: set[int]) -> list[psutil.Process]:
    """Worker processes of this one that were not there before."""
    return [child for child in psutil.Process().children() if child.pid not in before]


def _wait_for(found: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def before() -> Iterator[set[int]]:
    """Children of this process before the test; no other is left by it."""
    known = {child.pid for child in psutil.Process().children()}
    yield known
    _wait_for(lambda: not _workers(known))


@contextmanager
def _interrupted_pool(
    directory: Path, max_workers: int, memory_bytes: int | None = None
) -> Iterator[WorkerPool]:
    """A pool that Ctrl-C ends where the block ends."""
    with suppress(KeyboardInterrupt), WorkerPool(directory, max_workers, memory_bytes) as pool:
        yield pool
        raise KeyboardInterrupt


def _inspect(pool: WorkerPool, model: Path, out: Path) -> Future[JobResult]:
    out.mkdir()
    return pool.submit(InspectRequest().job(model, out))


def test_a_killed_worker_costs_one_job(models: Path, tmp_path: Path, before: set[int]) -> None:
    with WorkerPool(tmp_path, 1) as pool:
        first = _inspect(pool, models / "mlp", tmp_path / "1")
        second = _inspect(pool, models / "mlp", tmp_path / "2")
        _wait_for(lambda: _workers(before))
        (victim,) = _workers(before)
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"killed by signal 9 \(SIGKILL\).*memory"):
            first.result()
        second.result()
        assert (tmp_path / "2" / "inspection.json").exists()
        assert victim.pid not in {worker.pid for worker in _workers(before)}

        # A worker goes on after a job that failed, and after one that crashed another way.
        (worker,) = _workers(before)
        with pytest.raises(UnsupportedModelError, match="no SavedModel"):
            _inspect(pool, tmp_path, tmp_path / "3").result()
        assert _workers(before) == [worker]
        third = pool.submit(InspectRequest().job(models / "mlp", tmp_path / "no such directory"))
        with pytest.raises(WorkerError, match="TensorFlow failed: FileNotFoundError") as caught:
            third.result()
        assert "Traceback" in caught.value.detail
        assert _workers(before) == [worker]

        # One that was killed while it was idle costs nothing.
        worker.kill()
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        _wait_for(lambda: os.waitid(os.P_PID, worker.pid, ended))
        _inspect(pool, models / "mlp", tmp_path / "4").result()


def test_an_interrupt_ends_every_worker_at_once(
    models: Path, tmp_path: Path, before: set[int]
) -> None:
    with _interrupted_pool(tmp_path, 2, 10**11) as pool:
        futures = [_inspect(pool, models / "mlp", tmp_path / str(i)) for i in range(4)]
        _wait_for(lambda: len(_workers(before)) == 2)
    assert not _workers(before)
    for future in futures:
        assert future.done()
        with pytest.raises(WorkerError, match="stopped because the build ended"):
            future.result()
    with pytest.raises(RuntimeError, match="closed"):
        _inspect(pool, models / "mlp", tmp_path / "late")


def test_short_memory_allows_one_worker(models: Path, tmp_path: Path, before: set[int]) -> None:
    with _interrupted_pool(tmp_path, 4, 10**9) as pool:
        for i in range(3):
            _inspect(pool, models / "mlp", tmp_path / str(i))
        _wait_for(lambda: _workers(before))
        assert len(_workers(before)) == 1


def test_big_jobs_wait_for_memory(tmp_path: Path, before: set[int]) -> None:
    model = tmp_path / "model"
    model.mkdir()
    with (model / "weights").open("wb") as file:
        file.truncate(10**9)  # a hole: 21 GB are expected for a model of this size
    with _interrupted_pool(tmp_path, 4, 30 * 10**9) as pool:
        futures = [_inspect(pool, model, tmp_path / str(i)) for i in range(3)]
        _wait_for(lambda: _workers(before))
        assert [future.running() for future in futures] == [True, False, False]


def test_a_job_starts_when_a_worker_is_free(models: Path, tmp_path: Path) -> None:
    events: list[str] = []
    with WorkerPool(tmp_path, 1) as pool:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            job = InspectRequest().job(models / "mlp", tmp_path / name)
            future = pool.submit(job, partial(events.append, f"{name} starts"))
            future.add_done_callback(lambda _, name=name: events.append(f"{name} ends"))  # type: ignore[misc]
    assert events == ["first starts", "first ends", "second starts", "second ends"]


def test_other_flags_get_another_worker(models: Path, tmp_path: Path, before: set[int]) -> None:
    request = CompileRequest.at(
        PLATFORMS["linux-x86_64"], LEVELS["x86-64"], "mw::a", Flags(xla_flags(LEVELS["x86-64"]))
    )
    out = tmp_path / "out"
    out.mkdir()
    with _interrupted_pool(tmp_path, 1) as pool:
        _inspect(pool, models / "mlp", tmp_path / "1").result()
        (first,) = _workers(before)
        pool.submit(request.job(tmp_path, out))
        _wait_for(lambda: first not in _workers(before) and _workers(before))
        (second,) = _workers(before)
        # Between fork and exec it still has the environment of this process.
        _wait_for(lambda: second.environ().get("XLA_FLAGS") == " ".join(request.flags.xla))
