"""Plans a publication: what to upload, what the index has already, and what it would refuse.

The index itself is the record of what is done, so that an interrupted publication can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from packaging.utils import (
    InvalidSdistFilename,
    NormalizedName,
    canonicalize_name,
    parse_sdist_filename,
)

from ..errors import PublishError, UsageError, WheelError
from ..util.files import digest_file
from ..util.urls import redact
from ..wheelfile.collect import WHEEL
from ..wheelfile.contents import open_contents
from ..wheelfile.wheel import open_wheel
from .client import IndexedFile, PackageIndex

DEFAULT_MAX_BYTES = 100 << 20
"""PyPI's limit for a file, unless a project was granted more."""

KEEPS_VERSIONS = "a published version never changes: give the model a new version"

Page = Mapping[str, IndexedFile]
"""The files of a project on the index, by name."""


@dataclass(frozen=True)
class PlannedFile:
    """One file of a release, and what will be done with it."""

    JSON_FIELDS: ClassVar = ("file", "project", "version", "size", "sha256", "action", "reason")

    path: Path
    project: str
    """Normalised, as the index names it."""
    version: str
    size: int
    """Bytes."""
    sha256: str
    action: Literal["upload", "skip", "refuse"]
    reason: str = ""
    """Why it is skipped or refused."""

    @property
    def file(self) -> str:
        """The file's name on the index."""
        return self.path.name

    name = file


@dataclass(frozen=True)
class Plan:
    """What a publication will do; URLs are without credentials."""

    repository_url: str
    index_url: str
    new_projects: tuple[str, ...]
    """Names that the index does not have yet; public indexes allow few a day."""
    files: tuple[PlannedFile, ...]
    """In the order of their uploads: source distributions last."""

    def require_acceptable(self) -> None:
        """Refuses a release if a single file is refused.

        Raises:
            PublishError: Names every such file.
        """
        refused = [file for file in self.files if file.action == "refuse"]
        if refused:
            raise PublishError("\n".join(f"{file.name}: {file.reason}" for file in refused))


@dataclass(frozen=True)
class Rules:
    """What an index accepts."""

    max_bytes: int = DEFAULT_MAX_BYTES
    any_index: bool = False
    """Whether it takes wheels with `linux_*` tags, which PyPI and most others refuse."""


@dataclass(frozen=True)
class _Distribution:
    """A wheel or source distribution whose name and metadata agree."""

    path: Path
    project: NormalizedName
    version: str
    platforms: frozenset[str] = frozenset()


def make_plan(
    files: Sequence[Path], repository_url: str, index: PackageIndex, rules: Rules
) -> Plan:
    """Compares every file with what the index has; changes nothing.

    Raises:
        UsageError: A file is given twice, or is not a distribution.
        WheelError: A file is damaged or was renamed.
        PublishError: The index cannot be read.
    """
    found = [_read_distribution(path) for path in _in_order(files)]
    pages = {project: index.files(project) for project in sorted({d.project for d in found})}
    return Plan(
        redact(repository_url),
        redact(index.url),
        tuple(project for project, page in pages.items() if page is None),
        tuple(_plan_file(one, pages[one.project] or {}, index, rules) for one in found),
    )


def _plan_file(
    distribution: _Distribution, page: Page, index: PackageIndex, rules: Rules
) -> PlannedFile:
    digest = digest_file(distribution.path)
    found = page.get(distribution.path.name)
    action: Literal["upload", "skip", "refuse"] = "upload"
    reason = ""
    if found is not None:
        # An index need not state hashes (PEP 503); then the file is downloaded.
        same = (found.sha256 or index.sha256(found)) == digest.sha256
        action = "skip" if same else "refuse"
        reason = (
            "already on the index"
            if same
            else f"on the index with different contents; {KEEPS_VERSIONS}"
        )
    else:
        reason = "; ".join(_refusals(distribution, digest.size, rules))
        action = "refuse" if reason else "upload"
    return PlannedFile(
        distribution.path,
        distribution.project,
        distribution.version,
        digest.size,
        digest.sha256,
        action,
        reason,
    )


def _refusals(distribution: _Distribution, size: int, rules: Rules) -> Iterator[str]:
    native = sorted(tag for tag in distribution.platforms if tag.startswith("linux_"))
    if native and not rules.any_index:
        # PEP 513: such a wheel may need any library of the machine that it was built on.
        yield (
            f"tagged {native[0]}: for this machine only; `modelwheel wheel` makes wheels to share "
            "(--any-index uploads it anyway)"
        )
    if size > rules.max_bytes:
        yield (
            f"is {size / 2**20:.1f} MiB; the index accepts {rules.max_bytes / 2**20:.1f} MiB: compile "
            "fewer levels or batch sizes, or ask the index for more and pass --max-size"
        )


def _in_order(files: Sequence[Path]) -> list[Path]:
    """Wheels by name, then source distributions: pip should not build what is about to arrive."""
    seen: set[str] = set()
    for path in files:
        if path.name in seen:
            raise UsageError(f"{path.name} is given twice; a release has one file of each name")
        seen.add(path.name)
    return sorted(files, key=lambda path: (path.suffix != WHEEL, path.name))


def _read_distribution(path: Path) -> _Distribution:
    if path.suffix == WHEEL:
        wheel = open_wheel(path)
        wheel.require_own_name()
        platforms = frozenset(tag.platform for tag in wheel.tags)
        return _Distribution(path, wheel.distribution, str(wheel.version), platforms)
    try:
        project, version = parse_sdist_filename(path.name)
    except InvalidSdistFilename:
        raise UsageError(f"{path} is not a wheel or source distribution") from None
    metadata = open_contents(path).metadata
    if (canonicalize_name(metadata.name), metadata.version) != (project, version):
        raise WheelError(
            f"{path} contains {metadata.name} {metadata.version}; "
            "restore the file name that it was built with"
        )
    return _Distribution(path, project, str(version))
