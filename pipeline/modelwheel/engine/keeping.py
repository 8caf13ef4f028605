"""Which results of a store specs and the files of releases still need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

from ..errors import StoreError
from ..request import Request
from ..store.records import Record
from ..store.store import Store
from ..store.upkeep.inventory import kind_of, label_of, list_records, read_records
from ..store.upkeep.reachable import hashes_in, holding, needs_any, reachable
from ..util.files import digest_file
from ..util.text import one_line
from ..wheelfile.contents import open_contents
from .notes import meaning_key
from .planning.plan import plan
from .steps import Goal
from .steps.distribution import ObjectsStep, RuntimeStep, VerifyStep
from .steps.kernels import KernelsStep
from .steps.model import InspectStep

_BESIDE = {step.kind for step in (InspectStep, ObjectsStep, KernelsStep, RuntimeStep, VerifyStep)}
"""Kinds of results that a file does not depend on by its key, although its build uses them or made them of it."""


def _beside(records: Iterable[Record], made: Collection[str]) -> Iterator[str]:
    """The keys of the results that belong to some files, although the keys of those do not depend on them."""
    names = {_model_of(record) for record in records if record.key in made}
    for record in records:
        if kind_of(record) in _BESIDE:
            # An inspection needs no other result, and records of older versions do not note what they needed.
            noted = record.note.get("needs")
            belongs = _model_of(record) in names if not noted else needs_any(record, made)
            if belongs:
                yield record.key


def _model_of(record: Record) -> str:
    """The model that was built when a result was made; results that models share have that of the first."""
    return label_of(record).partition("/")[0]


def needed_results(
    store: Store, requests: Iterable[Request], files: Sequence[Path]
) -> tuple[set[str], set[str]]:
    """The keys of the results that builds of some specs use, and of those that builds of some files used.

    Args:
        store: Its own backend alone is read.
        requests: What builds ask for: wheels, source distributions, bundles.
        files: Wheels and source distributions that this store has made, or a job of the same release from its files.

    Returns:
        The keys, and those among them that do not note what they were made from: by older versions.

    Raises:
        StoreError: The store has nothing of a file.
        WheelError: A file is not a wheel or source distribution of modelwheel.
    """
    read = read_records(store.backend, list_records(store.backend))
    records = [stored.record for stored in read.records]
    roots = {
        step.key
        for request in requests
        for goal in get_args(Goal)
        for step in plan(request, store, goal)
        if step.key is not None
    }
    for file in files:
        # A wheel that a job made from a source distribution is not in the store: its project is, with the manifest.
        contents = open_contents(file)
        manifests = {contents.files[name].sha256 for name in contents.manifest_texts}
        made = holding(records, {digest_file(file).sha256, *manifests})
        if not made:
            raise StoreError(
                f"the store {store.backend.address} has nothing that {one_line(file)} was made from; leave the file "
                "out, or name the store of its release",
                code="MW705",
            )
        roots |= made.union(_beside(records, made))
    needed, silent = reachable(records, roots)
    # What `plan --why` says hashes stand for.
    noted = [record.note.get("inputs") for record in records if record.key in needed]
    meanings = {meaning_key(hashed) for hashed in set(hashes_in(noted))}
    return needed | meanings, silent
