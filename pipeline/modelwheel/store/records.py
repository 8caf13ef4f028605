"""Records: the files of one finished action, as the store keeps them in `actions/`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..util.files import FileDigest, check_names
from .keys import digest

RECORD_VERSION = 1

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Record:
    """The result of one finished action."""

    key: str
    files: Mapping[str, FileDigest]
    """Contents by relative POSIX name."""
    note: Mapping[str, Any] = field(default_factory=dict)
    """Any JSON value that the action adds to its result."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    def serialise(self) -> bytes:
        """The record as JSON, with a digest of itself."""
        body = {
            "version": RECORD_VERSION,
            "key": self.key,
            "files": {name: asdict(file) for name, file in sorted(self.files.items())},
            "note": self.note,
        }
        return json.dumps({**body, "digest": digest(body)}, indent=1).encode()


def parse(key: str, content: bytes) -> Record:
    """Reads what `Record.serialise` wrote under `key`.

    Nothing in it is trusted: names cannot lead out of a directory, nor hashes out of the store.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is damaged, or belongs to another key.
    """
    body = json.loads(content)
    if body.pop("digest") != digest(body):
        raise ValueError("its content does not match its digest")
    if body["version"] != RECORD_VERSION or body["key"] != key:
        raise ValueError("it has another version or key")
    # The digest shows damage, not malice: whoever can write a record can compute it.
    check_names(body["files"])
    if not all(_SHA256.fullmatch(file["sha256"]) for file in body["files"].values()):
        raise ValueError("a hash is not a SHA-256")
    files = {name: FileDigest(**file) for name, file in body["files"].items()}
    return Record(key, files, body["note"])
