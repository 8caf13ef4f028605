"""A store's files in a directory, of this machine or on a network file system."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...errors import StoreError
from ...util.files import make_directory, replace, sync, sync_directory
from ...util.names import UnsafePathError
from ...util.removal import remove, remove_tree
from ...util.trees import open_regular
from ..disk import disk_errors, is_damage, is_read_only
from ..scratch import ScratchSpace
from .base import Entry, WrongSizeError, check_name

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EACCES})
"""What file systems without hard links answer."""


class DirectoryBackend:
    """The files below one directory, which is created by the first write. No link in it is followed.

    Args:
        root: The directory.
        scratch: For unfinished files, on the same file system; by default `tmp` in the directory.
    """

    def __init__(self, root: Path, scratch: ScratchSpace | None = None) -> None:
        self.root = root.absolute()
        self._scratch = scratch or ScratchSpace(self.root / "tmp")

    def __reduce__(self) -> tuple[type[DirectoryBackend], tuple[Path]]:
        return DirectoryBackend, (self.root,)

    @property
    def address(self) -> str:
        return str(self.root)

    def read(self, name: str) -> bytes:
        path = self._path(name)
        with self._errors(path), open_regular(path) as file:
            return file.read()

    def fetch(self, name: str, to: Path, size: int) -> None:
        path = self._path(name)
        with self._errors(path), open_regular(path) as source, to.open("ab") as target:
            source.seek(target.tell())
            shutil.copyfileobj(source, target)
            if target.tell() != size:
                raise WrongSizeError(f"{path} is damaged: it has {target.tell()} bytes, not {size}")

    def create(self, name: str, content: bytes | Path) -> bool:
        path = self._path(name)
        with self._errors(path), self._aside(content) as aside:
            make_directory(path.parent)
            created = _rename_to_new(aside, path)
            if created:
                sync_directory(path.parent)
            return created

    def write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        with self._errors(path), self._aside(content) as aside:
            make_directory(path.parent)
            replace(aside, path)
            sync_directory(path.parent)

    def touch(self, name: str) -> None:
        path = self._path(name)
        with self._errors(path):
            os.utime(path)

    def list(self, prefix: str) -> Iterator[Entry]:
        folder, _, beginning = prefix.rpartition("/")
        directory = self.root / folder if folder else self.root
        with self._errors(directory):
            yield from self._walk(directory, f"{folder}/" if folder else "", beginning)

    def remove(self, name: str) -> None:
        path = self._path(name)
        with self._errors(path):
            remove(path)

    def stat(self, name: str) -> Entry | None:
        path = self._path(name)
        with self._errors(path):
            try:
                status = path.lstat()
            except FileNotFoundError:
                return None
        return _entry(name, status)

    def now(self) -> float:
        # A network file system has the clock of its server.
        try:
            directory = self._scratch.make_directory()
        except OSError as error:
            if is_read_only(error):
                return time.time()
            with disk_errors(self.root, self.root):
                raise
        try:
            return directory.stat().st_mtime
        finally:
            remove_tree(directory)

    def _path(self, name: str) -> Path:
        return self.root / check_name(name)

    @contextmanager
    def _aside(self, content: bytes | Path) -> Iterator[Path]:
        """A file beside the store's with this content, which is on the disk; removed at exit."""
        directory = self._scratch.make_directory()
        try:
            aside = directory / "file"
            with aside.open("wb") as target:
                if isinstance(content, bytes):
                    target.write(content)
                else:
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, target)
                sync(target)
            # Read-only, as `Blobs` has them: several readers may have it as a hard link.
            aside.chmod(0o444)
            yield aside
        finally:
            remove_tree(directory)

    def _walk(self, directory: Path, inside: str, beginning: str) -> Iterator[Entry]:
        """The files below a directory whose names begin with some letters."""
        try:
            if directory.is_symlink():
                return
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            if is_damage(error):
                return
            raise
        for entry in entries:
            if not entry.name.startswith(beginning):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path), f"{inside}{entry.name}/", "")
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # removed meanwhile
                    yield _entry(inside + entry.name, entry.stat(follow_symlinks=False))

    @contextmanager
    def _errors(self, path: Path) -> Iterator[None]:
        """Errors of the operating system as StoreError, but for a missing file."""
        try:
            with disk_errors(self.root, path):
                try:
                    yield
                except FileNotFoundError as error:
                    raise _MissingError(str(path)) from error
        except _MissingError:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path)) from None
        except UnsafePathError as error:
            raise StoreError(f"cannot read {path}: {error}; remove it") from error


class _MissingError(Exception):
    """A file is missing."""


def _entry(name: str, status: os.stat_result) -> Entry:
    # A file is never written to: another content is another file.
    tag = f"{status.st_ino}-{status.st_size}"
    return Entry(name, status.st_size, status.st_mtime, tag)


def _rename_to_new(aside: Path, path: Path) -> bool:
    """Gives a file its name, if nothing has that; False if something has."""
    try:
        if os.name == "nt":
            aside.rename(path)  # does not replace anything there
        else:
            path.hardlink_to(aside)
    except FileExistsError:
        return False
    except OSError as error:
        if os.name == "nt" or error.errno not in _NO_LINKS:
            raise
        if path.exists():
            return False
        # Without hard links, a file written in between is replaced: by whole content, as always.
        replace(aside, path)
    return True
