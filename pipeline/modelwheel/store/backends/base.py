"""The interface of the place that holds a store's files: reads, writes that never overwrite, and listings.

Names are those of the layout: `actions/ab/<key>.json`, `blobs/ab/<sha256>`, `leases/<id>.json`, `claims/<key>.<number>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...errors import StoreError

_NAME = re.compile(r"[a-z]+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")


class WrongSizeError(StoreError):
    """A file has another size than whoever reads it knows: it is damaged."""


@dataclass(frozen=True)
class Entry:
    """A file of a listing."""

    name: str
    size: int
    """Bytes."""
    modified: float
    """When it was written, in seconds since the epoch, by the clock of the server."""
    tag: str = ""
    """Another one for every content that is written under the name; empty if the server has none."""


class Backend(Protocol):
    """A place with files under names; any number of processes and threads may use it at once.

    Every method raises StoreError, with the address, what failed and a fix, if the place cannot be reached or refuses.
    """

    @property
    def address(self) -> str:
        """The path of the directory, or the URL."""

    def read(self, name: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: There is none.
        """

    def fetch(self, name: str, to: Path, size: int) -> None:
        """Downloads a file of that size. What `to` already holds is taken for its beginning, and stays after a failure.

        Nothing is verified but the size.

        Raises:
            FileNotFoundError: There is none.
            WrongSizeError: It has another size.
        """

    def create(self, name: str, content: bytes | Path) -> bool:
        """Writes a new file, whole or not at all.

        Returns:
            False if there is one of that name, which then stays as it is.
        """

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, whole or not at all, also in place of another."""

    def touch(self, name: str) -> None:
        """Makes the time when a file was written that of now; its content and tag stay.

        Raises:
            FileNotFoundError: There is none.
        """

    def list(self, prefix: str) -> Iterator[Entry]:
        """The files whose names begin with `prefix`, such as `actions/`, in no particular order."""

    def remove(self, name: str) -> None:
        """Removes a file; does nothing if there is none."""

    def stat(self, name: str) -> Entry | None:
        """The entry of one file in a listing; None if there is none."""

    def now(self) -> float:
        """The time by the clock that `Entry.modified` follows, in seconds since the epoch."""


def check_name(name: str) -> str:
    """The name, if it is one of the layout.

    Raises:
        StoreError: It could lead out of the store.
    """
    if not _NAME.fullmatch(name):
        raise StoreError(f"{name!r} is not the name of a file of a store")
    return name
