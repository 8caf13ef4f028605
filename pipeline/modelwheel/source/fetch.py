"""Fetches a pinned model from a git commit, an archive or a local directory.

The *tree hash* that a spec may pin is a SHA-256 over one line for every file, sorted by the bytes of
its path: `<sha256> <size> <path>` and a line feed, with the file's SHA-256 in lower-case
hexadecimal, its size in bytes as a decimal number, and its path relative to the model's directory
with `/` between components. Empty directories, permissions and times have no effect. In a shell:

    cd saved_model
    find . -type f -printf '%P\\n' | LC_ALL=C sort | while IFS= read -r name; do
        printf '%s %s %s\\n' "$(sha256sum < "$name" | cut -c1-64)" "$(stat -c %s "$name")" "$name"
    done | sha256sum
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import SourceError
from ..spec.sources import AnySource, ArchiveSource, DirectorySource, GitSource
from ..store.keys import action_key
from ..store.records import Record
from ..store.store import Store
from ..util.files import (
    FileDigest,
    UnsafePathError,
    digest_stream,
    remove_tree,
)
from ..util.text import one_line
from ..util.trees import digest_tree, open_tree
from ..util.urls import redact
from .archive import extract
from .download import download
from .git import fetch_tree
from .rules import MAX_MODEL_BYTES, MAX_MODEL_FILES

FETCH_TIMEOUT = 900.0
"""Seconds that one download may take."""

# Pointer files are smaller than 1024 bytes and begin with their version (git-lfs, docs/spec.md).
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_LFS_POINTER_MAX_BYTES = 1024


@dataclass(frozen=True)
class FetchedModel:
    """A verified SavedModel that does not change any more."""

    key: str
    """Its origin and content in the keys of later steps; the same as `source_key` returns."""
    directory: Path
    """The SavedModel, read-only; removed when this process ends or the store is closed."""
    tree_sha256: str
    """The tree hash; see the module's description."""
    commit: str | None
    """The git commit it comes from."""
    provenance: Mapping[str, str]
    """Where it comes from, without credentials and without paths of this machine."""


def fetch(source: AnySource, store: Store, timeout: float = FETCH_TIMEOUT) -> FetchedModel:
    """Fetches a model, or takes it from the store, and verifies it.

    A local directory is read each time, and copied while it is hashed: later changes in it do not
    affect the result.

    Args:
        source: What to fetch.
        store: Keeps what was downloaded.
        timeout: Seconds that one download may take.

    Raises:
        SourceError: It cannot be fetched, is not what was pinned, or is not a SavedModel.
        StoreError: The store cannot be used.
    """
    if isinstance(source, DirectorySource):
        return _snapshot(source, store)
    key = source_key(source)
    # Without the lock first: a store that is read-only serves what it has.
    record = store.lookup(key)
    if record is None:
        # Two builds that need the same model download it once.
        with store.lock(key):
            record = store.lookup(key) or _download(source, store, key, timeout)
    tree = tree_digest(record.files)
    commit = source.commit if isinstance(source, GitSource) else None
    if isinstance(source, GitSource):
        # The pinned hash is not in the key, so a model from the store is compared with it, too.
        _require_tree(source.sha256, tree, str(source))
    directory = store.keep_directory()
    store.materialize(record, directory, link=True)
    return FetchedModel(key, directory, tree, commit, source.provenance(tree))


def source_key(source: AnySource) -> str:
    """The key of a source in the store, without fetching it; a local directory is hashed.

    Raises:
        SourceError: A local directory cannot be read, or contains anything but regular files.
    """
    if isinstance(source, GitSource):
        # Redacted, because another password or token does not make it another source.
        url, path = redact(source.address), source.subdirectory
        return action_key("source-git", url=url, commit=source.commit, path=path)
    if isinstance(source, ArchiveSource):
        # Without the URL: the same content may move to another address.
        return action_key("source-archive", sha256=source.sha256, path=source.subdirectory)
    return _directory_key(tree_sha256(source.location))


@dataclass(frozen=True)
class KnownModel:
    """What is known about a model without fetching it."""

    key: str
    """The same as `FetchedModel.key`."""
    tree_sha256: str | None
    """The tree hash, or None if it takes a download to know it."""
    provenance: Mapping[str, str]
    """The same as `FetchedModel.provenance`, if the tree hash is known."""


def look_up(source: AnySource, store: Store) -> KnownModel:
    """What is known about a model without fetching it.

    A local directory is hashed; anything else is known if it was fetched before.

    Raises:
        SourceError: A local directory cannot be read, or contains anything but regular files.
    """
    if isinstance(source, DirectorySource):
        digest = tree_sha256(source.location)
        return KnownModel(_directory_key(digest), digest, source.provenance(digest))
    key = source_key(source)
    record = store.peek(key)
    tree = None if record is None else tree_digest(record.files)
    return KnownModel(key, tree, source.provenance(tree or ""))


def is_at_hand(source: AnySource, store: Store) -> bool:
    """Whether `fetch` has nothing to download."""
    return isinstance(source, DirectorySource) or store.contains(source_key(source))


def tree_sha256(directory: Path) -> str:
    """The tree hash of a directory, as described above.

    Raises:
        SourceError: It cannot be read, or contains anything but regular files with portable names.
    """
    _require_directory(directory)
    try:
        return tree_digest(digest_tree(directory))
    except UnsafePathError as error:
        raise _refusal(directory, error) from None
    except OSError as error:
        raise _unreadable(error) from error


def tree_digest(files: Mapping[str, FileDigest]) -> str:
    """The tree hash of files by their paths."""
    lines = (
        # Specs and manifests hold hashes of this form: a change of one byte would break every pin.
        f"{file.sha256} {file.size} {name}\n".encode()
        for name, file in sorted(files.items(), key=lambda item: item[0].encode())
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _download(source: GitSource | ArchiveSource, store: Store, key: str, timeout: float) -> Record:
    shown = str(source)
    with store.scratch() as scratch, store.disk_errors(scratch):
        directory = scratch / "model"
        directory.mkdir()
        if isinstance(source, GitSource):
            fetch_tree(
                source.address, source.commit, source.subdirectory, directory, scratch, timeout
            )
        else:
            file = scratch / "archive"
            download(source.archive, source.sha256, file, timeout)
            extract(file, source.subdirectory, directory, redact(source.archive))
        files = digest_tree(directory)
        # Before it is stored: what is not a model must not be found there by the next build.
        _check_model(directory, files, shown)
        return store.publish(key, directory, source.provenance(tree_digest(files)))


def _snapshot(source: DirectorySource, store: Store) -> FetchedModel:
    _require_directory(source.location)
    directory = store.keep_directory()
    try:
        files = _copy_tree(source.location, directory, store)
        tree = tree_digest(files)
        _check_model(directory, files, str(source.location))
        _require_tree(source.sha256, tree, str(source.location))
    except BaseException:
        remove_tree(directory)
        raise
    for name in files:
        # Read-only, like a model from the store: what was hashed is what all steps read.
        (directory / name).chmod(0o444)
    return FetchedModel(_directory_key(tree), directory, tree, None, source.provenance(tree))


def _copy_tree(source: Path, target: Path, store: Store) -> dict[str, FileDigest]:
    """Copies and hashes in one pass, so that the hash describes the copy."""
    files: dict[str, FileDigest] = {}
    total = 0
    with store.disk_errors(target):
        try:
            for name, file in open_tree(source):
                copy = target / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                with copy.open("xb") as opened:
                    files[name] = digest_stream(file, opened)
                total += files[name].size
                _check_size(len(files), total, source)
        except UnsafePathError as error:
            raise _refusal(source, error) from None
        except OSError as error:
            if error.filename is None or str(error.filename).startswith(str(target)):
                raise  # not the source but the store
            raise _unreadable(error) from error
    return files


def _check_size(count: int, total: int, source: Path) -> None:
    if count > MAX_MODEL_FILES or total > MAX_MODEL_BYTES:
        raise SourceError(
            f"{source} has more than {MAX_MODEL_FILES} files or {MAX_MODEL_BYTES} bytes; "
            "name the directory of the SavedModel itself"
        )


def _check_model(directory: Path, files: Mapping[str, FileDigest], shown: str) -> None:
    for name, file in files.items():
        if file.size < _LFS_POINTER_MAX_BYTES:
            with (directory / name).open("rb") as opened:
                if opened.read(len(_LFS_POINTER)) == _LFS_POINTER:
                    raise SourceError(
                        f"{shown}: {name!r} is a Git LFS pointer, not the file itself; pin an "
                        "archive or a directory that has the real files (`git lfs pull`)"
                    )
    if "saved_model.pb" not in files:
        raise SourceError(f"{shown} is not a SavedModel: {one_line(_what_is_there(files))}")


def _what_is_there(files: Mapping[str, FileDigest]) -> str:
    if "saved_model.pbtxt" in files:
        return "it has a saved_model.pbtxt but no saved_model.pb; save it in binary form"
    models = [str(Path(name).parent) for name in sorted(files) if name.endswith("/saved_model.pb")]
    if models:
        return "did you mean " + " or ".join(repr(model) for model in models[:3]) + " in it?"
    there = ", ".join(repr(name) for name in sorted(files)[:5]) or "nothing"
    return f"it has no saved_model.pb; there is {there}"


def _require_tree(expected: str | None, found: str, shown: str) -> None:
    if expected is not None and expected != found:
        raise SourceError(
            f"{shown}: expected tree SHA-256 {expected}, got {found}: "
            "the data changed or the pin is wrong"
        )


def _require_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    if directory.exists():
        raise SourceError(f"{directory} is a file; name the directory of the SavedModel")
    parent = directory.parent
    there = [path.name for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []
    near = difflib.get_close_matches(directory.name, there, n=1)
    hint = f"did you mean {str(parent / near[0])!r}?" if near else "correct the path"
    raise SourceError(f"there is no directory {directory}; {hint}")


def _directory_key(tree: str) -> str:
    return action_key("source-directory", tree_sha256=tree)


def _refusal(directory: Path, error: UnsafePathError) -> SourceError:
    return SourceError(f"{directory} is refused: {one_line(error)}; a model has regular files only")


def _unreadable(error: OSError) -> SourceError:
    return SourceError(
        f"cannot read {one_line(error.filename)}: {error.strerror}; correct its permissions"
    )
