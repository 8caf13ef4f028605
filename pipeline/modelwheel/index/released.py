"""What package indexes hold of released models, and copies of it: nothing is taken that is not as promised."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag, sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from ..errors import PublishError
from ..util.files import digest_file
from ..util.urls import redact
from ..wheelfile.reports import COMPANIONS
from .client import IndexedFile, PackageIndex, Patience


@dataclass(frozen=True)
class ReleasedWheel:
    """A wheel on an index."""

    name: str
    """Its file name."""
    version: Version
    tags: frozenset[Tag]
    file: IndexedFile


@contextmanager
def open_index(url: str) -> Iterator[PackageIndex]:
    """The simple API of an index, asked without credentials."""
    index = PackageIndex(url, Patience(attempts=4, timeout=60), "", lambda: None)
    try:
        yield index
    finally:
        index.close()


def list_wheels(index: PackageIndex, project: str) -> list[ReleasedWheel]:
    """The wheels of a project in the order of their versions; what is misnamed is left out.

    Raises:
        PublishError: The index cannot be asked.
    """
    found = []
    for name, file in (index.files(project) or {}).items():
        if "/" in name or "\\" in name:
            continue
        try:
            owner, version, _, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        if owner == canonicalize_name(project):
            found.append(ReleasedWheel(name, version, tags, file))
    return sorted(found, key=lambda wheel: (wheel.version, wheel.name))


def find_newest(index: PackageIndex, project: str) -> ReleasedWheel | None:
    """The wheel of the newest version that this interpreter can install; None if there is none."""
    supported = {tag: rank for rank, tag in enumerate(sys_tags())}

    def fitness(wheel: ReleasedWheel) -> tuple[Version, int]:
        return wheel.version, -min(supported[tag] for tag in wheel.tags & supported.keys())

    usable = [wheel for wheel in list_wheels(index, project) if wheel.tags & supported.keys()]
    return max(usable, key=fitness, default=None)


def is_installable(tags: frozenset[Tag]) -> bool:
    """Whether this interpreter can install a wheel with one of these tags."""
    return not tags.isdisjoint(sys_tags())


def download_wheels(projects: Collection[str], index_urls: Sequence[str], out: Path) -> list[str]:
    """Copies every released wheel of some projects, with what was measured where that is beside it.

    Args:
        projects: Names of distributions.
        index_urls: Simple APIs; what an earlier one has is not taken from a later one.
        out: A directory; wheels that are there already stay.

    Returns:
        The names of the wheels that were copied.

    Raises:
        PublishError: An index fails, or has other bytes for a file than another one or `out`.
    """
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        indexes = [stack.enter_context(open_index(url)) for url in index_urls]
        return [
            wheel.name
            for project in sorted(projects)
            for index in indexes
            for wheel in list_wheels(index, project)
            if _copy(index, wheel, out)
        ]


def _copy(index: PackageIndex, wheel: ReleasedWheel, out: Path) -> bool:
    target = out / wheel.name
    if target.exists():
        if wheel.file.sha256 not in (None, digest_file(target).sha256):
            raise PublishError(
                f"{target} is not the file that {redact(index.url)} has under this name; a released "
                "version is never changed: give the model a new version"
            )
        return False
    aside = out / f".{wheel.name}.part"
    try:
        index.download(wheel.file, aside)
        for suffix in COMPANIONS:
            companion = index.find_beside(wheel.file, suffix)
            if companion is not None:
                target.with_name(wheel.name + suffix).write_bytes(companion)
        aside.rename(target)
    finally:
        aside.unlink(missing_ok=True)
    return True
