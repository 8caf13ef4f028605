"""The pool with real workers: one that dies costs one job, and an interrupt ends all of them.

`tests/integration/test_pool.py` has the rest, with workers that need no TensorFlow.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.workers.endings import WorkerError
from modelwheel.workers.jobs import FreezeRequest, InspectRequest, JobResult
from modelwheel.workers.pool import WorkerPool
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def _workers(before: set[int]) -> list[psutil.Process]:
    """Worker processes of this one that were not there before."""
    return [child for child in psutil.Process().children() if child.pid not in before]


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; it is left to the pool, which may have noticed first."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


@pytest.fixture
def before() -> Iterator[set[int]]:
    """Children of this process before the test; no other is left by it."""
    known = {child.pid for child in psutil.Process().children()}
    yield known
    wait_until(lambda: not _workers(known))


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
        wait_until(lambda: _workers(before))
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
            _inspect(pool, tmp_path / "1", tmp_path / "3").result()
        assert _workers(before) == [worker]
        job = InspectRequest().job(models / "mlp", tmp_path)
        foreign = FreezeRequest.model_construct(signature="serving_default", batch="b", shapes={})
        with pytest.raises(WorkerError, match="the worker does not accept the job") as caught:
            pool.submit(job.model_copy(update={"kind": "freeze", "request": foreign})).result()
        assert "Traceback" in caught.value.detail
        assert _workers(before) == [worker]

        # One that was killed while it was idle costs nothing.
        worker.kill()
        wait_until(lambda: _has_ended(worker.pid))
        _inspect(pool, models / "mlp", tmp_path / "4").result()


def test_an_interrupt_ends_every_worker_at_once(
    models: Path, tmp_path: Path, before: set[int]
) -> None:
    with _interrupted_pool(tmp_path, 2, 10**11) as pool:
        futures = [_inspect(pool, models / "mlp", tmp_path / str(i)) for i in range(4)]
        wait_until(lambda: _workers(before))
    assert not _workers(before)
    for future in futures:
        assert future.done()
        with pytest.raises(WorkerError, match="stopped because the build ended"):
            future.result()
    with pytest.raises(RuntimeError, match="closed"):
        _inspect(pool, models / "mlp", tmp_path / "late")
