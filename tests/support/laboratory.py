"""A pool of real workers and the tiny models of `tests/models`, for tests that need TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from modelwheel.levels import LEVELS
from modelwheel.model.inspection import Inspection, Shape
from modelwheel.model.reference_result import Reference
from modelwheel.platforms import PLATFORMS
from modelwheel.workers.client import FORKS
from modelwheel.workers.flags import Flags, xla_flags
from modelwheel.workers.jobs import (
    CompileRequest,
    FreezeRequest,
    InspectRequest,
    Job,
    ReferenceRequest,
    cpp_class,
)
from modelwheel.workers.pool import WorkerPool
from tests.support import preloaded

_ROOT = Path(__file__).parents[2]
SHARED_MODELS = _ROOT.parent / "shared" / "models"

SHAPES: dict[str, dict[str, Shape]] = {
    "sequence": {"tokens": (None, 6, 4)},
    "unknown_rank": {"x": (None, 4)},
}
"""Shapes that the specs of some models have to fix."""

_OTHER_FIRST = frozenset(
    {
        "composites",
        "exported",
        "found_layers",
        "large",
        "onnx_images",
        "onnx_operations",
        "ordered",
        "registry",
        "time_major",
        "torch_programs",
    }
)
"""Modules that import other frameworks before TensorFlow, or hold what TensorFlow has when it starts."""

FIXED = frozenset({"fixed", "tf1_loop"})
"""Models without a batch axis."""


def run_script(name: str, *arguments: str | Path) -> str:
    """The output of a module of `tests/models`, which may import TensorFlow."""
    command = [f"tests.models.{name}", *map(str, arguments)]
    environment = {**os.environ, **preloaded.TENSORFLOW}
    if FORKS and name not in _OTHER_FIRST:
        code, out, err = preloaded.run("module", command, environment, directory=_ROOT)
        assert code == 0, err
        return out
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=_ROOT,
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
        """Waits for a job; returns the directory with its outputs."""
        self.pool.submit(job).result()
        return job.out

    def inspect(self, name: str, **request: Any) -> Inspection:
        """What is in a model."""
        job = InspectRequest(**request).job(self.models / name, self.new_directory())
        out = self.run(job)
        return Inspection.load(out / "inspection.json")

    def freeze(self, name: str, batch: int | None = 4, **changes: Any) -> Path:
        """The directory with the frozen graph."""
        fields = {
            "signature": "serving_default",
            "batch": None if name in FIXED else batch,
            "shapes": SHAPES.get(name, {}),
        }
        request = FreezeRequest.model_validate({**fields, **changes})
        return self.run(request.job(self.models / name, self.new_directory()))

    def compile(self, name: str, frozen: Path, target: str, *flags: str) -> Path:
        """The directory with the compiled program."""
        level = LEVELS[target]
        every = Flags(xla_flags(level, flags))
        platform = PLATFORMS[f"linux-{level.architecture}"]
        request = CompileRequest.at(platform, level, cpp_class(name, "b4", level), every)
        return self.run(request.job(frozen, self.new_directory()))

    def refer(self, name: str, **changes: Any) -> tuple[Path, Reference]:
        """The directory with the reference, and its summary."""
        sizes = () if name in FIXED else (1, 4)
        fields = {"signature": "serving_default", "batch_sizes": sizes}
        shapes = {"shapes": SHAPES.get(name, {})}
        request = ReferenceRequest.model_validate({**fields, **shapes, **changes})
        out = self.run(request.job(self.models / name, self.new_directory()))
        return out, Reference.load(out / "reference.json")
