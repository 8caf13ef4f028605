"""Toy steps, a pool of threads and a recording reporter: the scheduler without TensorFlow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from modelwheel.engine.reporting import SilentReporter
from modelwheel.engine.steps.base import JobStep, LocalStep, Records, Step, Workspace
from modelwheel.errors import ModelwheelError
from modelwheel.store.keys import action_key
from modelwheel.store.store import Store
from modelwheel.workers.jobs import InspectRequest, Job, JobResult

if TYPE_CHECKING:
    from typing_extensions import Self

Action = Callable[[], object]
"""What a toy step does before it writes its result."""


def nothing() -> None:
    """The action of most steps."""


@dataclass(frozen=True)
class _Toy(Step):
    """A step whose result is the text of its own name and of the results that it needs."""

    label: str
    after: tuple[str, ...] = ()
    action: Action = nothing

    @property
    def name(self) -> str:
        return self.label

    @property
    def needs(self) -> tuple[str, ...]:
        return self.after

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        needs = {name: records[name].files["text"].sha256 for name in self.after}
        return {"label": self.label, "needs": needs}

    def text(self, workspace: Workspace) -> str:
        """The content of the result."""
        read = (workspace.store.read_bytes(workspace.records[name], "text") for name in self.after)
        return f"{self.label}({', '.join(part.decode() for part in read)})"


def toy_key(label: str) -> str:
    """The key of a `ToyJob` that needs no other step."""
    return action_key(ToyJob.kind, label=label, needs={})


@dataclass(frozen=True)
class ToyJob(_Toy, JobStep):
    """A step that a pool runs."""

    kind = "job"

    def job(self, workspace: Workspace, out: Path) -> Job:
        """Any job will do: `ThreadPool` finds the step by the job's directory."""
        TODO[out] = partial(self._work, workspace, out)
        return InspectRequest().job(workspace.model, out)

    def _work(self, workspace: Workspace, out: Path) -> None:
        self.action()
        (out / "text").write_text(self.text(workspace))


@dataclass(frozen=True)
class VitalJob(ToyJob):
    """One that everything needs."""

    kind = "vital"
    vital = True


@dataclass(frozen=True)
class OptionalJob(ToyJob):
    """One that a build does without."""

    optional = True


@dataclass(frozen=True)
class ToyLocal(_Toy, LocalStep):
    """A step that runs in this process."""

    kind = "local"

    def run(self, workspace: Workspace, out: Path) -> None:
        self.action()
        (out / "text").write_text(self.text(workspace))


TODO: dict[Path, Action] = {}
"""What the pool has to do, by the job's output directory."""


class ThreadPool:
    """Runs toy jobs in threads, as `WorkerPool` runs jobs in processes."""

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        TODO.clear()

    def submit(self, job: Job, started: Callable[[], object], step: str) -> Future[JobResult]:  # noqa: ARG002
        """Queues a job."""

        def work() -> JobResult:
            started()
            TODO.pop(job.out)()
            return JobResult(0.0)

        return self._threads.submit(work)


@dataclass
class Recorder(SilentReporter):
    """A reporter that remembers every event, in order."""

    events: list[tuple[str, str]] = field(default_factory=list)
    on_event: Callable[[str, str], object] = lambda *_: None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def _add(self, event: str, name: str) -> None:
        with self._guard:
            self.events.append((event, name))
        self.on_event(event, name)

    def planned(self, names: Sequence[str]) -> None:
        for name in names:
            self._add("planned", name)

    def started(self, name: str, worker: str | None = None) -> None:  # noqa: ARG002
        self._add("started", name)

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:  # noqa: ARG002
        self._add("cached" if cached else "finished", name)

    def failed(self, name: str, error: ModelwheelError) -> None:
        self._add("failed", f"{name}: {error}")

    def of(self, event: str) -> list[str]:
        """The names in events of one kind."""
        return [name for kind, name in self.events if kind == event]
