"""Finds and downloads released wheels on package indexes."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag, sys_tags
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from ..errors import PublishError
from ..util.files import digest_file, replace, sync_file, write_atomically
from ..util.http import Patience
from ..util.unfinished import unfinished_file
from ..util.urls import redact
from ..util.watching import NOBODY, Watcher, each
from ..wheelfile.collect import find_distributions
from ..wheelfile.reports import COMPANIONS, write_upload
from .client import IndexedFile, PackageIndex
from .plan import KEEPS_VERSIONS


@dataclass(frozen=True)
class ReleasedFile:
    """A wheel or source distribution on an index."""

    name: str
    """Its file name."""
    version: Version
    file: IndexedFile


@dataclass(frozen=True)
class ReleasedWheel(ReleasedFile):
    """A wheel on an index."""

    tags: frozenset[Tag]


def open_index(url: str) -> PackageIndex:
    """The simple API of an index, read without credentials."""
    return PackageIndex(url, Patience(attempts=4, timeout=60))


def list_wheels(index: PackageIndex, project: str) -> list[ReleasedWheel]:
    """The wheels of a project, sorted by version; files with invalid names are skipped.

    Raises:
        PublishError: The index cannot be read.
    """
    wheels = []
    for name, file in (index.files(project) or {}).items():
        try:
            owner, version, _, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        if owner == canonicalize_name(project) and _is_plain(name):
            wheels.append(ReleasedWheel(name, version, file, tags))
    return sorted(wheels, key=lambda wheel: (wheel.version, wheel.name))


def _list_files(index: PackageIndex, project: str) -> list[ReleasedFile]:
    """The released files with source distributions, which come last."""
    sdists = []
    for name, file in (index.files(project) or {}).items():
        try:
            owner, version = parse_sdist_filename(name)
        except InvalidSdistFilename:
            continue
        if owner == canonicalize_name(project) and _is_plain(name):
            sdists.append(ReleasedFile(name, version, file))
    return [*list_wheels(index, project), *sorted(sdists, key=lambda sdist: sdist.version)]


def _is_plain(name: str) -> bool:
    """Whether a file of this name would be written into the directory, and not outside."""
    return "/" not in name and "\\" not in name


def find_newest(index: PackageIndex, project: str) -> ReleasedWheel | None:
    """The wheel of the newest version that this interpreter can install; None if there is none."""
    supported = {tag: rank for rank, tag in enumerate(sys_tags())}

    def fitness(wheel: ReleasedWheel) -> tuple[Version, int]:
        # Tags are ranked as pip does: the most specific one comes first.
        return wheel.version, -min(supported[tag] for tag in wheel.tags & supported.keys())

    usable = [wheel for wheel in list_wheels(index, project) if wheel.tags & supported.keys()]
    return max(usable, key=fitness, default=None)


def is_installable(tags: frozenset[Tag]) -> bool:
    """Whether this interpreter can install a wheel with one of these tags."""
    return not tags.isdisjoint(sys_tags())


def download_files(
    projects: Collection[str], index_urls: Sequence[str], out: Path, watcher: Watcher = NOBODY
) -> list[str]:
    """Downloads every released file of some projects, and the measurements stored beside it.

    Args:
        projects: Names of distributions.
        index_urls: Simple APIs. The first that has a file is used.
        out: A directory. Files in it are kept.
        watcher: Receives the name of each file on an index.

    Returns:
        The names of the downloaded files.

    Raises:
        PublishError: An index cannot be read, or two of them, or one and `out`, differ in a file.
    """
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        indexes = [stack.enter_context(open_index(url)) for url in index_urls]
        return [
            file.name
            for project in sorted(projects)
            for index in indexes
            for file in each(_list_files(index, project), lambda file: file.name, watcher)
            if _copy(index, file, out)
        ]


def add_measured(measured: Path, out: Path) -> None:
    """Puts measurements and signed statements of a release beside those of its wheels in `out` that have none.

    They come from the jobs of the release. Nothing else is taken from there, and nothing replaced: a
    job may have put anything into its artifact.

    Args:
        measured: A directory; if it is missing, nothing was measured.
        out: A directory of wheels.
    """
    for file in find_distributions([out], may_be_empty=True):
        for name in (file.name + suffix for suffix in COMPANIONS):
            source, target = measured / name, out / name
            if source.is_file() and not source.is_symlink() and not target.exists():
                shutil.copyfile(source, target)


def _copy(index: PackageIndex, released: ReleasedFile, out: Path) -> bool:
    target = out / released.name
    # A version never changes on an index, so what is here need not be downloaded again.
    if target.exists():
        if released.file.sha256 not in (None, digest_file(target).sha256):
            raise PublishError(
                f"{target} differs from the file of this name on {redact(index.url)}; {KEEPS_VERSIONS}",
                code="MW802",
            )
        return False
    with unfinished_file(target) as aside:
        index.download(released.file, aside)
        if released.file.uploaded is not None:
            write_upload(released.file.uploaded, target)
        for suffix in COMPANIONS:
            companion = index.find_beside(released.file, suffix)
            if companion is not None:
                write_atomically(target.with_name(released.name + suffix), companion)
        # The file comes last: as long as it is missing, the next run fetches its companions again.
        sync_file(aside)
        replace(aside, target)
    return True
