"""Records: the files of one finished action, as the store keeps them in `actions/`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..util.files import FileDigest
from ..util.names import check_names
from .keys import canonical, digest
from .signatures import Signer, verify

RECORD_VERSION = 1
"""Several versions of modelwheel may share a store: each leaves records with other numbers alone."""

MAX_RECORD_BYTES = 16 << 20
"""A record of the largest model that is fetched (`source.rules`) has a tenth of this."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class RecordError(ValueError):
    """A record is damaged, belongs to another key, or is not signed as asked; the message says which."""


class OtherVersionError(RecordError):
    """Another version of modelwheel has written the record: it does not count here, and is not damaged."""


@dataclass(frozen=True)
class Record:
    """The result of one finished action."""

    key: str
    files: Mapping[str, FileDigest]
    """Contents by relative POSIX name."""
    note: Mapping[str, Any] = field(default_factory=dict)
    """Any JSON value that the action adds to its result."""

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 by relative POSIX name, as keys of later actions have them."""
        return {name: file.sha256 for name, file in self.files.items()}

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    def serialise(self, signer: Signer | None = None) -> bytes:
        """The record as JSON, with a digest of itself and, if asked for, a signature."""
        body = {
            "version": RECORD_VERSION,
            "key": self.key,
            "files": {name: asdict(file) for name, file in sorted(self.files.items())},
            "note": self.note,
        }
        whole = {**body, "digest": digest(body)}
        if signer is not None:
            whole["signature"] = signer.sign(canonical(body))
        return json.dumps(whole, indent=1).encode()


def parse(key: str, content: bytes, trusted: Collection[str] | None = None) -> Record:
    """Reads what `Record.serialise` wrote under `key`.

    Nothing in it is trusted: names cannot lead out of a directory, nor hashes out of the store.

    Args:
        key: The key.
        content: The file.
        trusted: Public keys, one of which must have signed it; None if it needs no signature.

    Raises:
        OtherVersionError: Another version of modelwheel has written it.
        RecordError: It does not count.
    """
    try:
        body = json.loads(content.decode("ascii"))
        _require_known(body["version"])
        claimed, signature = body.pop("digest"), body.pop("signature", None)
        if claimed != digest(body):
            raise RecordError("its content does not match its digest")
        files = _files(body["files"])
        if body["version"] != RECORD_VERSION or body["key"] != key:
            raise RecordError("it has another key")
        if not isinstance(body["note"], dict):
            raise RecordError("its note is not an object")
    except OtherVersionError:
        raise
    # RecursionError: a thousand nested brackets are JSON, too.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"it is damaged ({error})") from None
    if trusted is not None:
        try:
            verify(canonical(body), signature, trusted)
        except ValueError as error:
            raise RecordError(str(error)) from None
    return Record(key, files, body["note"])


def _require_known(version: object) -> None:
    if type(version) is int and version != RECORD_VERSION:
        raise OtherVersionError(
            f"another modelwheel has written it (its version is {version}, not {RECORD_VERSION})"
        )


def _files(listed: Mapping[str, Mapping[str, object]]) -> dict[str, FileDigest]:
    check_names(listed)
    return {name: _file(**file) for name, file in listed.items()}


def _file(sha256: object, size: object) -> FileDigest:
    if not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise RecordError("a hash is not a SHA-256")
    if not (type(size) is int and size >= 0):  # not a bool, which is an int, too
        raise RecordError("a size is not a number of bytes")
    return FileDigest(sha256, size)
