"""A build of a second with every kind of step, for `tests.kills`: the real store, fetching, scheduler and pool; toy work.

python -m tests.kills.toy_build STORE MODEL.zip OUT
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelwheel.engine.delivery import deliver
from modelwheel.engine.reporting import SilentReporter
from modelwheel.engine.scheduler import Task, Tools, run_steps
from modelwheel.engine.steps.base import JobStep, LocalStep, Records, Step, Workspace
from modelwheel.errors import ModelwheelError
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy
from modelwheel.source.fetch import fetch, is_at_hand
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.util.processes.process import run
from modelwheel.workers.jobs import InspectRequest, Job
from modelwheel.workers.pool import WorkerPool
from tests.support.faults.victims import say
from tests.support.sources import archive_source
from tests.support.toy_worker import COMMAND

WHEEL = "model_toy-1.0-py3-none-any.whl"

_SECONDS = 0.05
"""What each step takes at least."""


@dataclass(frozen=True)
class _Toy(Step):
    label: str
    after: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.label

    @property
    def needs(self) -> tuple[str, ...]:
        return self.after

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        needs = {
            name: sorted(f.sha256 for f in records[name].files.values()) for name in self.after
        }
        return {"label": self.label, "needs": needs}


class _Job(_Toy, JobStep):
    """A job of a worker process, which sleeps and then writes its result."""

    kind = "job"

    def job(self, workspace: Workspace, out: Path) -> Job:
        model = workspace.store.keep_directory() / self.label
        model.mkdir()
        (model / "behaviour").write_text(f"sleep {_SECONDS}\n")
        return InspectRequest().job(model, out)


class _Local(_Toy, LocalStep):
    """Starts programs that start others, as compilers do, and writes several files."""

    kind = "local"

    def run(self, workspace: Workspace, out: Path) -> None:
        for name in self.needs:
            workspace.store.materialize(workspace.records[name], out / "in" / name, link=True)
        run(["sh", "-c", f"sleep {2 * _SECONDS} & sleep {_SECONDS}; wait"])
        for number in range(10):
            (out / f"{number}").write_bytes(f"{self.label} {number} ".encode() * 10_000)


class _Wheel(_Toy, LocalStep):
    """Packs what it needs, always into the same bytes."""

    kind = "wheel"

    def run(self, workspace: Workspace, out: Path) -> None:
        with zipfile.ZipFile(out / WHEEL, "w") as wheel:
            for need in self.needs:
                record = workspace.records[need]
                for name in sorted(record.files):
                    content = workspace.store.read_bytes(record, name)
                    wheel.writestr(zipfile.ZipInfo(f"{need}/{name}"), content)


STEPS: Sequence[Step] = (
    _Job("inspect"),
    _Job("freeze", ("inspect",)),
    _Job("compile", ("freeze",)),
    _Job("reference", ("freeze",)),
    _Local("project", ("compile", "reference")),
    _Wheel("wheel", ("project",)),
    _Local("verify", ("wheel", "reference")),
)


class _Printer(SilentReporter):
    """A reporter for the process that will kill this one."""

    def started(self, name: str, worker: str | None = None) -> None:  # noqa: ARG002
        say(f"started {name}")

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:  # noqa: ARG002
        say(f"{'cached' if cached else 'finished'} {name}")

    def failed(self, name: str, error: ModelwheelError) -> None:
        say(f"failed {name} {error}")


def main(root: str, archive: str, out: str) -> None:
    """Fetches, runs all steps, delivers."""
    say("started start")
    store, printer = Store(Path(root)), _Printer()
    source = archive_source(
        Path(archive).as_uri(), hashlib.sha256(Path(archive).read_bytes()).hexdigest()
    )
    cached = is_at_hand(source, store)
    printer.started("fetch")
    model = fetch(source, store)
    printer.finished("fetch", 0.0, cached=cached)

    def accept(step: Step, record: Record) -> None:
        if step.name == "wheel":
            printer.started("deliver")
            deliver(record, store, Path(out))

    with store.scratch() as scratch, WorkerPool(scratch, 2, command=COMMAND) as pool:
        task = Task(STEPS, model.directory, accept)
        (outcome,) = run_steps(
            [task], Tools(store, pool, printer, choose_sandbox(Policy.PREFERRED))
        )
    say("started end")
    store.close()
    sys.exit(bool(outcome.errors))


if __name__ == "__main__":
    main(*sys.argv[1:])
