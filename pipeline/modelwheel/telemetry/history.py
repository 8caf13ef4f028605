"""The outcomes of builds, by their events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from ..engine.reporting import kind_of
from .events import Event


@dataclass
class Step:
    """One step of a build."""

    name: str
    started: datetime | None = None
    ended: datetime | None = None
    result: str = "not started"
    """`run`, `cached`, `failed`, `running` or `not started`: the last two if the build ended before the step did."""
    seconds: float = 0.0
    bytes: int = 0
    worker: str = ""
    attempts: int = 1
    message: str = ""
    code: str = ""

    @property
    def kind(self) -> str:
        return kind_of(self.name)

    @property
    def model(self) -> str:
        """The model and its version."""
        return self.name.partition("/")[0]


@dataclass
class Lost:
    """A worker that was lost."""

    worker: str
    why: str
    time: datetime


@dataclass
class Build:
    """One build."""

    id: str
    began: datetime
    last: datetime
    """When something was last heard of it."""
    host: str = ""
    version: str = ""
    cluster: str = ""
    result: str = "unfinished"
    """`done`, `failed`, `interrupted`, or `unfinished`: it still runs, or was killed."""
    seconds: float | None = None
    """What it took, if it has ended."""
    workers: set[str] = field(default_factory=set)
    lost: list[Lost] = field(default_factory=list)
    steps: dict[str, Step] = field(default_factory=dict)

    def of(self, result: str) -> list[Step]:
        """The steps with this result, in the order in which they were planned."""
        return [step for step in self.steps.values() if step.result == result]

    @property
    def duration(self) -> float:
        """Seconds: what it took, or until something was last heard of it."""
        return (self.last - self.began).total_seconds() if self.seconds is None else self.seconds

    def by_kind(self) -> dict[str, list[Step]]:
        """The steps by kind, in the order in which kinds came."""
        kinds: dict[str, list[Step]] = defaultdict(list)
        for step in self.steps.values():
            kinds[step.kind].append(step)
        return kinds

    def add(self, event: Event) -> None:
        """Takes in what happened."""
        self.last = max(self.last, event.time)
        if event.event == "began":
            self.began = event.time
            self.version, self.host = event.version or "", event.host or ""
        elif event.event == "planned":
            for name in event.steps:
                self._step(name)
        elif event.event == "connected":
            self.cluster = event.address or ""
        elif event.event == "worker_joined":
            self.workers.add(event.worker or "")
        elif event.event == "worker_lost":
            self.lost.append(Lost(event.worker or "", event.why or "", event.time))
        elif event.event == "ended":
            self.result, self.seconds = event.result or "done", event.seconds
        elif event.step is not None:
            self._take_step(self._step(event.step), event)

    def _step(self, name: str) -> Step:
        return self.steps.setdefault(name, Step(name))

    def _take_step(self, step: Step, event: Event) -> None:
        step.worker = event.worker or step.worker
        if event.event == "started":
            step.started, step.result = event.time, "running"
        elif event.event == "retried":
            step.attempts = max(step.attempts, event.attempt or 2)
        elif event.event in ("finished", "cached"):
            step.result = "run" if event.event == "finished" else "cached"
            step.ended, step.seconds = event.time, event.seconds or 0.0
            step.bytes = event.bytes or 0
        elif event.event == "failed":
            step.ended, step.result = event.time, "failed"
            step.message, step.code = event.message or "", event.code or ""


def collect(events: Iterable[Event], last: int) -> list[Build]:
    """The last builds, the newest first."""
    builds: dict[str, Build] = {}
    for event in events:
        build = builds.setdefault(event.build, Build(event.build, event.time, event.time))
        build.add(event)
    return sorted(builds.values(), key=lambda build: (build.began, build.id), reverse=True)[:last]
