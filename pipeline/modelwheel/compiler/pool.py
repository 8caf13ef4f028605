"""The pool of worker processes: jobs go out in parallel, within the machine's cores and memory."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .jobs import Flags, Job, JobResult
from .worker_process import WorkerError, WorkerProcess

if TYPE_CHECKING:
    from typing_extensions import Self

# Measured: importing TensorFlow takes 0.55 GB, freezing or compiling 21 bytes for each byte of
# weights on top of it.
_BASE_BYTES = 1_200_000_000
_BYTES_PER_WEIGHT_BYTE = 21

_STOPPED = "the step was stopped because the build ended before it was done"


@dataclass(frozen=True)
class _Task:
    job: Job
    future: Future[JobResult]
    memory: int
    """Bytes that the worker is expected to need."""
    started: Callable[[], object]
    """Called when a worker is at hand."""


@dataclass
class _Slot:
    """Room for one worker; with a task it is busy."""

    worker: WorkerProcess | None = None
    task: _Task | None = None

    @property
    def memory(self) -> int:
        """Bytes that it is expected to hold."""
        if self.task is not None:
            return self.task.memory
        return _BASE_BYTES if self.worker is not None else 0

    def has(self, flags: Flags) -> bool:
        """Whether its worker was started with these flags and lives."""
        return self.worker is not None and self.worker.flags == flags and self.worker.is_alive


class WorkerPool:
    """Runs jobs in worker processes.

    A worker takes one job after another that want the same flags; an idle one with other flags is
    replaced. A worker that dies fails the one job that it had. Leaving the `with` block waits for
    all jobs; leaving it by an exception, Ctrl-C among them, kills every worker at once.

    Args:
        max_workers: At most so many processes; by default one for each core.
        memory_bytes: What they may use together; by default what is available now.
    """

    def __init__(self, max_workers: int | None = None, memory_bytes: int | None = None) -> None:
        self._memory = available_memory() if memory_bytes is None else memory_bytes
        count = min(max_workers or _cores(), max(1, self._memory // _BASE_BYTES))
        self._slots = [_Slot() for _ in range(count)]
        self._waiting: list[_Task] = []
        self._changed = threading.Condition()  # its lock is reentrant
        self._closed = self._killed = False
        self._started = 0
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="worker")
        self._directory = tempfile.TemporaryDirectory(prefix="modelwheel-workers-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                with self._changed:
                    self._closed = True
                    self._changed.wait_for(lambda: not self._waiting and not any(self._busy()))
        finally:
            self._kill()

    def submit(self, job: Job, started: Callable[[], object] = lambda: None) -> Future[JobResult]:
        """Queues a job; calls `started`, in another thread, when it need not wait any longer.

        Its future raises what the job raised: a ModelwheelError, which is a WorkerError where the
        job failed unexpectedly or its process died.
        """
        weights = sum(map(_size, job.inputs.values()))
        task = _Task(job, Future(), _BASE_BYTES + _BYTES_PER_WEIGHT_BYTE * weights, started)
        with self._changed:
            if self._closed or self._killed:
                raise RuntimeError("the pool is closed")
            self._waiting.append(task)
            self._dispatch()
        return task.future

    def _busy(self) -> Iterator[_Slot]:
        return (slot for slot in self._slots if slot.task is not None)

    def _dispatch(self) -> None:
        """Gives waiting tasks to idle slots; the lock is held."""
        by_fit = sorted(self._waiting, key=lambda task: not self._is_expected(task))
        for task in by_fit:
            slot = self._choose_slot(task)
            if slot is None:
                return
            if not self._make_room(task, slot):
                continue
            self._waiting.remove(task)
            slot.task = task
            self._threads.submit(self._serve, slot, task)

    def _is_expected(self, task: _Task) -> bool:
        """Whether an idle worker has the task's flags already."""
        return any(slot.task is None and slot.has(task.job.flags) for slot in self._slots)

    def _choose_slot(self, task: _Task) -> _Slot | None:
        """An idle slot: with a worker of the same flags, else with none, else with any."""
        idle = [slot for slot in self._slots if slot.task is None]
        rank = [(not slot.has(task.job.flags), slot.worker is not None) for slot in idle]
        return min(zip(rank, idle, strict=True), key=lambda pair: pair[0])[1] if idle else None

    def _make_room(self, task: _Task, slot: _Slot) -> bool:
        """Whether memory allows to run the task; ends idle workers if that helps."""
        busy = list(self._busy())
        if busy and sum(other.memory for other in busy) + task.memory > self._memory:
            return False
        idle = [s for s in self._slots if s is not slot and s.task is None and s.worker is not None]
        if sum(other.memory for other in (*busy, *idle)) + task.memory > self._memory:
            for other in idle:
                self._discard(other)
        return True

    def _serve(self, slot: _Slot, task: _Task) -> None:
        """Runs one task on a slot, in a thread of its own."""
        try:
            if task.future.set_running_or_notify_cancel():
                self._run(slot, task)
        finally:
            with self._changed:
                slot.task = None
                self._dispatch()
                self._changed.notify_all()

    def _run(self, slot: _Slot, task: _Task) -> None:
        try:
            task.started()
            result = self._worker(slot, task.job.flags).run(task.job)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
            stopped = self._killed and isinstance(error, WorkerError)
            task.future.set_exception(WorkerError(_STOPPED) if stopped else error)
        else:
            task.future.set_result(result)
        if slot.worker is not None and not slot.worker.is_alive:
            self._discard(slot)

    def _worker(self, slot: _Slot, flags: Flags) -> WorkerProcess:
        """The slot's worker, replaced if it has other flags."""
        if not slot.has(flags):
            self._discard(slot)
            with self._changed:
                if self._killed:
                    raise WorkerError(_STOPPED)
                self._started += 1
                slot.worker = WorkerProcess(flags, Path(self._directory.name), self._started)
        assert slot.worker is not None
        return slot.worker

    def _discard(self, slot: _Slot) -> None:
        with self._changed:
            worker, slot.worker = slot.worker, None
        if worker is not None:
            worker.close()

    def _kill(self) -> None:
        """Ends every worker and with it every job that is not done."""
        with self._changed:
            self._closed = self._killed = True
            stopped, self._waiting = self._waiting, []
            for slot in self._slots:
                if slot.worker is not None:
                    slot.worker.kill()
        for task in stopped:
            if task.future.set_running_or_notify_cancel():
                task.future.set_exception(WorkerError(_STOPPED))
        self._threads.shutdown()
        for slot in self._slots:
            self._discard(slot)
        self._directory.cleanup()


def available_memory(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that new processes may use: of the machine, or less where a container is limited.

    Args:
        group: The directory of the control group (version 2).
    """
    import psutil  # of the extra `build`

    available = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError, KeyError):  # no control group, or one without limit ("max")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # Cached file contents give way when memory is needed.
        available = min(available, limit - used + int(counts["inactive_file"]))
    return max(available, 0)


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _size(path: Path) -> int:
    """Bytes of a file, or of all files below a directory."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.exists() else 0
