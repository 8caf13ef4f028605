"""A worker whose jobs need no TensorFlow; its server is the real one.

What it does with a job is said in the file `behaviour` of the job's SavedModel: a line for each word
below; without the file it writes all outputs.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.inspection import INSPECTION, Inspection, SignatureInfo, TensorInfo
from modelwheel.workers.jobs import (
    SIZING,
    InspectJob,
    InspectRequest,
    Job,
    JobResult,
    SizingJob,
)
from modelwheel.workers.outcomes import Sizing
from modelwheel.workers.pool import WorkerPool
from modelwheel.workers.server.serve import serve

_SOURCE = "" if __name__ == "__main__" else Path(__file__).read_text("utf-8")
COMMAND = (sys.executable, "-c", _SOURCE)
"""Starts it; as text, because a sandbox does not show the tests."""


def inspection() -> Inspection:
    """What it finds in every model: the signature `serving_default`, from `x` to `y`."""
    tensors = {n: (TensorInfo(name=n, dtype="float32", shape=(None, 4)),) for n in ("x", "y")}
    signature = SignatureInfo(key="serving_default", inputs=tensors["x"], outputs=tensors["y"])
    return Inspection(written_by="toy", tags=(), signatures=(signature,), ops=(), assets=())


class ToyWork:
    """The work of `modelwheel.workers.server.serve`."""

    def prepare(self) -> None:
        Path(tempfile.mkstemp()[1]).write_text("a temporary file of a compiler")

    def name_layers(self, job: Job) -> tuple[str, ...]:
        return tuple(_words(job, "layer"))

    def run(self, job: Job) -> None:
        for name in job.request.OUTPUTS:
            (job.out / name).write_text("")
        if isinstance(job, InspectJob):
            inspection().save(job.out / INSPECTION)
        if isinstance(job, SizingJob):
            Sizing().save(job.out / SIZING)
        for line in _behaviour(job):
            word, _, rest = line.partition(" ")
            _ACTIONS[word](job, rest)


def _refuse(_: Job, message: str) -> None:
    raise UnsupportedModelError(message)


def _fail(_: Job, message: str) -> None:
    raise KeyError(message)


def _crash(_: Job, message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGABRT)


def _allocate(_: Job, size: str) -> None:
    sys.stderr.write(f"{len(bytearray(int(size)))} bytes\n")


def _say(_: Job, text: str) -> None:
    """Writes into every descriptor, and ends."""
    for descriptor in range(3, 1024):
        with suppress(OSError):
            os.write(descriptor, f"{text}\n".encode())
    os._exit(0)


def _when(job: Job, line: str) -> None:
    """Does the rest of the line in jobs of one kind."""
    kind, word, rest = line.split(" ", 2)
    if job.kind == kind:
        _ACTIONS[word](job, rest)


def _run(_: Job, code: str) -> None:
    exec(code, {})  # noqa: S102 - a line of a test


_ACTIONS: dict[str, Callable[[Job, str], object]] = {
    "refuse": _refuse,
    "fail": _fail,
    "crash": _crash,
    "allocate": _allocate,
    "run": _run,
    "say": _say,
    "when": _when,
    "layer": lambda *_: None,
    "sleep": lambda _, seconds: time.sleep(float(seconds)),
    "exit": lambda _, code: os._exit(int(code)),
    "forget": lambda job, name: (job.out / name).unlink(),
    "add": lambda job, name: (job.out / name).write_text(""),
}


def _behaviour(job: Job) -> list[str]:
    path = next(iter(dict(job.inputs).values()))
    path = path / "behaviour" if path.is_dir() else path
    return path.read_text("utf-8").splitlines() if path.is_file() else []


def _words(job: Job, word: str) -> Iterator[str]:
    lines = (line.partition(" ") for line in _behaviour(job))
    return (rest for first, _, rest in lines if first == word)


class ToyJobs:
    """Submits inspect jobs to a pool of toy workers; directories are below `directory`."""

    def __init__(self, directory: Path, pool: WorkerPool) -> None:
        self.pool = pool
        self._directory = directory
        self._count = 0

    def submit(
        self,
        *behaviour: str,
        started: Callable[[], object] = lambda: None,
        step: str = "toy/inspect",
    ) -> Future[JobResult]:
        """One job; `behaviour` is what it does."""
        self._count += 1
        model = self._directory / f"model{self._count}"
        model.mkdir()
        self.out().mkdir()
        (model / "behaviour").write_text("\n".join(behaviour), "utf-8")
        return self.pool.submit(InspectRequest().job(model, self.out()), started, step)

    def out(self) -> Path:
        """Where the outputs of the last job are."""
        return self._directory / f"out{self._count}"


if __name__ == "__main__":
    serve(ToyWork())
