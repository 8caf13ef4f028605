"""One worker for the commands that a process of tests runs one after another: starting one takes five seconds of TensorFlow's.

Each job still has a fork of its own, as those of one command have. A command whose worker would be another one (sandbox,
variables, umask), or that needs two at once, starts its own. One in which a command leaves a job is killed and replaced.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import modelwheel.workers.client
from modelwheel.sandbox.choose import Sandbox, choose_sandbox
from modelwheel.sandbox.policy import Limits, Policy
from modelwheel.util.processes.groups import kill_group, kill_session
from modelwheel.util.removal import remove_tree
from modelwheel.workers.client import (
    Started,
    WorkerProcess,
    WorkerSettings,
    start,
    worker_environment,
)
from modelwheel.workers.flags import Flags


class KeptWorker:
    """Held by the process that forks the commands, which has one thread."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="kept-worker-"))
        self._sandbox, self._umask = _unlimited(choose_sandbox(Policy.PREFERRED)), _umask()
        self._started: list[Started] = []
        atexit.register(self._end)

    def renew(self) -> None:
        """Starts it where it does not run."""
        if not self._started or self._started[-1].process.poll() is not None:
            self._environment = worker_environment(Flags())
            settings = WorkerSettings(sandbox=self._sandbox)
            number = len(self._started) + 1
            self._started.append(start(settings, Flags(), self._directory, number))

    def lend(self) -> None:
        """Has the command that this process becomes use it."""
        atexit.unregister(self._end)
        client: _Borrower | None = None

        def start_or_borrow(
            settings: WorkerSettings,
            flags: Flags,
            directory: Path,
            number: int,
            limits: Limits | None = None,
        ) -> Started:
            sandbox = settings.sandbox or choose_sandbox(Policy.PREFERRED)
            fits = (
                replace(settings, sandbox=_unlimited(sandbox))
                == WorkerSettings(sandbox=self._sandbox)
                and (limits or Limits()) == Limits()
                and worker_environment(flags) == self._environment
                and _umask() == self._umask
            )
            if fits and (client is None or (client.is_free and client.is_alive)):
                return self._started[-1]
            return start(settings, flags, directory, number, limits)

        def client_of(started: Started) -> WorkerProcess:
            nonlocal client
            if started is not self._started[-1]:
                return WorkerProcess(started)
            client = client or _Borrower(started)
            client.is_free = False
            return client

        modelwheel.workers.client.start = start_or_borrow
        modelwheel.workers.client.WorkerProcess = client_of  # type: ignore[assignment,misc]

    def _end(self) -> None:
        kill_group(self._started[-1].process)
        remove_tree(self._directory)


class _Borrower(WorkerProcess):
    """A client that does not end its worker."""

    is_free, _is_killed = True, False

    def __init__(self, started: Started) -> None:
        self._end = os.pidfd_open(started.process.pid)
        super().__init__(started)

    @property
    def is_alive(self) -> bool:
        """The process is no child of this one, which cannot wait for it."""
        return self._ended is None and not select.select([self._end], [], [], 0)[0]

    def kill(self) -> None:
        """Only if a job is left in it."""
        if self._waiting:
            self._is_killed = True
            os.killpg(self._process.pid, signal.SIGKILL)
            kill_session(self._process.pid)

    def close(self) -> None:
        """Gives it back; its pipes stay open."""
        self.kill()
        self.is_free = not self._is_killed


def _unlimited(sandbox: Sandbox) -> Sandbox:
    return replace(sandbox, limits=Limits())


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
