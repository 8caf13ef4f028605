"""Keeps the beginnings of downloads that were stopped, so that the next command goes on with them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MIN_BYTES = 1 << 20
"""Less is quickly there again."""
_MAX_TAG_BYTES = 1024


@dataclass(frozen=True)
class Kept:
    """A directory with the beginnings of files, by the SHA-256 that the whole file has to have.

    Nothing in it is trusted: the host says whether it still has that file, and the hash decides in the end.
    """

    directory: Path

    def take(self, sha256: str, target: Path) -> str:
        """Moves the beginning of a file to `target`; the tag that it had at its host, or empty if there is none."""
        with suppress(OSError):
            tag = self._tag(sha256)
            if tag.stat().st_size <= _MAX_TAG_BYTES:
                (self.directory / sha256).replace(target)
                return tag.read_text(encoding="utf-8", errors="replace")
        return ""

    def keep(self, sha256: str, beginning: Path, tag: str) -> None:
        """Keeps the beginning of a file, if its host can go on with it."""
        with suppress(OSError):
            if tag and beginning.stat().st_size >= _MIN_BYTES:
                self.directory.mkdir(exist_ok=True)
                self._tag(sha256).write_text(tag, encoding="utf-8")
                beginning.replace(self.directory / sha256)

    def _tag(self, sha256: str) -> Path:
        return self.directory / f"{sha256}.tag"
