"""The text of a model as a graph after each pass of the compiler.

Nothing of it is kept in the store: XLA compiles the frozen graphs again.
"""

from __future__ import annotations

from pathlib import Path

from ..request import Request
from ..sandbox.choose import Sandbox
from ..store.store import Store
from ..util.files import write_atomically
from ..workers.jobs import PASSES
from ..workers.pool import WorkerPool
from .delivery import writing_to
from .programs import found_steps, records_of
from .steps.model import CompileStep


def write_passes(request: Request, store: Store, sandbox: Sandbox, directory: Path) -> list[Path]:
    """Writes the graph after each pass and the program in the end, a file for each program of a request that has been built.

    Args:
        request: A model whose frozen graphs are in the store.
        store: Its results are read.
        sandbox: Where workers run.
        directory: Is made if it is not there.

    Returns:
        The files, such as `x86-64-v3-b1.txt`.

    Raises:
        CompileError: XLA or a worker failed.
        EnvironmentProblemError: The directory cannot be written.
    """
    plan = found_steps(request, store)
    records = records_of(plan, store)
    steps = [step for step in plan if isinstance(step, CompileStep)]
    with store.scratch() as scratch:
        with WorkerPool(scratch / "workers", sandbox=sandbox) as pool:
            for number, step in enumerate(steps):
                frozen, out = scratch / f"{number}-frozen", scratch / f"{number}"
                store.materialize(records[step.needs[0]], frozen, link=True)
                out.mkdir()
                pool.submit(step.passes_job(frozen, out), step=step.name).result()
        with writing_to(directory):
            directory.mkdir(parents=True, exist_ok=True)
            return [_copy(step, scratch / f"{n}", directory) for n, step in enumerate(steps)]


def _copy(step: CompileStep, out: Path, directory: Path) -> Path:
    path = directory / f"{step.level.name}-{step.extent}.txt"
    write_atomically(path, (out / PASSES).read_bytes())
    return path
