"""A pool of real workers and the tiny models of `tests/models`, for tests that need TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from modelwheel.compiler import inspection
from modelwheel.compiler.compile import CompileRequest, cpp_class, xla_flags
from modelwheel.compiler.freeze import FreezeRequest
from modelwheel.compiler.inspection import Inspection, Shapes
from modelwheel.compiler.jobs import Flags, Job
from modelwheel.compiler.pool import WorkerPool
from modelwheel.compiler.reference import Reference, ReferenceRequest
from modelwheel.levels import LEVELS
from modelwheel.platforms import PLATFORMS

_ROOT = Path(__file__).parents[2]
SHARED_MODELS = _ROOT.parent / "shared" / "models"

SHAPES: dict[str, Shapes] = {"sequence": {"tokens": [None, 6, 4]}, "unknown_rank": {"x": [None, 4]}}
"""What the spec of some models has to say."""

FIXED = frozenset({"fixed", "tf1_loop"})
"""Models without a batch axis."""


def run_script(name: str, *arguments: str | Path) -> str:
    """The output of a script in `tests/models`, which may import TensorFlow."""
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, _ROOT / "tests" / "models" / name, *arguments],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    return done.stdout


class Laboratory:
    """Runs jobs on models, each result in a directory of its own below `directory`."""

    def __init__(self, models: Path, directory: Path, pool: WorkerPool) -> None:
        self.models = models
        self._directory = directory
        self.pool = pool

    def new_directory(self) -> Path:
        """An empty directory."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"job {len(list(self._directory.iterdir()))}"
        path.mkdir()
        return path

    def run(self, job: Job) -> Path:
        """Waits for a job; gives its outputs."""
        self.pool.submit(job).result()
        return job.out

    def inspect(self, name: str) -> Inspection:
        """What is in a model."""
        out = self.run(inspection.job(self.models / name, self.new_directory()))
        return Inspection.load(out / "inspection.json")

    def freeze(
        self, name: str, batch: int | None = 4, *, allow_pruned_inputs: bool = False
    ) -> Path:
        """The directory with the frozen graph."""
        batch = None if name in FIXED else batch
        shapes = SHAPES.get(name, {})
        request = FreezeRequest("serving_default", batch, shapes, allow_pruned_inputs)
        return self.run(request.job(self.models / name, self.new_directory()))

    def compile(self, name: str, frozen: Path, target: str, *flags: str) -> Path:
        """The directory with the compiled program."""
        level = LEVELS[target]
        every = Flags(xla_flags(level, flags))
        request = CompileRequest(
            PLATFORMS[f"linux-{level.architecture}"], level, cpp_class(name, 4, level), every
        )
        return self.run(request.job(frozen, self.new_directory()))

    def refer(self, name: str, **changes: object) -> tuple[Path, Reference]:
        """The directory with the reference, and its summary."""
        sizes = () if name in FIXED else (1, 4)
        request = ReferenceRequest("serving_default", sizes, shapes=SHAPES.get(name, {}))
        job = request.job(self.models / name, self.new_directory())
        out = self.run(Job(job.kind, {**job.params, **changes}, job.inputs, job.out))
        return out, Reference.load(out / "reference.json")
