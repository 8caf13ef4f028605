"""Fetches a pinned model from a repository, a download or a local directory.

A model is a directory with a SavedModel or with the one file of a model, or that file; the tree of a file has that
file alone. Further files that a spec names, or an ONNX file refers to, are in the tree, too: at the top, by their base
names.

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

import fnmatch
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..errors import SourceError, UnsupportedModelError
from ..spec.formats import FORMATS
from ..spec.sources import (
    AnySource,
    DirectorySource,
    DownloadSource,
    RepositorySource,
)
from ..store.keys import action_key
from ..store.records import Record
from ..store.store import Store
from ..util.files import FileDigest
from ..util.removal import remove_tree
from ..util.text import one_line
from ..util.trees import digest_tree
from ..util.urls import redact
from ..util.words import first_few
from .archive import extract
from .directory import copy_files, digest_files, is_file, list_files, with_references
from .download import Tell, Transfer, tell_nobody
from .foreign import explain_directory, explain_file, readable_files
from .git.fetching import fetch_tree
from .git.lfs import fill, read_pointer
from .git.worktree import Worktree
from .hosts.huggingface import remote_of
from .kept import Kept
from .obtain import obtain
from .placement import Placement
from .references import has_references, references_of
from .rules import Tally

FETCH_TIMEOUT = 900.0
"""Seconds that one download may take."""

_DOWNLOADED, _BESIDE = "downloaded", "beside"
"""The names of a downloaded file, and of the directory with those beside it."""
_SHOWN = 5
"""Models that a sentence names."""


@dataclass(frozen=True)
class FetchedModel:
    """A verified model that does not change any more."""

    key: str
    """Its origin and content in the keys of later steps; the same as `source_key` returns."""
    directory: Path
    """The SavedModel, or the directory with the model's file; read-only, removed when this process ends or the store is closed."""
    tree_sha256: str
    """The tree hash; see the module's description."""
    commit: str | None
    """The git commit it comes from."""
    provenance: Mapping[str, str]
    """Where it comes from, without credentials and without paths of this machine."""
    file: str = ""
    """The model's file, if the source is a directory that holds the model in one."""


def fetch(
    source: AnySource, store: Store, timeout: float = FETCH_TIMEOUT, tell: Tell = tell_nobody
) -> FetchedModel:
    """Fetches a model, or takes it from the store, and verifies it.

    A local directory is read each time, and copied while it is hashed: later changes in it do not
    affect the result.

    Args:
        source: What to fetch.
        store: Keeps what was downloaded.
        timeout: Seconds that one download may take.
        tell: Receives how much of a download has arrived.

    Raises:
        SourceError: It cannot be fetched, is not what was pinned, or is a directory without a
            SavedModel.
        UnsupportedModelError: It is a model of a format that is not read; the message says how to export it.
        StoreError: The store cannot be used.
    """
    transfer = Transfer(timeout, tell, Kept(store.stopped_downloads))
    if isinstance(source, DirectorySource):
        return _snapshot(source, store, transfer)
    key = source_key(source)
    # Without the lock first: a store that is read-only serves what it has.
    record = store.lookup(key)
    if record is None:
        # Two builds that need the same model download it once.
        with store.lock(key):
            record = store.lookup(key) or _download(source, store, key, transfer)
    tree = tree_digest(record.files)
    commit = source.commit if isinstance(source, RepositorySource) else None
    if isinstance(source, RepositorySource):
        # The pinned hash is not in the key, so a model from the store is compared with it, too.
        _require_tree(source.sha256, tree, str(source))
    directory = store.keep_directory()
    store.materialize(record, directory, link=True)
    file = _held_file(source, record.files)
    return FetchedModel(key, directory, tree, commit, source.provenance(tree), file)


def source_key(source: AnySource) -> str:
    """The key of a source in the store, without fetching it; a local directory is hashed.

    Raises:
        SourceError: A local directory cannot be read, or contains anything but regular files.
    """
    if isinstance(source, RepositorySource):
        # Redacted, because another password or token does not make it another source.
        url, path = redact(source.address), source.subdirectory
        return action_key("source-git", url=url, commit=source.commit, path=path, **_extras(source))
    if isinstance(source, DownloadSource):
        # Without the address: the same content may move to another one.
        path = source.subdirectory
        if source.is_archive:
            return action_key("source-archive", sha256=source.sha256, path=path, **_extras(source))
        fields = {"sha256": source.sha256, "name": source.file_name, "beside": source.others}
        return action_key("source-file", **fields, **_extras(source))
    return _directory_key(_hash(source))


def _extras(source: RepositorySource | DownloadSource) -> dict[str, list[str]]:
    extras = [str(extra) for extra in source.extras]
    # The files of weights are known only once the model is there: this says that they are looked for.
    extras += ["references"] if has_references(source) else []
    # The key of a model without any is the one that stores have.
    return {"extras": extras} if extras else {}


@dataclass(frozen=True)
class KnownModel:
    """The facts about a model that is not fetched."""

    key: str
    """As `FetchedModel.key`."""
    tree_sha256: str | None
    """The tree hash, or None if it takes a download to know it."""
    provenance: Mapping[str, str]
    """As `FetchedModel.provenance`, if the tree hash is known."""
    file: str = ""
    """As `FetchedModel.file`, if the tree hash is known."""
    files: Mapping[str, FileDigest] = field(default_factory=dict)
    """The files of the tree, if its hash is known."""


def look_up(source: AnySource, store: Store) -> KnownModel:
    """The facts about a model, without fetching it.

    A local directory is hashed; anything else is known if it was fetched before.

    Raises:
        SourceError: A local directory cannot be read, or contains anything but regular files.
    """
    if isinstance(source, DirectorySource):
        files = _digest(source)
        digest, file = tree_digest(files), _held_file(source, files)
        return KnownModel(_directory_key(digest), digest, source.provenance(digest), file, files)
    key = source_key(source)
    record = store.peek(key)
    if record is None:
        return KnownModel(key, None, source.provenance(""))
    tree = tree_digest(record.files)
    held = _held_file(source, record.files)
    return KnownModel(key, tree, source.provenance(tree), held, record.files)


def is_at_hand(source: AnySource, store: Store) -> bool:
    """Whether `fetch` has nothing to download."""
    return isinstance(source, DirectorySource) or store.contains(source_key(source))


def tree_sha256(directory: Path) -> str:
    """The tree hash of a directory, as described above.

    Raises:
        SourceError: It cannot be read, or contains anything but regular files with portable names.
    """
    return _hash(DirectorySource.at(directory))


def _hash(source: DirectorySource) -> str:
    return tree_digest(_digest(source))


def _digest(source: DirectorySource) -> dict[str, FileDigest]:
    return digest_files(with_references(source))


def tree_digest(files: Mapping[str, FileDigest]) -> str:
    """The tree hash of files by their paths."""
    lines = (
        # Specs and manifests hold hashes of this form: a change of one byte would break every pin.
        f"{file.sha256} {file.size} {name}\n".encode()
        for name, file in sorted(files.items(), key=lambda item: item[0].encode())
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _download(
    source: RepositorySource | DownloadSource, store: Store, key: str, transfer: Transfer
) -> Record:
    shown = str(source)
    with store.scratch() as scratch, store.disk_errors(scratch):
        if isinstance(source, DownloadSource):
            obtain(source, scratch / _DOWNLOADED, scratch / _BESIDE, transfer)
        directory = scratch / "model"
        is_file = _write(source, directory, scratch, transfer)
        if is_file and has_references(source):
            with (directory / source.file_name).open("rb") as opened:
                references = references_of(source, opened)
            if references:
                # Once more, with all its files; nothing that is there is transferred again.
                directory = scratch / "whole"
                _write(source.with_extras(*references), directory, scratch, transfer)
        files = digest_tree(directory)
        # Before it is stored: what is not a model must not be found there by the next build.
        _refuse_pointers(directory, files, shown)
        if is_file:
            _refuse_foreign(source, directory / source.file_name)
        elif isinstance(source, DownloadSource):
            _require_model(source, files, shown)
        return store.publish(key, directory, source.provenance(tree_digest(files)))


def _write(
    source: RepositorySource | DownloadSource,
    directory: Path,
    scratch: Path,
    transfer: Transfer,
) -> bool:
    """Writes the files into a new directory; whether the model is a file."""
    directory.mkdir()
    if isinstance(source, RepositorySource):
        place = (remote_of(source), source.commit, source.subdirectory)
        judge = partial(_require_model, source, shown=str(source))
        return fetch_tree(*place, directory, scratch, transfer, source.extras, judge)
    downloaded, shown = scratch / _DOWNLOADED, source.shown
    if source.is_archive:
        return extract(downloaded, source.subdirectory, directory, shown, source.extras)
    _write_single(source, directory, downloaded, scratch / _BESIDE)
    return True


def _write_single(source: DownloadSource, directory: Path, downloaded: Path, beside: Path) -> None:
    placement, tally = Placement(source.file_name, source.extras, source.shown), Tally()
    files = {source.file_name: downloaded, **{name: beside / name for name in source.others}}
    missing = [extra for extra in source.extras if not any(map(extra.matches, files))]
    if missing:
        raise SourceError(
            f"{source.shown} needs {first_few(map(str, missing))} beside it; pin each file: "
            f"beside: {{{missing[0].path}: SHA256}} (`sha256sum FILE` prints it)"
        )
    for name, file in files.items():
        tally.count(file.stat().st_size)
        for placed in placement.place(name):
            tally.add(placed)
            (directory / placed).hardlink_to(file)


def _snapshot(source: DirectorySource, store: Store, transfer: Transfer) -> FetchedModel:
    shown = str(source.location)
    # Before a byte is copied.
    names = list_files(source)
    with store.scratch() as scratch:
        if is_file(source):
            content = _fetch_model(source, scratch, transfer)
            _refuse_foreign(source, content or source.location, may_read=source.is_own)
            source = with_references(source, content)
            list_files(source)
        else:
            _require_model(source, names, shown, may_list=source.is_own)
        copy = store.keep_directory()
        try:
            with store.disk_errors(copy):
                files = copy_files(source, copy)
                files |= _fetch_pointers(source, copy, files, scratch, transfer)
            tree = tree_digest(files)
            _require_tree(source.sha256, tree, shown, may_tell=source.is_own)
        except BaseException:
            remove_tree(copy)
            raise
    for name in files:
        # Read-only, like a model from the store: what was hashed is what all steps read.
        (copy / name).chmod(0o444)
    provenance, file = source.provenance(tree), _held_file(source, files)
    return FetchedModel(_directory_key(tree), copy, tree, None, provenance, file)


def _fetch_model(source: DirectorySource, scratch: Path, transfer: Transfer) -> Path | None:
    """The file of a model in place of whose content git has a pointer; None for every other one."""
    if not source.is_own or read_pointer(source.location) is None:
        return None
    alone = scratch / "pointer"
    alone.mkdir()
    copied = copy_files(source, alone)
    _fetch_pointers(source, alone, copied, scratch, transfer)
    return alone / source.file_name


def _fetch_pointers(
    source: DirectorySource,
    copy: Path,
    files: Mapping[str, FileDigest],
    scratch: Path,
    transfer: Transfer,
) -> dict[str, FileDigest]:
    """Fetches what Git LFS has of a copy of a directory in a checkout; the digests of these files."""
    pointers = {
        name: pointer for name in files if (pointer := read_pointer(copy / name)) is not None
    }
    if pointers:
        checkout = Worktree.around(source.root) if source.is_own else None
        if checkout is None:
            raise _pointer_error(str(source.location), next(iter(pointers)))
        fill(copy, list(pointers), checkout.lfs_origin(), scratch / "lfs", transfer)
    return pointers


def _refuse_pointers(directory: Path, files: Mapping[str, FileDigest], shown: str) -> None:
    for name in files:
        if read_pointer(directory / name) is not None:
            raise _pointer_error(shown, name)


def _pointer_error(shown: str, name: str) -> SourceError:
    return SourceError(
        f"{shown}: {name!r} is a Git LFS pointer, not the file itself; name the repository by `git`, which fetches it, "
        "or put the file there (`git lfs pull`)",
        code="MW303",
    )


def _refuse_foreign(source: AnySource, file: Path, *, may_read: bool = True) -> None:
    """Refuses a file that has the ending of no format, unless the spec says what it is."""
    if source.format is None and not source.is_file:
        refusal = explain_file(file.name, file if may_read else None)
        if refusal is not None:
            raise UnsupportedModelError(refusal)


def _require_model(
    source: AnySource, files: Collection[str], shown: str, *, may_list: bool = True
) -> None:
    """Refuses a directory without the file that models of its format have at the top."""
    model_format = FORMATS[source.model_format]
    directory = model_format.directory
    if directory is None:
        raise SourceError(
            f"{shown} is a directory; name the {model_format.title} file in it", code="MW308"
        )
    if fnmatch.filter((name for name in files if "/" not in name), directory.holds):
        return
    held = _held_files(source, files)
    if len(held) == 1:
        return
    # A spec may name any directory of the machine: its author need not be allowed to list it.
    there = f"it has no {directory.holds}"
    refusal = explain_directory(shown, files) if may_list else None
    if refusal is not None:
        raise UnsupportedModelError(refusal)
    if may_list and held:
        shown_files = ", ".join(repr(name) for name in held[:_SHOWN])
        more = f" and {len(held) - _SHOWN} more" if held[_SHOWN:] else ""
        raise SourceError(
            f"{shown} is not {directory.title} and has {len(held)} models: {one_line(shown_files)}{more}; name one of them by source.path",
            code="MW308",
        )
    if may_list:
        named = source.format is not None
        there = one_line(_what_is_there(files, there, () if named else readable_files(files)))
    raise SourceError(f"{shown} is not {directory.title}: {there}", code="MW308")


def _held_files(source: AnySource, files: Collection[str]) -> list[str]:
    """The files at the top of a directory that are models by their names; none if it is a SavedModel."""
    own = FORMATS["saved_model"].directory
    if source.model_format != "saved_model" or source.format or own is None or own.holds in files:
        return []
    # A text is more often the Config of a graph than a graph.
    return [
        name for name in readable_files(files) if "/" not in name and not name.endswith(".pbtxt")
    ]


def _held_file(source: AnySource, files: Collection[str]) -> str:
    held = _held_files(source, files)
    return held[0] if len(held) == 1 else ""


def _what_is_there(files: Collection[str], missing: str, others: Collection[str]) -> str:
    if "saved_model.pbtxt" in files:
        return "it has a saved_model.pbtxt but no saved_model.pb; save it in binary form"
    models = [str(Path(name).parent) for name in sorted(files) if name.endswith("/saved_model.pb")]
    near = [*models, *others][:3]
    if near:
        return f"did you mean {' or '.join(map(repr, near))} in it?"
    there = ", ".join(repr(name) for name in sorted(files)[:5]) or "nothing"
    return f"{missing}; there is {there}"


def _require_tree(expected: str | None, actual: str, shown: str, *, may_tell: bool = True) -> None:
    if expected is not None and expected != actual:
        got = f"got {actual}" if may_tell else "which it does not have"
        raise SourceError(
            f"{shown}: expected tree SHA-256 {expected}, {got}: the data changed or the pin is wrong",
            code="MW302",
        )


def _directory_key(tree: str) -> str:
    return action_key("source-directory", tree_sha256=tree)
