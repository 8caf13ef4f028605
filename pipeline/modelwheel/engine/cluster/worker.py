"""A Dask worker that runs steps: `dask worker ADDRESS --preload modelwheel.engine.cluster.worker`.

`modelwheel worker` starts it; job scripts of dask-jobqueue and manifests of Kubernetes name it as a preload.
"""

from __future__ import annotations

import asyncio
import pickle
import platform
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import dask
from distributed import Worker, get_worker
from distributed.utils import sync

from ...errors import ModelwheelError
from ...sandbox.choose import choose_sandbox
from ...workers.pool import available_memory
from .declaration import NAME, declare, name_of_worker
from .tasks import Answer, Ledger, Process, Settings, Task

_PATIENCE_SECONDS = 300.0
"""How long a step waits for a scheduler that does not answer, before it begins."""

_AGAIN_SECONDS = 0.5

_lock = threading.Lock()
_processes: list[Process] = []
"""That of this worker, once it has a step."""


def topic(build: str) -> str:
    """Where the workers of a build tell its client which steps have begun."""
    return f"{NAME}-{build}"


def dask_setup(worker: Worker) -> None:
    """Declares what this worker is; Dask calls it before the worker joins."""
    memory = int(dask.config.get("modelwheel.memory", 0)) or available_memory()
    declared = declare(memory, dask.config.get("modelwheel.resources", {}))
    content = declared.model_dump(mode="json")
    worker.startup_information[NAME] = lambda _: content
    for name, amount in declared.resources().items():
        worker.state.total_resources[name] = worker.state.available_resources[name] = amount
    if worker.nanny and threading.current_thread() is threading.main_thread():
        # Ctrl-C in a terminal reaches this process, too; the one that has started it decides what ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


async def dask_teardown(worker: Worker) -> None:  # noqa: ARG001
    """Ends everything that steps have left."""
    while _processes:
        await asyncio.to_thread(_processes.pop().close)


def execute(task: Task) -> Answer:
    """Runs one attempt at a step; on the worker."""
    return _process(get_worker()).run(task)


class _Call:
    def __init__(self, task: Task) -> None:
        self._task = task

    def __reduce__(self) -> tuple[Callable[[Task], Answer], tuple[Task]]:
        return execute, (self._task,)


def packed(task: Task) -> bytes:
    """The bytes that `pickle.loads` turns into the answer of `execute`.

    Dask's scheduler unpickles functions and their arguments, but not what is in bytes: so it needs no modelwheel.
    """
    return pickle.dumps(_Call(task))


async def end_build(build: str, *, stop: bool) -> None:
    """Forgets a build, and ends its steps if asked to; on the worker."""
    for process in tuple(_processes):
        # In a thread: the worker's own goes on saying that it is alive.
        await asyncio.to_thread(process.end, build, stop=stop)


async def probe(settings: Settings, key: str, dask_worker: Worker | None = None) -> str | None:
    """Why this worker cannot run steps of a build, as the end of a sentence; None if it can.

    Args:
        settings: Of the build.
        key: Of a record that its client has put into the store.
        dask_worker: This worker, as Dask passes it.
    """
    assert dask_worker is not None
    return await asyncio.to_thread(_probe, _process(dask_worker), settings, key)


def _probe(process: Process, settings: Settings, key: str) -> str | None:
    try:
        choose_sandbox(settings.sandbox, settings.limits)
        record = process.open(settings).lookup(key)
    except ModelwheelError as error:
        return f"says: {error}"
    if record is None:
        return (
            f"sees another store at {settings.store}, or one whose records it does not trust; all machines need the "
            "same: a directory that is mounted on each, or an address such as s3://BUCKET"
        )
    return None


def _process(worker: Worker) -> Process:
    with _lock:
        if not _processes:
            _processes.append(Process(_Ledger(worker)))
        return _processes[0]


class _Ledger(Ledger):
    """Notes attempts with Dask's scheduler, which survives its workers."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.name = name_of_worker(worker.name, platform.node())
        self.threads = worker.state.nthreads
        self.memory = int(worker.state.total_resources.get("modelwheel-memory", 0)) or None

    def begin(self, task: Task) -> str | None:
        place = [NAME, task.settings.build, task.ticket]
        scheduler = self._worker.scheduler
        before = self._ask(lambda: scheduler.get_metadata(keys=place, default=None))
        if before is None:
            self._ask(lambda: scheduler.set_metadata(keys=place, value=self.name))
            event = {"ticket": task.ticket, "name": self.name}
            self._worker.log_event(topic(task.settings.build), event)
        return None if before is None else str(before)

    def _ask(self, call: Callable[[], Coroutine[Any, Any, object]]) -> object:
        """The answer of the scheduler; asks again while the network stands still."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return sync(self._worker.loop, call)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_SECONDS)
