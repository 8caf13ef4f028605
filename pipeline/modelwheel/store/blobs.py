"""Blobs: contents under their own SHA-256, written once and verified whenever they are read."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ..util.files import FileDigest, digest_stream, make_directory, replace, sync, sync_directory
from ..util.names import UnsafePathError
from ..util.removal import remove
from ..util.trees import open_regular, read_regular
from .disk import is_damage

BLOB_NAME = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The blobs below one directory; any number of processes and threads may use them at once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._verified: dict[str, tuple[int, int, int]] = {}

    def path(self, sha256: str) -> Path:
        """Where the content with this hash is, if it is there."""
        return Path(self._name(sha256))

    def _name(self, sha256: str) -> str:
        # A Path takes longer to be made than the system takes to look at one of thousands of files.
        return f"{self._root}/{sha256[:2]}/{sha256}"

    def size(self, sha256: str) -> int | None:
        """Bytes of a blob, unverified; None if it is missing or not a regular file."""
        try:
            status = os.lstat(self._name(sha256))
        except OSError as error:
            if is_damage(error):
                return None
            raise
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def is_sound(self, file: FileDigest) -> bool:
        """Whether a blob has the content that its name says; hashed again only if it changed."""
        path = self.path(file.sha256)
        try:
            # Before hashing: a write meanwhile outdates the mark, and the next call hashes again.
            mark = _mark(path)
            if self._verified.get(file.sha256) == mark:
                return True
            with open_regular(path) as opened:
                # The size first: what is there instead may be endless, or take long to hash.
                sound = os.fstat(opened.fileno()).st_size == file.size
                sound = sound and digest_stream(opened) == file
        except UnsafePathError:  # a link, a pipe, a device
            return False
        except OSError as error:
            if is_damage(error):
                return False
            raise
        if sound:
            self._verified[file.sha256] = mark
        return sound

    def read(self, file: FileDigest) -> bytes | None:
        """The content of a blob; None if it is missing, or is not what its name says."""
        try:
            # No more than that: what is there instead may be endless.
            content = read_regular(self._name(file.sha256), file.size + 1)
        except UnsafePathError:
            return None
        except OSError as error:
            if is_damage(error):
                return None
            raise
        # The returned bytes themselves, once: a file can change after a check of its mark.
        return content if hashlib.sha256(content).hexdigest() == file.sha256 else None

    def add(self, source: BinaryIO, aside: Path) -> FileDigest:
        """Stores the content of an open file, which is copied to the unused path `aside` first."""
        with aside.open("wb") as target:
            file = digest_stream(source, target)
            path = self.path(file.sha256)
            if self.is_sound(file):
                with suppress(PermissionError):  # another user's, in a store that several share
                    os.utime(path)  # young again: not collected before the record is written
                self._verified[file.sha256] = _mark(path)
                return file
            # Before the rename: after a power cut, no blob may have half its content.
            sync(target)
        self._place(aside, file)
        return file

    def adopt(self, aside: Path, file: FileDigest) -> bool:
        """Makes a file that was written elsewhere a blob, if it has that content; False if it has not."""
        with aside.open("r+b") as opened:
            if digest_stream(opened) != file:
                return False
            sync(opened)
        self._place(aside, file)
        self._verified[file.sha256] = _mark(self.path(file.sha256))
        return True

    def _place(self, aside: Path, file: FileDigest) -> None:
        """Renames a file, whose content is on the disk."""
        path = self.path(file.sha256)
        # Read-only, because `Store.materialize` may hand out this file itself as a hard link.
        aside.chmod(0o444)
        make_directory(path.parent)
        try:
            # Also over an existing blob: that may be damaged, and this one is known to be sound.
            replace(aside, path)
        except PermissionError:
            # On Windows, a reader keeps its file. Then somebody else has stored the same content.
            if not self.is_sound(file):
                raise
        sync_directory(path.parent)

    def discard(self, sha256: str) -> None:
        """Removes a blob, if it is there and that is possible."""
        with suppress(OSError):
            remove(self.path(sha256))


def _mark(path: Path) -> tuple[int, int, int]:
    """Changes when a file is written to or replaced."""
    status = path.lstat()
    # Without the change time: each hard link that `Store.materialize` makes changes that.
    return status.st_ino, status.st_size, status.st_mtime_ns
