"""Compiles a model for several rows, so that its batch sizes can be decided from the program."""

from __future__ import annotations

import shutil

from ..errors import ModelwheelError
from ..model.frozen_signature import CONFIG, GRAPH
from ..program.program import Program
from ..workers.jobs import PROGRAM, SIZING, CompileJob, FrozenGraphInput, SizingJob
from ..workers.outcomes import Sizing
from .freeze import freeze
from .xla import compile as compile_graph


def run(job: SizingJob) -> None:
    """Writes the program, or why there is none."""
    if job.request.freezing.batch is None:
        Sizing().save(job.out / SIZING)
        return
    frozen, compiled = job.out / "frozen", job.out / "compiled"
    frozen.mkdir()
    compiled.mkdir()
    try:
        freeze.run(job.freezing.model_copy(update={"out": frozen}))
        inputs = FrozenGraphInput(graph=frozen / GRAPH, config=frozen / CONFIG)
        compile_graph.run(CompileJob(request=job.request.compiling, inputs=inputs, out=compiled))
        sizing = Sizing(program=Program.load(compiled / PROGRAM))
    # Exporters write the number of rows into graphs: such a model is one for single rows.
    except ModelwheelError as error:
        sizing = Sizing(refusal=str(error))
    shutil.rmtree(frozen)
    shutil.rmtree(compiled)
    sizing.save(job.out / SIZING)
