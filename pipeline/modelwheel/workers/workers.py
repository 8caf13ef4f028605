"""The worker processes of a pool: one that forks for every job or, where there is no fork, several."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from ..sandbox.policy import Limits
from . import client
from .client import WorkerProcess, WorkerSettings
from .endings import WorkerError
from .flags import Flags

STOPPED = "the step was stopped because the build ended before it was done"


@dataclass(frozen=True)
class Needs:
    """The needs of a job of a worker that does not fork; one that does takes every job."""

    flags: Flags
    model: str
    """A worker in which one model has run does not see another."""


@dataclass(eq=False)
class Worker:
    """One process."""

    process: WorkerProcess
    needs: Needs | None
    """None if it takes every job."""
    jobs: int = 0
    """How many it runs now."""

    def suits(self, needs: Needs) -> bool:
        """Whether it is alive and can take such a job."""
        free = self.needs is None or (self.needs == needs and not self.jobs)
        return free and self.process.is_alive


class Workers:
    """Starts workers when they are needed, and replaces those that are not.

    Args:
        directory: Where they write; the caller removes it.
        settings: How to start them.
        most: The maximum number of workers that do not fork.
    """

    def __init__(self, directory: Path, settings: WorkerSettings, most: int) -> None:
        self._directory, self._settings, self._most = directory, settings, most
        self._workers: list[Worker] = []
        self._lock = threading.RLock()
        self._started = 0
        self._stopped = False

    def take(self, needs: Needs, limits: Limits) -> Worker:
        """A worker for one job, started if there is none.

        Raises:
            WorkerError: They have been stopped.
        """
        with self._lock:
            # `stop` has ended all workers: nobody would end one that is started now.
            if self._stopped:
                raise WorkerError(STOPPED)
            suitable = next((worker for worker in self._workers if worker.suits(needs)), None)
            worker = suitable or self._start(needs, limits)
            worker.jobs += 1
            return worker

    def give_back(self, worker: Worker) -> None:
        """After the job."""
        with self._lock:
            worker.jobs -= 1
            ended = not worker.process.is_alive and not worker.jobs and worker in self._workers
            if ended:
                self._workers.remove(worker)
        if ended:
            worker.process.close()

    def has(self, needs: Needs) -> bool:
        """Whether a job need not wait until a worker has started."""
        with self._lock:
            return any(worker.suits(needs) for worker in self._workers)

    @property
    def idle(self) -> int:
        """How many workers that do not fork have nothing to do."""
        with self._lock:
            return len(self._idle())

    def end_idle(self) -> None:
        """Ends them, for their memory."""
        with self._lock:
            for worker in self._idle():
                self._end(worker)

    def stop(self) -> None:
        """Kills every worker and starts no other."""
        with self._lock:
            self._stopped = True
            for worker in self._workers:
                worker.process.kill()

    def close(self) -> None:
        """Closes what was stopped, once no thread waits for it any more."""
        while self._workers:
            self._end(self._workers[0])

    def _idle(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.needs is not None and not worker.jobs]

    def _start(self, needs: Needs, limits: Limits) -> Worker:
        settings = self._settings
        idle = self._idle()
        if idle and len(self._workers) >= self._most:
            self._end(idle[0])
        self._started += 1
        started = client.start(
            settings,
            Flags() if settings.forks else needs.flags,
            self._directory,
            self._started,
            Limits() if settings.forks else Limits(memory_bytes=limits.memory_bytes),
        )
        worker = Worker(client.WorkerProcess(started), None if settings.forks else needs)
        self._workers.append(worker)
        return worker

    def _end(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.process.close()
