"""Runs the steps of a build on a cluster. One thread decides; everything else puts what happened into its inbox."""

from __future__ import annotations

import asyncio
import pickle
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from distributed import Client, KilledWorker
from distributed import Future as DaskFuture
from distributed.client import ClosedClientError

from ...errors import ClusterError
from ...sandbox.policy import Policy
from ...store.store import Store
from ...workers.client import COMMAND
from ...workers.pool import expected_memory
from ..reporting import Reporter
from ..running import Done, Order
from ..steps.base import Step
from . import messages
from .address import OnCluster
from .connection import Link, open_cluster
from .declaration import NAME, Declaration, declare, needs_of
from .roster import Member, judge, list_members, refuse, require_members
from .tasks import Answer, Settings, Task
from .work import Work
from .worker import end_build, packed, topic

_RETRIES = 3
"""How often a step whose worker died is tried again, elsewhere."""

_PATIENCE_SECONDS = 600.0
"""How long a build waits for a scheduler that is away, or for a worker that can run a step."""

_UNFIT_SECONDS = 15.0
"""How long a step waits if there are workers, and none of them has what it needs: others may be starting."""

_RETURN_SECONDS = 60.0
"""How long it waits if a worker that has what it needs died since: it is started again."""

_AWAY = (OSError, TimeoutError, asyncio.TimeoutError, ClosedClientError)
"""A cluster that does not answer."""

_GATHER_SECONDS = 60.0
_END_SECONDS = 40.0
_TICK_SECONDS = 0.5
_PREPARING = 4
"""Threads that look results up in the store and put models there."""


@contextmanager
def on_cluster(
    cluster: OnCluster, store: Store, reporter: Reporter, command: Sequence[str] = COMMAND
) -> Iterator[ClusterExecutor]:
    """An executor whose cluster is connected, and whose workers are compared with this machine.

    Args:
        cluster: Where steps run.
        store: All machines see it.
        reporter: Receives what happens.
        command: Starts a process with TensorFlow on a worker.

    Raises:
        ClusterError: The cluster cannot be used.
    """
    settings = Settings(
        build=uuid.uuid4().hex,
        store=store.address,
        trusted_keys=store.policy.trusted_keys,
        upstream=store.policy.upstream,
        sandbox=cluster.sandbox,
        limits=cluster.limits,
        # Each worker's own, with its own Python.
        command=None if command == COMMAND else tuple(command),
    )
    with open_cluster(cluster.target) as link:
        executor = ClusterExecutor(link, settings, store, reporter)
        try:
            yield executor
        finally:
            executor.close()


class ClusterExecutor:
    """See `modelwheel.engine.scheduler.Executor`.

    Args:
        link: To the cluster.
        settings: Of the build.
        store: That of the settings.
        reporter: Receives what happens.

    Raises:
        ClusterError: The cluster cannot be used.
    """

    def __init__(self, link: Link, settings: Settings, store: Store, reporter: Reporter) -> None:
        self._link, self._settings, self._store, self._reporter = link, settings, store, reporter
        self._sandboxed = settings.sandbox is Policy.REQUIRED
        self._here: Declaration = declare()
        self._works: dict[str, Work] = {}
        """By tickets."""
        self._finished: dict[tuple[object, str], DaskFuture[Any]] = {}
        """What Dask knows of finished steps, by the spec and the name."""
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._publishing = threading.Lock()
        self._stopping = threading.Event()
        self._broken: BaseException | None = None
        self._members: dict[str, Member] = {}
        self._lost: list[Member] = []
        """Workers that have died or left."""
        self._arrived = False
        self._refused: set[str] = set()
        self._client = link.connect()
        try:
            self._scheduler = self._subscribe()
            self._members = require_members(
                self._client, max(1, link.target.local_workers), link.target.shown
            )
            refuse(self._client, self._members.values(), self._here, settings, store)
        except BaseException:
            self._client.close()
            raise
        reporter.connected(link.target.shown, _dashboard(self._client))
        for member in self._members.values():
            reporter.worker_joined(member.shown, member.slots)
        self._preparing = ThreadPoolExecutor(_PREPARING, thread_name_prefix="prepare")
        self._closed = False
        self._thread = threading.Thread(target=self._decide, name="cluster", daemon=True)
        self._thread.start()

    # --- for the scheduler ------------------------------------------------------------------------

    def submit(self, order: Order, model_key: str) -> Future[Done]:
        """See `Executor`."""
        result: Future[Done] = Future()
        self._preparing.submit(self._prepare, order, model_key, result)
        return result

    def stop(self, futures: Mapping[Future[Done], Step]) -> None:
        """See `Executor`."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._preparing.shutdown(wait=False, cancel_futures=True)
        self._within(partial(self._end_build, stop=True))
        for future in futures:
            _fail(future, CancelledError())

    def close(self) -> None:
        """Leaves the cluster: its workers keep nothing of this build but what the next may use."""
        if self._closed:
            return
        self._closed = True
        self._preparing.shutdown(wait=False, cancel_futures=True)
        if not self._stopping.is_set():
            self._stopping.set()
            self._within(partial(self._end_build, stop=False))
        self._inbox.put(lambda: None)
        self._thread.join(_END_SECONDS)
        with suppress(OSError, TimeoutError):
            self._client.close(timeout=5)

    def _end_build(self, *, stop: bool) -> None:
        """Cancels what Dask has of this build and no other, and tells its workers."""
        futures = [work.future for work in tuple(self._works.values()) if work.future is not None]
        if futures:
            self._client.cancel(futures)
        self._works.clear()
        self._finished.clear()
        alive = [address for address in list_members(self._client) if address in self._members]
        if alive:
            build = self._settings.build
            self._client.run(end_build, build, stop=stop, workers=alive, on_error="ignore")
        self._client.set_metadata([NAME, self._settings.build], None)

    def _within(self, work: Callable[[], object]) -> None:
        """Does something for which a cluster that does not answer must not keep the build from ending."""

        def attempt() -> None:
            with suppress(Exception):
                work()

        thread = threading.Thread(target=attempt, name="end", daemon=True)
        thread.start()
        thread.join(_END_SECONDS)

    # --- in threads that prepare ------------------------------------------------------------------

    def _prepare(self, order: Order, model_key: str, result: Future[Done]) -> None:
        """Takes the result of a step from the store, or has it made."""
        try:
            key = order.step.key(self._store, order.records)
            record = self._store.lookup(key)
            if record is not None:
                with suppress(InvalidStateError):  # the build has ended meanwhile
                    result.set_result(Done(record, 0.0, cached=True))
                return
            order.halt.check()
            memory = expected_memory(self._publish_model(order, model_key))
        except BaseException as error:  # noqa: BLE001 - the future raises it
            _fail(result, error)
        else:
            work = Work(order, model_key, key, memory, result)
            self._inbox.put(partial(self._send, work))

    def _publish_model(self, order: Order, key: str) -> int:
        """Puts a model into the store, where workers read it; returns its bytes."""
        with self._publishing:
            record = self._store.peek(key) or self._store.publish(
                key, order.model, {"step": "model"}
            )
        return record.size

    # --- in the thread that decides ---------------------------------------------------------------

    def _decide(self) -> None:
        ticked = 0.0
        while not self._stopping.is_set():
            try:
                # What is interrupted here is done again below.
                with suppress(queue.Empty, *_AWAY):
                    self._inbox.get(timeout=_TICK_SECONDS)()
                if self._broken is None and time.monotonic() - ticked >= _TICK_SECONDS:
                    with suppress(*_AWAY):
                        self._tick()
                    ticked = time.monotonic()
            except Exception as error:  # noqa: BLE001 - every step that waits raises it
                self._broken = self._broken or error
                for work in tuple(self._works.values()):
                    self._settle(work, error)

    def _send(self, work: Work) -> None:
        """Gives a step to Dask."""
        if self._stopping.is_set() or self._broken is not None:
            _fail(work.result, self._broken or CancelledError())
            return
        order = work.order
        self._works.pop(work.ticket, None)
        work.ticket, work.began, work.future = uuid.uuid4().hex, False, None
        work.waits_since = time.monotonic()
        self._works[work.ticket] = work
        needs = self._needs(order.step, work.memory)
        work.among = self._elsewhere(work, needs) if work.died_on else set()
        task = Task(
            self._settings,
            work.ticket,
            order.step,
            work.key,
            {name: order.records[name].key for name in order.step.needs},
            work.model_key,
            alone=bool(work.died_on),
        )
        known = [
            self._finished[order.halt, name]
            for name in order.step.needs
            if (order.halt, name) in self._finished and not work.died_on
        ]
        work.future = self._client.submit(
            pickle.loads,
            packed(task),
            # Never read: Dask prefers the worker that has them, where the inputs are at hand.
            buffers=known,
            key=f"{order.step.kind}-{work.ticket}",
            resources=needs,
            workers=sorted(work.among) or None,
            pure=False,
            retries=0,
        )
        ended = partial(self._ended, work, work.ticket)
        work.future.add_done_callback(lambda future: self._inbox.put(partial(ended, future)))

    def _elsewhere(self, work: Work, needs: Mapping[str, float]) -> set[str]:
        """Workers on which a step has not died; none if it died on all."""
        return {
            address
            for address, member in self._members.items()
            if member.shown not in work.died_on and member.has(needs)
        }

    def _needs(self, step: Step, memory: int) -> dict[str, float]:
        members = [member.declared for member in self._members.values()]
        return needs_of(
            step,
            self._here,
            members,
            memory,
            sandboxed=self._sandboxed,
            extra=self._link.target.resources,
        )

    def _ended(self, work: Work, ticket: str, future: DaskFuture[Any]) -> None:
        """An attempt has come to an end of some kind."""
        if work.ticket != ticket or work.result.done() or self._stopping.is_set():
            return
        try:
            answer = future.result(timeout=_GATHER_SECONDS)
        except KilledWorker:
            # By Dask's own limit, which also counts steps that only waited on the worker. It may be the error of a step
            # before this one, whose result went with its worker.
            self._finished.clear()
            self._lost_attempt(work)
        except (CancelledError, *_AWAY):
            # The scheduler was away, or what it knew was lost with a worker: the store has what was finished.
            if self._client.status != "running" or self._changed():
                self._reconnect()
            else:
                self._finished.clear()
                self._send(work)
        except Exception as error:  # noqa: BLE001 - the future raises it
            self._settle(work, error)
        else:
            assert isinstance(answer, Answer)
            self._take(work, answer, future)

    def _take(self, work: Work, answer: Answer, future: DaskFuture[Any]) -> None:
        """Takes the answer of a worker."""
        if answer.kind == "again":
            self._died(work, answer.worker)
        elif answer.kind == "stopped":
            self._settle(work, CancelledError())
        elif answer.kind == "differs":
            self._settle(work, messages.differs(work.name, answer.worker))
        elif answer.error is not None:
            self._settle(work, answer.error)
        else:
            # A look at an object store may be at a listing from before.
            record = self._store.peek(answer.key) or self._store.lookup(answer.key)
            if record is None:
                self._settle(
                    work, messages.not_there(work.name, answer.worker, self._settings.store)
                )
                return
            if not work.among:
                # Else Dask could make it again only on workers that may be gone, and what needs it would wait without end.
                self._finished[work.order.halt, work.name] = future
            self._settle(work, Done(record, answer.seconds, answer.cached))

    def _lost_attempt(self, work: Work) -> None:
        """Dask does not run this attempt again."""
        began_on = self._client.get_metadata([NAME, self._settings.build, work.ticket], None)
        if began_on is None:
            self._send(work)
        else:
            self._died(work, str(began_on))

    def _died(self, work: Work, worker: str) -> None:
        """A worker died while it ran this step, or others beside it."""
        work.died_on.append(worker)
        if len(work.died_on) > _RETRIES:
            self._settle(work, messages.lost(work.name, work.died_on))
        else:
            self._reporter.retried(work.name, worker, len(work.died_on) + 1)
            self._send(work)

    def _settle(self, work: Work, result: Done | BaseException) -> None:
        self._works.pop(work.ticket, None)
        with suppress(InvalidStateError):  # the build has ended meanwhile
            if isinstance(result, Done):
                work.result.set_result(result)
            else:
                work.result.set_exception(result)

    # --- what happens in the cluster --------------------------------------------------------------

    def _subscribe(self) -> str:
        """Listens to the cluster; returns what tells this scheduler from another one."""
        for name, hear in ((topic(self._settings.build), self._began), ("all", self._moved)):
            self._client.subscribe_topic(name, partial(self._hear, hear))
        return _identity(self._client)

    def _hear(self, hear: Callable[[Mapping[str, Any]], None], event: tuple[float, Any]) -> None:
        """Called by Dask's own thread."""
        if isinstance(event[1], dict):
            self._inbox.put(partial(hear, event[1]))

    def _began(self, event: Mapping[str, Any]) -> None:
        work = self._works.get(str(event.get("ticket")))
        if work is not None:
            work.began = True
            self._reporter.started(work.name, str(event.get("name")))

    def _moved(self, event: Mapping[str, Any]) -> None:
        """Workers come and go."""
        address = str(event.get("worker"))
        if event.get("action") == "remove-worker" and address in self._members:
            member = self._members.pop(address)
            self._lost.append(member)
            why = "it has left" if event.get("expected") else "it ended without a word"
            self._reporter.worker_lost(member.shown, why)
            for work in tuple(self._works.values()):
                if address in work.among:
                    work.among.discard(address)
                    if not work.among:  # nobody is left who may take it
                        self._drop(work)
                        self._lost_attempt(work)
        elif event.get("action") == "add-worker":
            self._arrived = True

    def _welcome(self) -> None:
        """Takes workers in that have come."""
        self._arrived = False
        members = list_members(self._client)
        known = self._members.keys() | self._refused
        new = [member for address, member in members.items() if address not in known]
        reasons = judge(self._client, new, self._here, self._settings, self._store)
        for member in new:
            if reason := reasons.get(member.address):
                # Dask gives it no step: what it declares has other names than what steps need.
                self._refused.add(member.address)
                self._reporter.worker_lost(member.shown, f"it is refused: it {reason}")
            else:
                self._members[member.address] = member
                self._reporter.worker_joined(member.shown, member.slots)

    def _tick(self) -> None:
        if self._client.status != "running" or self._changed():
            self._reconnect()
        if self._arrived:
            self._welcome()
        for work in tuple(self._works.values()):
            if work.future is None:
                self._send(work)
            elif work.order.halt.given_up and not work.began:
                self._drop(work)
                self._settle(work, CancelledError())
            elif not work.began and time.monotonic() - work.waits_since > _UNFIT_SECONDS:
                self._require_worker(work)

    def _require_worker(self, work: Work) -> None:
        """Fails a step that no worker can run."""
        needs, waits = (
            self._needs(work.order.step, work.memory),
            time.monotonic() - work.waits_since,
        )
        patience = _UNFIT_SECONDS if self._members else _PATIENCE_SECONDS
        if any(member.has(needs) for member in self._lost):
            patience = max(patience, _RETURN_SECONDS)
        if any(member.has(needs) for member in self._members.values()):
            work.waits_since = time.monotonic()
        elif waits > patience:
            self._drop(work)
            self._settle(work, messages.no_worker(work.name, needs, self._link.target.shown))

    def _drop(self, work: Work) -> None:
        if work.future is not None:
            with suppress(OSError):
                self._client.cancel([work.future])

    def _changed(self) -> bool:
        """Whether another scheduler has taken the place of the one that knew this build."""
        return _identity(self._client) != self._scheduler

    def _reconnect(self) -> None:
        """Waits for the scheduler, and gives it everything that has no result yet."""
        with suppress(Exception):
            self._client.close(timeout=5)
        self._client = self._wait_for_scheduler()
        self._scheduler = self._subscribe()
        self._members.clear()
        self._finished.clear()
        require_members(self._client, 1, self._link.target.shown, _PATIENCE_SECONDS)
        self._welcome()
        for work in tuple(self._works.values()):
            self._send(work)

    def _wait_for_scheduler(self) -> Client:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._link.connect()
            except ClusterError:
                if time.monotonic() > deadline or self._stopping.is_set():
                    raise
                time.sleep(_TICK_SECONDS)


def _fail(future: Future[Done], error: BaseException) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)


def _identity(client: Client) -> str:
    return str(client._scheduler_identity.get("id"))


def _dashboard(client: Client) -> str | None:
    services = client._scheduler_identity.get("services", {})
    return str(client.dashboard_link) if "dashboard" in services else None
