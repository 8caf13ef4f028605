"""Tasks in the worker processes of a cluster: steps of several builds, each apart from the others.

A build has its own worker pool in each process, so that its end ends its jobs and no others. A pool that is not needed
any more waits for the next build with the same settings: TensorFlow is imported once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from ...errors import ModelwheelError, StoreError
from ...sandbox.choose import choose_sandbox
from ...sandbox.policy import Limits, Policy
from ...store.layers import Policy as StorePolicy
from ...store.opening import open_store
from ...store.records import Record
from ...store.signatures import find_signer
from ...store.store import Store
from ...util.processes.process import kill_all
from ...util.removal import remove_tree
from ...util.temporary import temporary_files_in
from ...workers.client import COMMAND
from ...workers.pool import WorkerPool
from ..running import Halt, Order, Place, run_step
from ..steps.base import Step

_IDLE_SECONDS = 600.0
"""After this long without a step, what a build or a spare pool uses is given back: its client may have been killed."""

_END_SECONDS = 30.0
"""How long the end of a build waits for its steps."""


@dataclass(frozen=True)
class Settings:
    """How a build runs its steps, wherever that is."""

    build: str
    """A random name."""
    store: str
    """The address of the store, which all machines see."""
    trusted_keys: tuple[str, ...] = ()
    upstream: tuple[Path | str, ...] = ()
    sandbox: Policy = Policy.REQUIRED
    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] | None = None
    """Starts a process with TensorFlow; by default that of the worker's modelwheel."""


@dataclass(frozen=True)
class Task:
    """One attempt at a step. It has no content of a model or a result."""

    settings: Settings
    ticket: str
    """The name of the attempt."""
    step: Step
    key: str
    """Of the result, as the client computes it."""
    needs: Mapping[str, str]
    """The keys of the results that the step needs, by the names of their steps."""
    model_key: str
    """Of the record with the model."""
    alone: bool = False
    """Whether no other step may run in this process meanwhile: its worker died during the one before."""


@dataclass(frozen=True)
class Answer:
    """How an attempt ended, if the worker survived it."""

    kind: Literal["done", "failed", "again", "stopped", "differs"]
    """`again`: an attempt at this step was begun before, on `worker`, which has ended since. `differs`: this worker
    computes another key for the result."""
    worker: str
    key: str = ""
    seconds: float = 0.0
    cached: bool = False
    error: ModelwheelError | None = None


class Ledger:
    """Where attempts are noted before they begin, so that no attempt begins twice. Tests have another one."""

    name = "worker"
    threads = 1
    memory: int | None = None

    def begin(self, task: Task) -> str | None:
        """Notes that an attempt begins here; the name of the worker that has begun it before, if there is one."""


class Gate:
    """Lets steps of a process run beside each other, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = self._waiting = 0
        self._alone = False

    @contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        """Waits until the step may run."""
        with self._changed:
            if alone:
                self._waiting += 1
                self._changed.wait_for(lambda: not self._running)
                self._waiting -= 1
                self._alone = True
            else:
                # Who must be alone goes first: the others would never leave a gap.
                self._changed.wait_for(lambda: not (self._alone or self._waiting))
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._alone = False
                self._changed.notify_all()


class _Build:
    """The state of one build in this process."""

    def __init__(self, settings: Settings, process: Process) -> None:
        self.settings, self._process = settings, process
        self.stopped = threading.Event()
        self.running: set[int] = set()
        """Threads that run its steps."""
        self.used = time.monotonic()
        self._lock = threading.Lock()
        self._models: dict[str, Path] = {}
        self._pool: WorkerPool | None = None

    @cached_property
    def store(self) -> Store:
        return self._process.open(self.settings)

    def place(self) -> Place:
        """Where its steps run."""
        settings = self.settings
        with self._lock:
            sandbox = choose_sandbox(settings.sandbox, settings.limits)
            if self._pool is None:
                self._pool = self._process.take_pool(settings, self.store)
            return Place(self.store, self._pool, sandbox)

    def model(self, key: str) -> Path:
        """The directory of a model, which stays until the build ends."""
        with self._lock:
            if key not in self._models:
                directory = self.store.keep_directory()
                self.store.materialize(self.record(key, "the model"), directory, link=True)
                self._models[key] = directory
            return self._models[key]

    def record(self, key: str, what: str) -> Record:
        """A record that must be there, because the client has seen it."""
        record = self.store.lookup(key)
        if record is None:
            raise StoreError(
                f"{what} is not in the store {self.settings.store}, where it was a moment ago; run the command again"
            )
        return record

    def end(self) -> None:
        """Gives back what it has."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            self._process.give_back(pool, self.settings)
        self._forget_models()

    def _forget_models(self) -> None:
        with self._lock:
            while self._models:
                _, directory = self._models.popitem()
                remove_tree(directory)

    def stop(self) -> None:
        """Ends its jobs and its programs, and waits for its steps."""
        self.stopped.set()
        deadline = time.monotonic() + _END_SECONDS
        while True:
            with self._lock:
                pool, self._pool = self._pool, None
            if pool is not None:
                pool.kill()
            kill_all(tuple(self.running))
            if not self.running or time.monotonic() > deadline:
                return self._forget_models()
            time.sleep(0.05)


class Process:
    """The state that all builds share in a worker process."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.RLock()
        self._gate = Gate()
        self._builds: dict[str, _Build] = {}
        self._ended: set[str] = set()
        self._stores: dict[tuple[object, ...], Store] = {}
        self._spare: tuple[Settings, WorkerPool, float] | None = None
        self._held = ExitStack()
        threading.Thread(target=self._tidy, name="tidy", daemon=True).start()

    # --- steps ------------------------------------------------------------------------------------

    def run(self, task: Task) -> Answer:
        """Runs one step, or finds its result."""
        name = self._ledger.name
        build = self._build(task.settings)
        if build is None:
            return Answer("stopped", name)
        thread = threading.get_ident()
        build.running.add(thread)
        try:
            with self._gate.entered(alone=task.alone):
                return self._run(task, build)
        except ModelwheelError as error:
            return Answer("stopped" if build.stopped.is_set() else "failed", name, error=error)
        finally:
            build.running.discard(thread)
            build.used = time.monotonic()

    def _run(self, task: Task, build: _Build) -> Answer:
        if build.stopped.is_set():
            return Answer("stopped", self._ledger.name)
        before = self._ledger.begin(task)
        needed = {
            name: build.record(key, f"the result of {name}") for name, key in task.needs.items()
        }
        key = task.step.key(build.store, needed)
        if before is not None and build.store.lookup(key) is None:
            return Answer("again", before)
        if (
            key != task.key and task.step.kind != "verify"
        ):  # which CPU levels are verified depends on the machine
            return Answer("differs", self._ledger.name)
        order = Order(task.step, build.model(task.model_key), needed, Halt(build.stopped))
        done = run_step(order, build.place())
        return Answer("done", self._ledger.name, key, done.seconds, done.cached)

    def _build(self, settings: Settings) -> _Build | None:
        with self._lock:
            if settings.build in self._ended:
                return None
            return self._builds.setdefault(settings.build, _Build(settings, self))

    # --- what they use ----------------------------------------------------------------------------

    def open(self, settings: Settings) -> Store:
        """The store of a build, opened once."""
        key = (settings.store, settings.trusted_keys, settings.upstream)
        with self._lock:
            if key not in self._stores:
                signer = find_signer(settings.trusted_keys)
                policy = StorePolicy(settings.trusted_keys, settings.upstream, signer)
                store = open_store(settings.store, policy)
                if not self._stores:
                    directory = store.keep_directory()
                    self._held.enter_context(temporary_files_in(directory))
                self._stores[key] = store
            return self._stores[key]

    def take_pool(self, settings: Settings, store: Store) -> WorkerPool:
        """A pool for one build: the spare one, if it has the same settings."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            if _alike(spare[0], settings):
                return spare[1]
            spare[1].kill()
        return WorkerPool(
            store.keep_directory(),
            self._ledger.threads,
            self._ledger.memory,
            command=settings.command or COMMAND,
            sandbox=choose_sandbox(settings.sandbox, settings.limits),
        )

    def give_back(self, pool: WorkerPool, settings: Settings) -> None:
        """Keeps a pool for the next build."""
        with self._lock:
            before, self._spare = self._spare, (settings, pool, time.monotonic())
        if before is not None:
            before[1].kill()

    # --- their end --------------------------------------------------------------------------------

    def end(self, build: str, *, stop: bool) -> None:
        """Forgets a build, which sends no steps any more.

        Args:
            build: Its name.
            stop: Whether its steps are ended.
        """
        with self._lock:
            self._ended.add(build)
            ended = self._builds.pop(build, None)
        if ended is None:
            return
        if stop or ended.running:
            ended.stop()
        else:
            ended.end()

    def close(self) -> None:
        """Ends everything."""
        for build in tuple(self._builds):
            self.end(build, stop=True)
        if self._spare is not None:
            self._spare[1].kill()
        self._held.close()
        for store in self._stores.values():
            store.close()

    def _tidy(self) -> None:
        while True:
            time.sleep(_IDLE_SECONDS / 10)
            late = time.monotonic() - _IDLE_SECONDS
            with self._lock:
                idle = [name for name, b in self._builds.items() if not b.running and b.used < late]
                for name in idle:
                    # It may come back, so it is not among those that have ended.
                    self._builds.pop(name).end()
                spare = self._spare
                if spare is not None and spare[2] < late:
                    self._spare = None
                    with suppress(OSError):
                        spare[1].kill()


def _alike(left: Settings, right: Settings) -> bool:
    """Whether a pool of one build may be used by another."""
    parts = ("store", "sandbox", "limits", "command")
    return all(getattr(left, part) == getattr(right, part) for part in parts)
