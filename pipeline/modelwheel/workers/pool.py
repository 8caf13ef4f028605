"""The pool: runs jobs in worker processes, in parallel, within the machine's cores and memory."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..sandbox.choose import Sandbox
from ..sandbox.policy import Limits
from .client import COMMAND, FORKS, WorkerSettings
from .endings import WorkerError
from .jobs import InspectJob, Job, JobResult, input_files
from .workers import STOPPED, Needs, Workers

if TYPE_CHECKING:
    from typing_extensions import Self

# Measured with TensorFlow 2.21: importing it takes 0.6 GB, which all children of one worker share;
# freezing or compiling takes up to 21 bytes for each byte of weights in addition.
_WORKER_BYTES = 600_000_000
_JOB_BYTES = 600_000_000
_BYTES_PER_WEIGHT_BYTE = 21

_WALL_SECONDS, _READING_SECONDS = 3600.0, 60.0
"""What a job may take where the repository says nothing, and what one that only reads a model may take."""

_READING_SECONDS_PER_BYTE = 1e-6
"""In addition: files of good will that take long are large."""

_BUSY = 2
"""Reading is limited by the processor's time, so that it does not fail on a busy machine, and by so many times as much."""

_MEMORY_HEADROOM = 2
_MEMORY_AT_LEAST = 6_000_000_000
"""The memory limit of a job: its batch size counts, which the prediction does not know."""

_FILE_BYTES = 2 << 30
_FILE_BYTES_PER_WEIGHT_BYTE = 4
"""The largest output: a frozen graph has at most 2 GB, the constants of a program up to twice the
weights, and a reference all rows of its inputs and outputs."""


@dataclass(frozen=True, eq=False)
class _Task:
    job: Job
    future: Future[JobResult]
    memory: int
    """Bytes that the job is expected to need."""
    limits: Limits
    started: Callable[[], object]
    """Called when a worker is free."""
    step: str

    @property
    def needs(self) -> Needs:
        """Its needs of a worker that does not fork."""
        return Needs(self.job.flags, self.step.partition("/")[0])


class WorkerPool:
    """Runs jobs in worker processes, each in a child of its own and locked in by the sandbox.

    Where there is no fork, each worker runs one job after another of one model with the same flags;
    an idle one with others is replaced. If the process of a job dies, only that job fails. Leaving
    the `with` block waits for all jobs; leaving it by an exception, such as Ctrl-C, kills every
    process at once.

    Args:
        directory: Where workers run and write their logs; the caller removes it.
        max_workers: The maximum number of jobs at once; by default one for each core.
        memory_bytes: The memory they may use together; by default what is available now.
        command: Starts a worker.
        sandbox: Locks them in, and says what each job may use; by default the best one that this
            machine has.
        forks: Whether a worker forks for each job; by default where that is possible.
    """

    def __init__(
        self,
        directory: Path,
        max_workers: int | None = None,
        memory_bytes: int | None = None,
        command: Sequence[str] = COMMAND,
        *,
        sandbox: Sandbox | None = None,
        forks: bool = FORKS,
    ) -> None:
        self._memory = available_memory() if memory_bytes is None else memory_bytes
        self._allowed, self._forks = sandbox.limits if sandbox else Limits(), forks
        room = (self._memory - self._base) // self._per_job
        self._count = min(max_workers or usable_cores(), max(1, room))
        settings = WorkerSettings(command, sandbox, forks)
        self._workers = Workers(directory, settings, self._count)
        self._waiting: list[_Task] = []
        self._running: list[_Task] = []
        self._changed = threading.Condition()  # its lock is reentrant
        self._closed = self._killed = False
        # A thread for each job that may run: a task that was given its place does not queue again.
        # They also live as long as the workers, which end with the thread that started them.
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="worker")

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
                    self._changed.wait_for(lambda: not self._waiting and not self._running)
        finally:
            # Also if Ctrl-C arrives during the wait above.
            self.kill()

    @property
    def _base(self) -> int:
        """Bytes that are used once, by the worker that forks."""
        return _WORKER_BYTES if self._forks else 0

    @property
    def _per_job(self) -> int:
        """Bytes that a job uses beside its weights."""
        return _JOB_BYTES if self._forks else _WORKER_BYTES + _JOB_BYTES

    def submit(
        self, job: Job, started: Callable[[], object] = lambda: None, step: str = ""
    ) -> Future[JobResult]:
        """Queues a job; calls `started`, in another thread, when it begins.

        The future raises what the job raised: a ModelwheelError, which is a WorkerError if the job
        failed unexpectedly, reached a limit or its process died. A job that still waits can be
        cancelled.

        Args:
            job: The job.
            started: Called without arguments.
            step: What to call the job in messages, beginning with its model's name and a slash.
        """
        # A missing file is for the job to report.
        weights = sum(path.stat().st_size for path in input_files(job) if path.exists())
        memory = self._per_job + _BYTES_PER_WEIGHT_BYTE * weights
        task = _Task(job, Future(), memory, self._limits_of(job, weights), started, step)
        with self._changed:
            if self._closed or self._killed:
                raise RuntimeError("the pool is closed")
            self._waiting.append(task)
            self._dispatch()
        return task.future

    def _limits_of(self, job: Job, weights: int) -> Limits:
        """The limits of a job on a model with so many bytes of weights."""
        wall, memory = self._allowed.wall_seconds or _WALL_SECONDS, self._allowed.memory_bytes
        # The wall clock ends a job first, unless something has stopped its worker.
        cpu = math.ceil(wall * usable_cores()) + 1
        if isinstance(job, InspectJob):
            reading = self._allowed.reading_seconds or _READING_SECONDS
            reading = min(wall, reading + _READING_SECONDS_PER_BYTE * weights)
            cpu, wall = math.ceil(reading), min(wall, _BUSY * reading)
        if memory is None:
            expected = _MEMORY_HEADROOM * _BYTES_PER_WEIGHT_BYTE * weights
            memory = _MEMORY_AT_LEAST + expected
        return Limits(
            memory_bytes=memory,
            cpu_seconds=cpu,
            wall_seconds=wall,
            processes=1,
            file_bytes=_FILE_BYTES + _FILE_BYTES_PER_WEIGHT_BYTE * weights,
        )

    def _dispatch(self) -> None:
        """Starts waiting tasks as far as there is room; the caller holds the lock."""
        # Starting a worker costs seconds, so tasks for idle workers go first; among equals the
        # oldest does, as the sort is stable. The copy lets tasks leave the list meanwhile.
        by_fit = sorted(self._waiting, key=lambda task: not self._workers.has(task.needs))
        for task in by_fit:
            if len(self._running) == self._count:
                return
            if not self._make_room(task):
                # Smaller tasks may overtake it; it runs at the latest when no other is left.
                continue
            self._waiting.remove(task)
            self._running.append(task)
            self._threads.submit(self._serve, task)

    def _make_room(self, task: _Task) -> bool:
        """Whether there is memory for the task; ends idle workers if that helps.

        One task always runs, however much it needs: nothing is gained by waiting.
        """
        needed = self._base + sum(running.memory for running in self._running) + task.memory
        # Idle workers do not count here, as they can be ended.
        if self._running and needed > self._memory:
            return False
        if needed + self._workers.idle * _WORKER_BYTES > self._memory:
            self._workers.end_idle()
        return True

    def _serve(self, task: _Task) -> None:
        """Runs one task, in a thread of its own."""
        try:
            if task.future.set_running_or_notify_cancel():
                self._run(task)
        finally:
            with self._changed:
                self._running.remove(task)
                self._dispatch()
                self._changed.notify_all()

    def _run(self, task: _Task) -> None:
        try:
            task.started()
            worker = self._workers.take(task.needs, task.limits)
            try:
                result = worker.process.run(task.job, task.limits, task.step)
            finally:
                self._workers.give_back(worker)
        except BaseException as error:  # noqa: BLE001 - the future raises it
            # A worker that `kill` ended looks like one that the system killed for want of memory.
            stopped = self._killed and isinstance(error, WorkerError)
            task.future.set_exception(WorkerError(STOPPED) if stopped else error)
        else:
            task.future.set_result(result)

    def kill(self) -> None:
        """Ends every worker and fails every job that is not done."""
        with self._changed:
            self._closed = self._killed = True
            stopped, self._waiting = self._waiting, []
            self._workers.stop()
        # Without the lock: callbacks of futures run here, and may wait for other threads.
        for task in stopped:
            if task.future.set_running_or_notify_cancel():
                task.future.set_exception(WorkerError(STOPPED))
        # Waits for the threads. None of them blocks, as the workers are dead.
        self._threads.shutdown()
        self._workers.close()


def expected_memory(weights: int) -> int:
    """Bytes that a job on a model with so many bytes of weights is expected to need beside what workers share."""
    return _JOB_BYTES + _BYTES_PER_WEIGHT_BYTE * weights


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


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
