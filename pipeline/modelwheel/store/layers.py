"""The directories of a store: its own, which it writes, and those of others, which it only reads."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..util.files import FileDigest, make_directory, write_atomically
from ..util.names import UnsafePathError
from ..util.removal import remove
from ..util.text import one_line
from ..util.trees import read_regular
from .blobs import Blobs
from .disk import is_damage
from .records import MAX_RECORD_BYTES, OtherVersionError, Record, RecordError, parse
from .signatures import Signer

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Policy:
    """Whose records count.

    A record of an upstream counts if a trusted key signed it. What this store's own directory holds
    counts as it is, unless this process signs: then it would vouch for it.
    """

    trusted_keys: tuple[str, ...] = ()
    """Public keys, as `Signer.public_key` has them; if there are none, all records count."""
    upstream: tuple[Path | str, ...] = ()
    """Stores of others, directories or URLs, searched in this order after the own one, and never written to."""
    signer: Signer | None = None
    """Signs what this process stores."""


class Layer:
    """One directory with records and blobs, to be read.

    Args:
        root: The directory; it need not exist.
        trusted: Public keys, one of which must have signed a record; None if none needs to.
    """

    def __init__(self, root: Path, trusted: Collection[str] | None) -> None:
        self.root = root
        self.blobs = Blobs(root / "blobs")
        self._trusted = trusted

    def record_path(self, key: str) -> Path:
        """Where the record under `key` is, if there is one."""
        return Path(self._record_name(key))

    def _record_name(self, key: str) -> str:
        # A Path takes longer to be made than the system takes to open one of thousands of records.
        return f"{self.root}/actions/{key[:2]}/{key}.json"

    def lookup(self, key: str) -> Record | None:
        """The record under `key`, if it counts and all its files are sound."""
        record = self.read(key)
        if record is None:
            return None
        for name, file in record.files.items():
            if not self.blobs.is_sound(file):
                self.drop(key, f"its file {name!r} is damaged or missing")
                return None
        return record

    def peek(self, key: str) -> Record | None:
        """The record under `key`, if it counts and its files exist with the right sizes."""
        record = self.read(key)
        if record is not None and all(
            self.blobs.size(file.sha256) == file.size for file in record.files.values()
        ):
            return record
        return None

    def read(self, key: str) -> Record | None:
        """The record under `key`, if it counts; its files are not looked at."""
        try:
            content = read_regular(self._record_name(key), MAX_RECORD_BYTES + 1)
            if len(content) > MAX_RECORD_BYTES:
                raise RecordError(f"it is damaged (more than {MAX_RECORD_BYTES} bytes)")
            return parse(key, content, self._trusted)
        except FileNotFoundError:
            return None
        except OtherVersionError as error:
            _log.info("passing over the record %s: %s", self.record_path(key), error)
        except (RecordError, UnsafePathError) as error:
            self.drop(key, str(error))
        except OSError as error:
            if not is_damage(error):
                raise
            self.drop(key, error.strerror or str(error))
        return None

    def find(self, sha256: str, size: int | None = None) -> Path | None:
        """The blob with this hash, verified; None if it is not here."""
        size = self.blobs.size(sha256) if size is None else size
        sound = size is not None and self.blobs.is_sound(FileDigest(sha256, size))
        return self.blobs.path(sha256) if sound else None

    def content(self, file: FileDigest) -> bytes | None:
        """The content with this digest, verified; None if it is not here."""
        return self.blobs.read(file)

    def close(self) -> None:
        """Called when nothing is read or written any more."""

    def drop(self, key: str, why: str) -> None:
        """Called with a record that does not count, and why."""
        _log.warning("ignoring the record %s: %s", self.record_path(key), one_line(why))


class OwnLayer(Layer):
    """The directory that a store writes to: what is damaged there is removed."""

    def drop(self, key: str, why: str) -> None:
        path = self.record_path(key)
        why = one_line(why)
        _log.warning("dropping the record %s: %s; its work will be done again", path, why)
        with suppress(OSError):
            remove(path)

    def publish(self, key: str, files: Iterable[FileDigest], content: bytes, aside: Path) -> bytes:
        """Writes a record, whose contents are in the store.

        Args:
            key: The key.
            files: The contents.
            content: The record.
            aside: An unused path on the same file system.

        Returns:
            The record that counts.
        """
        del files
        path = self.record_path(key)
        make_directory(path.parent)
        write_atomically(path, content, aside=aside)
        return content

    def touch(self, key: str) -> None:
        """Notes that the record under `key` was used."""
        with suppress(OSError):  # a read-only store still works
            os.utime(self.record_path(key))


class Upstream(Layer):
    """The directory of another store: whatever is wrong there is a miss, and stays there."""

    def __init__(self, root: Path, trusted: Collection[str] | None) -> None:
        super().__init__(root, trusted)
        self._complained = False

    def lookup(self, key: str) -> Record | None:
        try:
            return super().lookup(key)
        except OSError as error:
            self._complain(error)
            return None

    def peek(self, key: str) -> Record | None:
        try:
            return super().peek(key)
        except OSError as error:
            self._complain(error)
            return None

    def find(self, sha256: str, size: int | None = None) -> Path | None:
        try:
            return super().find(sha256, size)
        except OSError as error:
            self._complain(error)
            return None

    def content(self, file: FileDigest) -> bytes | None:
        try:
            return super().content(file)
        except OSError as error:
            self._complain(error)
            return None

    def _complain(self, error: OSError) -> None:
        # Once: a build looks for dozens of records.
        if not self._complained:
            _log.warning("cannot read the store %s (%s); going on without it", self.root, error)
        self._complained = True
