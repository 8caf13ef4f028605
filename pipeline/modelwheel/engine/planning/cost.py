"""`modelwheel plan --cost`: what a build will take, from what earlier steps took."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from statistics import median

from ...store.history import History
from ...store.records import Record
from ...util.text import one_line
from ..notes import noted_seconds
from ..steps.base import Step
from .plan import Survey

_SAMPLES = 1000
"""Records of other steps that are read for an estimate."""

_NEAREST = 5
"""Steps of the same kind, with models of the nearest sizes, that an estimate is the median of."""


@dataclass(frozen=True)
class Cost:
    """The cost of the steps that must run. Downloads of models are not part of it."""

    steps: int
    measured: int
    """Steps that have run before, of which the last time counts."""
    estimated: int
    """Steps whose time is that of others of the same kind, with models of about the same size."""
    unknown: Mapping[str, int]
    """Steps by kind of which nothing is known; all else is without them."""
    seconds: float
    """Of all steps, one after the other."""
    measured_seconds: float
    """Of those that have run before."""
    bytes: int
    """Of their results; less is stored if results share contents."""
    workers: int
    makespan: float
    """Seconds until the last step ends, if so many workers run one step each at any time."""
    shortest: float
    """Seconds with any number of workers: of the longest chain of steps that need each other."""
    hosts: tuple[str, ...] = ()
    """The CPUs on which was measured."""


@dataclass(frozen=True)
class _Sample:
    """The cost of one step that ran."""

    seconds: float
    size: int
    """Bytes of its result."""


@dataclass
class _Node:
    """One step that must run."""

    name: str
    sample: _Sample | None
    measured: bool
    after: list[str] = field(default_factory=list)


def estimate(surveys: Sequence[Survey], history: History, workers: int) -> Cost:
    """The estimated cost of the steps of some requests that must run.

    Args:
        surveys: The plans.
        history: Earlier results.
        workers: How many steps run at once.
    """
    nodes, hosts = _nodes(surveys, history)
    counted = list(nodes.values())
    known = [node.sample for node in counted if node.sample is not None]
    durations = {name: node.sample.seconds if node.sample else 0.0 for name, node in nodes.items()}
    after = {name: node.after for name, node in nodes.items()}
    kinds = {step.name: step.kind for survey in surveys for step in survey.steps}
    return Cost(
        steps=len(counted),
        measured=sum(node.measured for node in counted),
        estimated=sum(node.sample is not None and not node.measured for node in counted),
        unknown=dict(Counter(kinds[node.name] for node in counted if node.sample is None)),
        seconds=sum(sample.seconds for sample in known),
        measured_seconds=sum(
            node.sample.seconds for node in counted if node.measured and node.sample
        ),
        bytes=sum(sample.size for sample in known),
        workers=workers,
        makespan=makespan(durations, after, workers),
        shortest=makespan(durations, after, len(counted) or 1),
        hosts=tuple(sorted(hosts)),
    )


def _nodes(surveys: Sequence[Survey], history: History) -> tuple[dict[str, _Node], set[str]]:
    """The steps that must run, each after those that it needs; and the CPUs on which was measured."""
    samples = _Samples(surveys, history)
    nodes: dict[str, _Node] = {}
    same: dict[str, str] = {}
    names: dict[str, str] = {}
    hosts: set[str] = set()
    for survey in surveys:
        to_run = {planned.name: planned.key for planned in survey.planned if planned.state == "run"}
        for step in survey.steps:
            if step.name not in to_run:
                continue
            # What has the same key, and what knows no model, runs once for all.
            same_as = to_run[step.name] or (
                step.lineage if step.lineage == step.kind else step.name
            )
            names[step.name] = same.setdefault(same_as, step.name)
            if names[step.name] != step.name:
                continue
            after = {names[n] for n in (*step.needs, *step.waits_for) if n in names}
            last = history.last(step.lineage, step.name)
            sample = None if last is None else _sample(last)
            if last is not None and sample is not None:
                hosts.add(one_line(last.note.get("host", "")))
            own = sample or samples.nearest(step, survey)
            nodes[step.name] = _Node(step.name, own, sample is not None, sorted(after))
    return nodes, hosts - {""}


def _sample(record: Record) -> _Sample | None:
    seconds = noted_seconds(record)
    return None if seconds is None else _Sample(seconds, record.size)


class _Samples:
    """The costs of steps that ran, by kind and by the size of their model."""

    def __init__(self, surveys: Sequence[Survey], history: History) -> None:
        by_kind: dict[str, dict[str, tuple[int, _Sample]]] = defaultdict(dict)
        for record in _records(surveys, history):
            sample = _sample(record)
            if sample is not None:
                size = record.note.get("model_bytes")
                own = size if isinstance(size, int) and size >= 0 else 0
                by_kind[str(record.note.get("kind"))][record.key] = own, sample
        self._by_kind = {
            kind: sorted(samples.values(), key=lambda pair: pair[0])
            for kind, samples in by_kind.items()
        }
        self._known: dict[tuple[str, int], _Sample | None] = {}

    def nearest(self, step: Step, survey: Survey) -> _Sample | None:
        """The median of the steps of the same kind whose models are nearest in size."""
        size = sum(file.size for file in survey.model.files.values())
        if (step.kind, size) not in self._known:
            self._known[step.kind, size] = self._estimate(step.kind, size)
        return self._known[step.kind, size]

    def _estimate(self, kind: str, size: int) -> _Sample | None:
        samples = self._by_kind.get(kind, [])
        if not samples:
            return None
        place = bisect_left(samples, size, key=lambda pair: pair[0])
        around = samples[max(0, place - _NEAREST) : place + _NEAREST]
        around.sort(key=lambda pair: abs(log((pair[0] + 1) / (size + 1))))
        near = [sample for _, sample in around[:_NEAREST]]
        return _Sample(
            median(sample.seconds for sample in near), round(median(sample.size for sample in near))
        )


def _records(surveys: Sequence[Survey], history: History) -> Iterable[Record]:
    for survey in surveys:
        yield from survey.records.values()
    yield from history.newest(_SAMPLES)


def makespan(
    durations: Mapping[str, float], after: Mapping[str, Sequence[str]], workers: int
) -> float:
    """Seconds until the last step ends, if each starts as soon as a worker is free and what it needs is there.

    Of several that could start, the first in the order of `durations` does.

    Args:
        durations: Seconds of each step, by its name.
        after: The steps that each one needs, among `durations`.
        workers: How many run at once.
    """
    order = {name: number for number, name in enumerate(durations)}
    names = list(durations)
    waiting = {name: len(after.get(name, ())) for name in durations}
    followers: dict[str, list[str]] = defaultdict(list)
    for name in durations:
        for earlier in after.get(name, ()):
            followers[earlier].append(name)
    ready = [order[name] for name, missing in waiting.items() if not missing]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < workers:
            number = heapq.heappop(ready)
            heapq.heappush(running, (now + durations[names[number]], number))
        now, ended = heapq.heappop(running)
        for follower in followers[names[ended]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, order[follower])
    return now
