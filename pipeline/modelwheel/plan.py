"""What a build would do: every step by name, and whether its result is in the store already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from . import source
from .errors import SpecError
from .spec import ArchiveSource, DirectorySource, GitSource, Spec
from .spec.problems import did_you_mean
from .spec.sources import is_local
from .steps import Request, Step, steps_of
from .store import Record, Store
from .targets import TARGETS

State: TypeAlias = Literal["cached", "run"]

DEFAULT_BATCH_SIZES = (1,)
"""Where a spec names none; for a signature without batch axis, 1 is the whole evaluation."""


@dataclass(frozen=True)
class PlannedStep:
    """One line of a plan."""

    name: str
    kind: str
    state: State
    key: str | None
    """None where it depends on a result that is still missing."""


def make_request(
    spec: Spec, targets: Iterable[str] = (), batch_sizes: Iterable[int] = ()
) -> Request:
    """A spec with what the command line narrows: only some CPU levels or batch sizes.

    Raises:
        SpecError: One of them is not among the spec's.
    """
    own = spec.resolve_targets()
    wanted = tuple(targets)
    for name in wanted:
        if name not in {target.name for target in own}:
            raise SpecError(
                f"{spec.path}: target {name!r} is not among those of this spec. "
                + did_you_mean(name, [target.name for target in own])
            )
    sizes = spec.compilation.batch_sizes or DEFAULT_BATCH_SIZES
    for size in batch_sizes:
        if size not in sizes:
            raise SpecError(
                f"{spec.path}: batch size {size} is not among those of this spec: "
                f"{', '.join(map(str, sizes))}"
            )
    chosen = set(batch_sizes) or set(sizes)
    return Request(
        spec=spec,
        targets=tuple(TARGETS[t.name] for t in own if not wanted or t.name in wanted),
        batch_sizes=tuple(size for size in sizes if size in chosen),
    )


def source_of(spec: Spec) -> source.Source:
    """Where a spec's model comes from, with paths made absolute."""
    match spec.source:
        case GitSource() as git:
            return source.GitSource(git.address(spec.directory), git.commit, git.path, git.sha256)
        case ArchiveSource() as archive:
            return source.ArchiveSource(archive.archive, archive.sha256, archive.path)
        case DirectorySource() as directory:
            return source.DirectorySource(spec.directory / directory.directory, directory.sha256)
        case None:
            return source.DirectorySource(spec.directory / spec.model.saved_model)


def provenance_of(spec: Spec, tree: str) -> dict[str, str]:
    """Where a model with this tree hash comes from; a path stays as the spec has it, relative."""
    found = source.provenance(source_of(spec), tree)
    if isinstance(spec.source, GitSource) and is_local(spec.source.git):
        found["url"] = spec.source.git
    return found


def plan(request: Request, store: Store) -> list[PlannedStep]:
    """Every step of a request in the order of the pipeline. Fetches and runs nothing."""
    origin = source_of(request.spec)
    key = source.source_key(origin)
    name = f"{request.name}/fetch"
    tree = source.known_tree(origin, store)
    planned = [PlannedStep(name, "fetch", "run" if tree is None else "cached", key)]
    records: dict[str, Record] = {}
    for step in steps_of(request, tree or "", provenance_of(request.spec, tree or "")):
        found = _find(step, store, records) if tree is not None else None
        record = store.peek(found) if found is not None else None
        if record is not None:
            records[step.name] = record
        state: State = "run" if record is None else "cached"
        planned.append(PlannedStep(step.name, step.kind, state, found))
    return planned


def _find(step: Step, store: Store, records: dict[str, Record]) -> str | None:
    if all(need in records for need in step.needs):
        return step.key(store, records)
    return None
