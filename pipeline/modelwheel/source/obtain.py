"""Obtains the files of a source that is downloaded: finds their places, and downloads them.

A new kind of source has a class in `spec/sources` and a row in `_FINDERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..spec.sources import (
    ArchiveSource,
    DownloadSource,
    FileSource,
    GitHubReleaseSource,
    PyPISource,
    SingleSource,
    ZenodoSource,
)
from .download import Place, Transfer, download, open_reader
from .hosts import github, python_index, zenodo
from .hosts.objects import download_object, is_object

if TYPE_CHECKING:
    from ..util.http import Reader

Locate = Callable[[str], Place]
"""Where a file is; the name is that of the source's own file, or of one beside it."""


def _at_url(source: Any, _reader: Reader, _timeout: float) -> Locate:
    if isinstance(source, ArchiveSource):
        return lambda _: Place(source.archive)
    own = source.remote_name
    return lambda name: Place(source.file) if name == own else place_beside(source.file, name)


def place_beside(url: str, name: str) -> Place:
    """Where a file is whose name is relative to that of another one."""
    # Without a query, which is valid for that one alone.
    base = url.partition("?")[0].rpartition("/")[0]
    # Object stores have no escapes in their addresses.
    return Place(f"{base}/{name if is_object(url) else quote(name)}")


_FINDERS: Mapping[type[DownloadSource], Callable[[Any, Reader, float], Locate]] = {
    ArchiveSource: _at_url,
    FileSource: _at_url,
    ZenodoSource: lambda *arguments: zenodo.read_record(*arguments).place,
    GitHubReleaseSource: lambda *arguments: github.Release(*arguments).place,
}


def obtain(source: DownloadSource, file: Path, beside: Path, transfer: Transfer) -> None:
    """Downloads a source's file to `file`, and those beside it into the directory `beside`.

    Raises:
        SourceError: One cannot be downloaded, or is not what was pinned.
    """
    indexes = python_index.find_indexes() if isinstance(source, PyPISource) else None
    connection = (indexes.certificates, indexes.proxies) if indexes else ()
    with open_reader(transfer.timeout, *connection) as reader:
        if isinstance(source, PyPISource) and indexes:
            place = python_index.locate(source, reader, indexes, transfer.timeout)
            locate: Locate = lambda _: place
        else:
            locate = _FINDERS[type(source)](source, reader, transfer.timeout)
        wanted = {_name_of(source): (source.sha256, file)}
        for name, sha256 in source.others.items():
            wanted[name] = (sha256, beside / name)
        for name, (sha256, target) in wanted.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            at = locate(name)
            obtain_place(at, sha256, target, transfer, reader)


def obtain_place(
    place: Place,
    sha256: str | None,
    target: Path,
    transfer: Transfer,
    reader: Reader,
) -> None:
    """Downloads one file from any kind of address.

    Raises:
        SourceError: It cannot be downloaded, or is not what was pinned.
    """
    if is_object(place.url):
        download_object(place.url, sha256, target, transfer)
    else:
        download(place, sha256, target, transfer, reader)


def _name_of(source: DownloadSource) -> str:
    return source.remote_name if isinstance(source, SingleSource) else ""
