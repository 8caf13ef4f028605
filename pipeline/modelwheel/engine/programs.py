"""The programs of a request that has been built, or of a wheel, from the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import ValidationError

from ..assembly.manifest import Manifest, Variant
from ..levels import Level
from ..platforms import host_platform
from ..program.program import Program
from ..program.text import text_of
from ..request import Extent, Request
from ..source import fetch as source
from ..store.records import Record
from ..store.store import Store
from ..store.upkeep.inventory import list_records, read_records
from ..workers.jobs import KERNELS, PROGRAM
from .steps import Goal, known_request, steps_of
from .steps.base import Step
from .steps.model import CompileStep


def found_steps(request: Request, store: Store, goal: Goal = "project") -> tuple[Step, ...]:
    """The steps of a request whose model is in the store."""
    model = source.look_up(request.origin, store)
    tree = model.tree_sha256 or ""
    request = known_request(request.holding(model.file), tree, store)
    return steps_of(request, tree, model.provenance, goal)


def stored_records(request: Request, store: Store, goal: Goal = "project") -> dict[str, Record]:
    """The results of steps that are in the store, by the step's name. Fetches and runs nothing."""
    return records_of(found_steps(request, store, goal), store)


def records_of(steps: Sequence[Step], store: Store) -> dict[str, Record]:
    """The results of some steps that are in the store, by the step's name; a step comes after those that it needs."""
    records: dict[str, Record] = {}
    for step in steps:
        record = _record(step, store, records)
        if record is not None:
            records[step.name] = record
    return records


def _record(step: Step, store: Store, records: Mapping[str, Record]) -> Record | None:
    if not all(need in records for need in step.needs):
        return None
    return store.peek(step.key(store, records))


def stored_programs(request: Request, store: Store, level: Level) -> dict[Extent, Program]:
    """The programs of a level of this machine's platform, by batch size and length."""
    steps = found_steps(request, store)
    records = records_of(steps, store)
    return {
        step.extent: Program.model_validate_json(store.read_bytes(records[step.name], PROGRAM))
        for step in steps
        if isinstance(step, CompileStep) and step.name in records
        if (step.platform, step.level) == (host_platform(), level)
    }


def program_texts(manifest: Manifest, store: Store) -> Iterator[tuple[Variant, str | None]]:
    """The text of the program of each variant of a wheel or source distribution; None if the store does not have it.

    A variant is found by its machine code, which is in the same result.
    """
    objects = {file.path: file.sha256 for file in manifest.files}
    stored = read_records(store.backend, list_records(store.backend)).records
    compiled = {
        entry.record.hashes.get(KERNELS): entry.record
        for entry in stored
        if PROGRAM in entry.record.files
    }
    for variant in manifest.variants:
        record = compiled.get(objects.get(variant.object))
        yield variant, None if record is None else _text(record, store)


def _text(record: Record, store: Store) -> str | None:
    try:
        return text_of(Program.model_validate_json(store.read_bytes(record, PROGRAM)))
    except ValidationError:  # of another version of modelwheel
        return None
