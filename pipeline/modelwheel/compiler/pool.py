"""The pool of worker processes: runs jobs in parallel, within the machine's cores and memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .flags import Flags
from .jobs import Job, JobResult, input_files
from .worker_process import COMMAND, WorkerError, WorkerProcess

if TYPE_CHECKING:
    from typing_extensions import Self

# Measured with TensorFlow 2.21: importing it takes 0.55 GB; freezing or compiling takes up to
# 21 bytes for each byte of weights in addition.
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
    """Called when a worker is free."""


@dataclass
class _Slot:
    """Room for one worker; with a task it is busy."""

    worker: WorkerProcess | None = None
    task: _Task | None = None

    @property
    def memory(self) -> int:
        """Bytes that it is expected to use."""
        if self.task is not None:
            return self.task.memory
        return _BASE_BYTES if self.worker is not None else 0

    def has(self, flags: Flags) -> bool:
        """Whether its worker was started with these flags and is alive."""
        return self.worker is not None and self.worker.flags == flags and self.worker.is_alive


class WorkerPool:
    """Runs jobs in worker processes.

    A worker runs one job after another with the same flags; an idle one with other flags is
    replaced. If a worker dies, only the job that it was running fails. Leaving the `with` block
    waits for all jobs; leaving it by an exception, such as Ctrl-C, kills every worker at once.

    Args:
        directory: Where workers run and write their logs; the caller removes it.
        max_workers: The maximum number of processes; by default one for each core.
        memory_bytes: The memory they may use together; by default what is available now.
        command: Starts a worker.
    """

    def __init__(
        self,
        directory: Path,
        max_workers: int | None = None,
        memory_bytes: int | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._directory, self._command = directory, command
        self._memory = available_memory() if memory_bytes is None else memory_bytes
        count = min(max_workers or _cores(), max(1, self._memory // _BASE_BYTES))
        self._slots = [_Slot() for _ in range(count)]
        self._waiting: list[_Task] = []
        self._changed = threading.Condition()  # its lock is reentrant
        self._closed = self._killed = False
        self._started = 0
        # A thread for each slot: a task that has been given a slot does not queue again. Threads
        # only wait for their workers; they could not compile, as tfcompile holds the GIL.
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="worker")

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
            # Also if Ctrl-C arrives during the wait above.
            self._kill()

    def submit(self, job: Job, started: Callable[[], object] = lambda: None) -> Future[JobResult]:
        """Queues a job; calls `started`, in another thread, when a worker is free.

        The future raises what the job raised: a ModelwheelError, which is a WorkerError if the job
        failed unexpectedly or its process died. A job that still waits can be cancelled.
        """
        # A missing file is for the job to report.
        weights = sum(path.stat().st_size for path in input_files(job) if path.exists())
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
        """Assigns waiting tasks to idle slots; the caller holds the lock."""
        # Starting a worker costs seconds, so tasks for idle workers go first; among equals the
        # oldest does, as the sort is stable. The copy lets tasks leave the list meanwhile.
        by_fit = sorted(self._waiting, key=lambda task: not self._is_expected(task))
        for task in by_fit:
            slot = self._choose_slot(task)
            if slot is None:
                return
            if not self._make_room(task, slot):
                # Smaller tasks may overtake it; it runs at the latest when no other is left.
                continue
            self._waiting.remove(task)
            slot.task = task
            self._threads.submit(self._serve, slot, task)

    def _is_expected(self, task: _Task) -> bool:
        """Whether an idle worker has the task's flags."""
        return any(slot.task is None and slot.has(task.job.flags) for slot in self._slots)

    def _choose_slot(self, task: _Task) -> _Slot | None:
        """An idle slot: one with a worker of the same flags, else an empty one, else any."""
        idle = [slot for slot in self._slots if slot.task is None]
        rank = [(not slot.has(task.job.flags), slot.worker is not None) for slot in idle]
        return min(zip(rank, idle, strict=True), key=lambda pair: pair[0])[1] if idle else None

    def _make_room(self, task: _Task, slot: _Slot) -> bool:
        """Whether there is memory for the task; ends idle workers if that helps.

        One task always runs, however much it needs: nothing is gained by waiting.
        """
        busy = list(self._busy())
        # Idle workers do not count here, as they can be ended.
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
        except BaseException as error:  # noqa: BLE001 - the future raises it
            # A worker that `_kill` ended looks like one that the system killed for want of memory.
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
                # `_kill` has gone through the slots: nobody would kill a worker started now.
                if self._killed:
                    raise WorkerError(_STOPPED)
                self._started += 1
                slot.worker = WorkerProcess(flags, self._directory, self._started, self._command)
        assert slot.worker is not None
        return slot.worker

    def _discard(self, slot: _Slot) -> None:
        with self._changed:
            # Taken out under the lock, so that only one thread closes it.
            worker, slot.worker = slot.worker, None
        if worker is not None:
            worker.close()

    def _kill(self) -> None:
        """Ends every worker and fails every job that is not done."""
        with self._changed:
            self._closed = self._killed = True
            stopped, self._waiting = self._waiting, []
            for slot in self._slots:
                if slot.worker is not None:
                    slot.worker.kill()
        # Without the lock: callbacks of futures run here, and may wait for other threads.
        for task in stopped:
            if task.future.set_running_or_notify_cancel():
                task.future.set_exception(WorkerError(_STOPPED))
        # Waits for the threads. None of them blocks, as the workers are dead; pipes are closed
        # after that, when nobody reads from them any more.
        self._threads.shutdown()
        for slot in self._slots:
            self._discard(slot)


def available_memory(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that new processes may use: of the machine, or less in a container with a limit.

    Args:
        group: The directory of the control group (version 2); for the files see
            https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
    """
    import psutil  # of the extra `build`

    available = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError, KeyError):  # no control group, or no limit ("max")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # The kernel drops cached file contents when memory is needed.
        available = min(available, limit - used + int(counts["inactive_file"]))
    return max(available, 0)


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
