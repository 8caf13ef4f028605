"""The names of a store's files, in a directory and in an object store."""

from __future__ import annotations

import re

ACTIONS, BLOBS, CLAIMS, PACKS = "actions/", "blobs/", "claims/", "packs/"
PROBES = "probes/"

_RECORD = re.compile(rf"{ACTIONS}([0-9a-f]{{2}})/(\1[0-9a-f]{{62}})\.json")


def record_name(key: str) -> str:
    """The file with the record under a key."""
    return f"{ACTIONS}{key[:2]}/{key}.json"


def record_key(name: str) -> str | None:
    """The key of the record in a file; None if it is another file."""
    match = _RECORD.fullmatch(name)
    return None if match is None else match[2]


def blob_name(sha256: str) -> str:
    """The file with a content."""
    return f"{BLOBS}{sha256[:2]}/{sha256}"


def pack_name(sha256: str) -> str:
    """The file with copies of many records."""
    return f"{PACKS}{sha256}.gz"
