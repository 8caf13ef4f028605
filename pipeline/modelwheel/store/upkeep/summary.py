"""Describes a store and its upstreams, for people and for machines."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import EnvironmentProblemError, StoreError
from ...util.places import is_url
from ...util.words import count, size_text
from ..backends.objects import ObjectBackend
from ..names import PROBES, record_name
from ..objects.copies import Packs
from ..store import Store
from .inventory import take_inventory


@dataclass(frozen=True)
class Summary:
    """The contents of a store, and whose records count."""

    directory: str
    """Its path or URL."""
    results: int
    bytes: int
    upstream: tuple[Path | str, ...]
    missing: tuple[Path | str, ...]
    """Upstreams that are not there, or cannot be read."""
    trusted_keys: tuple[str, ...]
    signs_with: str | None
    """The public key of the key that this process signs with."""


def summarise(store: Store) -> Summary:
    """Counts what is in the store's own directory."""
    signer = store.policy.signer
    stock = take_inventory(store.backend, Packs.of(store.backend))
    return Summary(
        store.address,
        len(stock.records),
        stock.bytes,
        tuple(store.upstream),
        missing_upstream(store),
        store.policy.trusted_keys,
        None if signer is None else signer.public_key,
    )


def find_problem(store: Store) -> str | None:
    """Why builds cannot use an object store, and how to fix it; None if they can, or if it is a directory."""
    if not is_url(store.address):
        return None
    name = f"{PROBES}{uuid.uuid4().hex}"
    try:
        store.backend.create(name, b"first")
        overwritten = store.backend.create(name, b"second")
        store.backend.remove(name)
    except StoreError as error:
        return str(error)
    if overwritten:
        return (
            f"the server of {store.address} overwrites objects that are to be created once (If-None-Match); use one that "
            "keeps this condition, or another store"
        )
    return None


def missing_upstream(store: Store) -> tuple[Path | str, ...]:
    """Upstreams that are not there, or cannot be read."""
    return tuple(place for place in store.upstream if not _is_there(place))


def _is_there(place: Path | str) -> bool:
    if not is_url(place):
        return Path(place).is_dir()
    try:
        ObjectBackend(str(place)).stat(record_name("0" * 64))
    except (StoreError, EnvironmentProblemError):
        return False
    return True


def describe(summary: Summary) -> Iterator[str]:
    """One line for each directory, and whose records count there."""
    size = size_text(summary.bytes)
    yield f"{count(summary.results, 'cached result')}, {size}, in {summary.directory}"
    if summary.signs_with is not None:
        yield f"  signed with {summary.signs_with}; records without a trusted signature are ignored"
    judged = "counts if signed by a trusted key" if summary.trusted_keys else "all records count"
    for path in summary.upstream:
        yield f"read-only: {path} ({'not there' if path in summary.missing else judged})"
