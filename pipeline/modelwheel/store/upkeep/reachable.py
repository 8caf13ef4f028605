"""The inputs of results, by the notes in their records."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ..records import Record

_FROM = ("inputs", "needs")
"""Entries of a note that say what a result was made from."""

_HASH = re.compile(r"[0-9a-f]{64}")


def holding(records: Iterable[Record], hashes: Collection[str]) -> set[str]:
    """The keys of the records that have a file with one of these hashes."""
    return {
        record.key
        for record in records
        if any(file.sha256 in hashes for file in record.files.values())
    }


def needs_any(record: Record, keys: Collection[str]) -> bool:
    """Whether a record notes one of these keys among the results that its step used."""
    return not _needs(record).isdisjoint(keys)


def reachable(records: Iterable[Record], roots: Iterable[str]) -> tuple[set[str], set[str]]:
    """The keys of some results and of all that they were made from.

    Args:
        records: Those of the store.
        roots: Keys of the results.

    Returns:
        The keys, and those among them whose records do not note what they were made from: by older versions.
    """
    known = {record.key: record for record in records}
    makers = _makers(known.values())
    reached: set[str] = set()
    waiting = [key for key in roots if key in known]
    while waiting:
        key = waiting.pop()
        if key not in reached:
            reached.add(key)
            waiting += _made_from(known[key], makers)
            waiting += _needs(known[key]) & known.keys()
    silent = {
        key for key in reached if "step" in known[key].note and "inputs" not in known[key].note
    }
    return reached, silent


def _makers(records: Iterable[Record]) -> dict[str, list[str]]:
    """The keys of the records that stand for a hash: that of a file, of a whole model, or their own key."""
    makers: dict[str, list[str]] = defaultdict(list)
    for record in records:
        own = {name: value for name, value in record.note.items() if name not in _FROM}
        hashes = {file.sha256 for file in record.files.values()}
        for hashed in {record.key, *hashes, *hashes_in(own)}:
            makers[hashed].append(record.key)
    return makers


def _made_from(record: Record, makers: dict[str, list[str]]) -> Iterator[str]:
    """The keys of the records that a record was made from."""
    used = [hashed for hashed in set(hashes_in(record.note.get("inputs"))) if hashed in makers]
    # Some files, such as a licence, are in the results of many models. Those that were used share the most with the
    # inputs.
    shared = Counter(key for hashed in used for key in makers[hashed])
    for hashed in used:
        most = max(shared[key] for key in makers[hashed])
        yield from (key for key in makers[hashed] if shared[key] == most)


def _needs(record: Record) -> set[str]:
    """The keys of the results that a step used, which its inputs need not name; none in records of older versions."""
    return set(hashes_in(record.note.get("needs")))


def hashes_in(value: Any) -> Iterator[str]:
    """All texts in a JSON value that are hashes."""
    if isinstance(value, str):
        if _HASH.fullmatch(value):
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from hashes_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from hashes_in(item)
