"""A cluster as a list of events: which worker runs which step, what that moves, and what is lost when a worker dies.

It has the scheduling of `modelwheel build --cluster` in short: a step starts when what it needs is in the store; a worker that
ends a step goes on with another one of the same model if there is one, and else with the oldest; steps with one key run once;
one driver hands out all steps.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.scale.times import Profile, StepTime


@dataclass(frozen=True)
class Node:
    """One step of the graph that every spec has."""

    kind: str
    after: tuple[int, ...]
    """Numbers of the steps before it."""
    reads: tuple[int, ...]
    """Those of them whose files it reads."""
    number: int
    """Among the steps of its kind."""
    reads_model: bool
    is_shared: bool
    """Whether all specs have the same key for it."""
    is_job: bool
    """Whether TensorFlow runs it."""


@dataclass(frozen=True)
class World:
    """What a cluster has beside its workers; see `docs/scale.md` for where the values are from."""

    driver_seconds: float = 0.0025
    """Of the one process that hands out steps, for each."""
    fetch_seconds: float = 0.3
    """Of the driver for each model, in addition to the transfer; the steps of a spec begin when its model is there."""
    fetch_at_once: int = 8
    """Models that it fetches side by side."""
    request_seconds: float = 0.015
    """From a request to the first byte of the store's answer."""
    at_once: int = 8
    """Requests of one worker."""
    worker_bytes: float = 120e6
    """A second, between one worker and the store."""
    store_bytes: float = 5e9
    """A second, of all workers together."""
    store_requests: float = 3500.0
    """A second, that the store takes in."""
    import_seconds: float = 3.6
    """Of TensorFlow, once for each worker process."""
    lost_after: float = 24 * 3600.0
    """Seconds until a worker is lost, on average."""
    back_after: float = 60.0
    """Seconds until another one takes its place."""


@dataclass
class Figures:
    """What one run of the simulation shows."""

    workers: int
    specs: int
    steps: int = 0
    makespan: float = 0.0
    work: float = 0.0
    """Seconds of steps that gave a result."""
    waiting: float = 0.0
    """Seconds of workers for the store: requests and transfers."""
    driver: float = 0.0
    """Seconds of the driver."""
    reads: int = 0
    writes: int = 0
    moved: float = 0.0
    """Bytes between workers and the store."""
    fetched: float = 0.0
    """Seconds until the driver has all models."""
    lost: int = 0
    """Workers."""
    wasted: float = 0.0
    """Seconds of workers that were lost with them, until others took their place."""
    busiest: int = 0
    """Requests in the busiest second."""

    @property
    def machine_hours(self) -> float:
        """Of all workers, from beginning to end."""
        return self.workers * self.makespan / 3600

    @property
    def driver_load(self) -> float:
        """The part of the time in which the driver works."""
        return self.driver / self.makespan

    @property
    def loss(self) -> float:
        """Seconds of a worker that the loss of one costs."""
        return self.wasted / self.lost if self.lost else 0.0


@dataclass
class _Worker:
    number: int
    is_warm: bool = False
    spec: int = -1
    has: set[int] = field(default_factory=set)
    """Steps of `spec` whose files it has; -1 is the model."""
    ends: float = 0.0
    """When it will be lost."""


class Cluster:
    """One simulation.

    Args:
        nodes: The steps of each spec.
        profiles: What steps take; specs have them in turn.
        specs: How many.
        workers: How many, each of which runs one step at a time.
        world: Everything else.
        seed: Of what is random: when workers are lost.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        profiles: Sequence[Profile],
        specs: int,
        workers: int,
        world: World,
        seed: int = 1,
    ) -> None:
        self._nodes, self._profiles, self._world = nodes, profiles, world
        self._random = random.Random(seed)
        self.figures = Figures(workers, specs)
        self._left = [[len(node.after) for node in nodes] for _ in range(specs)]
        self._later: list[list[int]] = [[] for _ in nodes]
        for number, node in enumerate(nodes):
            for before in node.after:
                self._later[before].append(number)
        self._ready: list[tuple[int, int]] = []
        self._of_spec: defaultdict[int, list[int]] = defaultdict(list)
        self._shared: dict[tuple[int, int], list[int] | None] = {}
        """Specs that wait for a step that all share; None once it is done."""
        self._idle = [_Worker(n, ends=self._lifetime()) for n in range(workers)]
        self._events: list[tuple[float, int, _Worker | None, int, int, float]] = []
        self._driver_free = 0.0
        self._store_free = 0.0
        self._per_second: defaultdict[int, int] = defaultdict(int)
        self._count = 0

    def run(self) -> Figures:
        """Runs all steps of all specs."""
        figures, now = self.figures, 0.0
        self._fetch()
        while self._events:
            now, _, worker, spec, number, seconds = heapq.heappop(self._events)
            if worker is None:  # a model
                for n, node in enumerate(self._nodes):
                    if not node.after:
                        self._add_ready(spec, n)
            elif number < 0:  # another worker in place of one that was lost
                self._idle.append(worker)
            elif now >= worker.ends:
                self._lose(worker, spec, number, seconds, now)
            else:
                self._finish(worker, spec, number)
            self._hand_out(now)
        figures.makespan, figures.busiest = now, max(self._per_second.values())
        return figures

    def _fetch(self) -> None:
        """The driver fetches several models at once, through one network: from where they are, and into the store."""
        world, figures = self._world, self.figures
        for spec in range(figures.specs):
            size = self._profile(spec).model_bytes
            figures.fetched += max(
                world.fetch_seconds / world.fetch_at_once, 2 * size / world.worker_bytes
            )
            figures.moved += size
            figures.writes += 4
            self._push(figures.fetched, None, spec, 0, 0.0)

    def _lifetime(self) -> float:
        return self._random.expovariate(1 / self._world.lost_after)

    def _take(self, worker: _Worker) -> tuple[int, int] | None:
        """The next step for a worker."""
        own = self._of_spec.get(worker.spec)
        if own:
            return worker.spec, own.pop(0)
        while self._ready:
            spec, number = heapq.heappop(self._ready)
            if number in self._of_spec[spec]:
                self._of_spec[spec].remove(number)
                return spec, number
        return None

    def _hand_out(self, now: float) -> None:
        while self._idle:
            taken = self._take(self._idle[-1])
            if taken is None:
                return
            spec, number = taken
            if self._nodes[number].is_shared and not self._may_share(spec, number, now):
                continue
            self._start(self._idle.pop(), spec, number, now)

    def _may_share(self, spec: int, number: int, now: float) -> bool:
        """Whether a step that all specs share has to run for this one."""
        # Kernels differ with what a model computes; the rest is the same for all.
        key = number, spec % len(self._profiles)
        if key not in self._shared:
            self._shared[key] = []
            return True
        waiting = self._shared[key]
        if waiting is None:  # the driver finds its record
            self._drive(now)
            self._release(spec, number)
        else:
            waiting.append(spec)
        return False

    def _drive(self, now: float) -> float:
        """When the driver has handed out a step."""
        self._driver_free = max(self._driver_free, now) + self._world.driver_seconds
        self.figures.driver += self._world.driver_seconds
        return self._driver_free

    def _start(self, worker: _Worker, spec: int, number: int, now: float) -> None:
        node, time = self._nodes[number], self._time(spec, number)
        begun = self._drive(now)
        if worker.spec != spec:
            worker.spec, worker.has = spec, set()
        inputs = [n for n in node.reads if n not in worker.has]
        read = [self._time(spec, n) for n in inputs]
        files, size = sum(one.files for one in read), float(sum(one.bytes for one in read))
        if node.reads_model and -1 not in worker.has:
            files, size = files + 1, size + self._profile(spec).model_bytes
            worker.has.add(-1)
        worker.has.update(inputs, (number,))
        # A record for each input; a claim, and its end; the contents and the record of the result.
        reads, writes = files + len(inputs) + 1, time.files + 3
        transfer = self._transfer(reads, writes, size + time.bytes, begun)
        warm = 0.0 if worker.is_warm or not node.is_job else self._world.import_seconds
        worker.is_warm = worker.is_warm or node.is_job
        seconds = transfer + warm + time.seconds
        self.figures.waiting += transfer
        self._push(
            min(begun + seconds, max(worker.ends, begun)),
            worker,
            spec,
            number,
            begun + seconds - now,
        )

    def _transfer(self, reads: int, writes: int, size: float, now: float) -> float:
        """Seconds that a worker waits for the store."""
        world = self._world
        self.figures.reads += reads
        self.figures.writes += writes
        self.figures.moved += size
        requests = reads + writes
        self._per_second[int(now)] += requests
        # The store is a queue that takes in requests and bytes at its own pace.
        pace = max(requests / world.store_requests, size / world.store_bytes)
        self._store_free = max(self._store_free, now) + pace
        alone = -(-requests // world.at_once) * world.request_seconds + size / world.worker_bytes
        return max(alone, self._store_free - now)

    def _push(
        self, when: float, worker: _Worker | None, spec: int, number: int, seconds: float
    ) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, worker, spec, number, seconds))

    def _lose(self, worker: _Worker, spec: int, number: int, seconds: float, now: float) -> None:
        """A worker is gone, with the step that it ran; the next one starts empty."""
        self.figures.lost += 1
        self.figures.wasted += (
            min(seconds, now) + self._world.back_after + self._world.import_seconds
        )
        self._add_ready(spec, number)
        if self._nodes[number].is_shared:
            for other in self._shared.pop((number, spec % len(self._profiles))) or []:
                self._add_ready(other, number)
        back = now + self._world.back_after
        self._push(back, _Worker(worker.number, ends=back + self._lifetime()), -1, -1, 0.0)

    def _finish(self, worker: _Worker, spec: int, number: int) -> None:
        self.figures.work += self._time(spec, number).seconds
        self._release(spec, number)
        if self._nodes[number].is_shared:
            key = number, spec % len(self._profiles)
            waiting, self._shared[key] = self._shared[key] or [], None
            for other in waiting:
                self._release(other, number)
        self._idle.append(worker)

    def _release(self, spec: int, number: int) -> None:
        """A step has its result."""
        self.figures.steps += 1
        for later in self._later[number]:
            self._left[spec][later] -= 1
            if not self._left[spec][later]:
                self._add_ready(spec, later)

    def _add_ready(self, spec: int, number: int) -> None:
        self._of_spec[spec].append(number)
        heapq.heappush(self._ready, (spec, number))

    def _profile(self, spec: int) -> Profile:
        return self._profiles[spec % len(self._profiles)]

    def _time(self, spec: int, number: int) -> StepTime:
        node = self._nodes[number]
        return self._profile(spec).of(node.kind, node.number)
