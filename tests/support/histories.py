"""A store in which the steps of specs have results with notes, without anything being built."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from modelwheel.assembly.batch_sizes import ChosenSizes
from modelwheel.engine.notes import Work, model_files
from modelwheel.engine.steps import Goal, steps_of
from modelwheel.engine.steps.model import SIZES
from modelwheel.model.inspection import INSPECTION
from modelwheel.request import Request
from modelwheel.source.fetch import look_up
from modelwheel.store.history import remember_use
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.workers.jobs import SIZING, JobResult
from modelwheel.workers.outcomes import Sizing
from tests.support.stores import make
from tests.support.toy_worker import inspection

FILES = {
    "freeze": ("graph.pb", "config.pb", "signature.json", "state.bin"),
    "reference": ("reference.npz", "reference.json", "framework.json"),
    "compile": ("kernels.o", "program.json", "constants.bin"),
    "project": ("platforms/linux-x86_64/generated/kernels.txt", "tables.cpp"),
}
"""The files of each kind of step; of the others, one."""


def write_result(kind: str, name: str, out: Path) -> None:
    """Writes a result of fixed content."""
    out.mkdir(parents=True)
    if kind == "inspect":
        inspection().save(out / INSPECTION)
        return
    if kind == "sizing":
        Sizing().save(out / SIZING)
        return
    if kind == "sizes":
        ChosenSizes().save(out / SIZES)
        return
    files = FILES.get(kind, ("file",))
    make(out, {file: b"" if file.endswith(".txt") else name.encode() for file in files})


def pretend_build(
    request: Request, store: Store, goal: Goal = "wheel", seconds: float = 1.0
) -> list[str]:
    """Stores a result of every step that has none, each of which took so long; returns the names of these steps."""
    origin = request.spec.origin
    known = look_up(origin, store)
    assert known.tree_sha256 is not None
    model = request.spec.directory / "model"
    records: dict[str, Record] = {}
    ran = []
    for step in steps_of(request, known.tree_sha256, known.provenance, goal):
        inputs = step.key_inputs(store, records)
        record = store.lookup(step.key(store, records))
        if record is None:
            # The model's content decides the results, as it does in a build.
            content = f"{known.tree_sha256} {step.name.partition('/')[2]}"
            with store.scratch() as scratch:
                write_result(step.kind, content, scratch / "out")
                work = Work(
                    name=step.name,
                    kind=step.kind,
                    lineage=step.lineage,
                    inputs=inputs,
                    meanings=step.meanings(store, records, partial(model_files, model)),
                    model=model,
                    used=JobResult(seconds),
                )
                record = work.publish(scratch / "out", store)
            ran.append(step.name)
        else:
            remember_use(store, step.lineage, record)
        records[step.name] = record
    return ran
