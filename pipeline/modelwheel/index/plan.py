"""Plans a publication: what to upload, what the index has already, and what it would refuse.

The index itself is the record of what is done, so that an interrupted publication can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    NormalizedName,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from ..assembly.manifest import Manifest
from ..errors import PublishError, UsageError, WheelError
from ..util.files import digest_file
from ..util.text import one_line
from ..util.urls import redact
from ..util.words import size_text
from ..wheelfile.collect import WHEEL
from ..wheelfile.contents import open_contents
from ..wheelfile.unverified import require_verified
from ..wheelfile.wheel import open_wheel
from .client import IndexedFile
from .release_list import ReleaseList

DEFAULT_MAX_BYTES = 100 << 20
"""PyPI's limit for a file, unless a project was granted more."""

KEEPS_VERSIONS = "a published version never changes: give the model a new version"

Page = Mapping[str, IndexedFile]
"""The files of a project on the index, by name."""


class Target(Protocol):
    """The destination of a publication, as far as a plan asks it: a package index, or a release on GitHub."""

    @property
    def url(self) -> str:
        """Its address."""

    def files(self, project: str) -> Page | None:
        """The files of a project by name; None if the project is new."""

    def sha256(self, file: IndexedFile) -> str:
        """The hash of what it serves, for a file whose hash it does not state."""


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
    """The steps of a publication; URLs are without credentials."""

    repository_url: str
    index_url: str
    new_projects: tuple[str, ...]
    """Names that the index does not have yet; public indexes allow few a day."""
    files: tuple[PlannedFile, ...]
    """In the order of their uploads: source distributions last."""
    problems: tuple[str, ...] = ()
    """What is wrong with the release as a whole, such as files that are missing."""
    warnings: tuple[str, ...] = ()
    """What users of the version before should know."""

    @property
    def wheels_to_upload(self) -> list[Path]:
        """The wheels that are new."""
        return [f.path for f in self.files if f.action == "upload" and f.path.suffix == WHEEL]

    @property
    def refused(self) -> list[str]:
        """Why nothing will be uploaded; empty if everything is acceptable."""
        files = [f"{one_line(f.name)}: {f.reason}" for f in self.files if f.action == "refuse"]
        return [*files, *self.problems]

    def require_acceptable(self) -> None:
        """Refuses a release if a single file is refused.

        Raises:
            PublishError: Names every such file.
        """
        if self.refused:
            raise PublishError("\n".join(self.refused), code="MW803")


@dataclass(frozen=True)
class Rules:
    """The rules of an index."""

    max_bytes: int = DEFAULT_MAX_BYTES
    max_project_bytes: int | None = None
    """All files of a project together; None without a limit."""
    any_index: bool = False
    """Whether it takes wheels with `linux_*` tags, which PyPI and most others refuse."""
    replaces: bool = False
    """Whether files with other contents are replaced: of a draft, which nobody could install."""


@dataclass(frozen=True)
class Release:
    """The files of a publication: all of one release, and nothing else."""

    listed: ReleaseList
    hashes: Mapping[str, str] | None = None
    """The SHA-256 of every file as the job that made it has handed it on; None if that is not known."""

    def find_problem(self, path: Path) -> str | None:
        """Why a file is not one of the release; it is not opened."""
        if self.listed.owner(path.name) is None:
            return f"is not on the list of the release {self.listed.tag}"
        if self.hashes is None:
            return None
        if path.name not in self.hashes:
            return "no job has handed it on"
        digest = digest_file(path).sha256
        if digest != self.hashes[path.name]:
            job = self.listed.owner(path.name)
            return f"has SHA-256 {digest}; the job {job} made {self.hashes[path.name]}"
        return None

    def find_problems(
        self, names: Sequence[str], page: Page, *, draft: bool = False
    ) -> Iterator[str]:
        """The problems of the files as a whole, and of what the index has of this version.

        Args:
            names: All files of the publication.
            page: What the index has of the project.
            draft: Whether that is not published, so that files may be added in any order.
        """
        tag = self.listed.tag
        yield from (
            f"{what} of the release {tag} is missing" for what in self.listed.missing(names)
        )
        yield from (f"{name} is there twice, under two names" for name in self.listed.twice(names))
        there = [name for name in page if _is_version(name, self.listed)]
        for name in sorted(set(there) - set(names)):
            yield f"the index has {one_line(name)} of this version, which is not part of {tag}; withdraw it"
        # Source distributions are uploaded last: where that is, the release is complete.
        if self.listed.sdist in there and not draft:
            for name in sorted(set(names) - set(there)):
                yield f"{name} is new for the released version {tag}; {KEEPS_VERSIONS}"


def _is_version(name: str, listed: ReleaseList) -> bool:
    """Whether a file on the index is of the version of a list; installers skip what has no valid name."""
    try:
        if name.endswith(WHEEL):
            version = parse_wheel_filename(name)[1]
        else:
            version = parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return False
    return version == Version(listed.version)


@dataclass(frozen=True)
class _Distribution:
    """A wheel or source distribution whose name and metadata agree."""

    path: Path
    project: NormalizedName
    version: str
    platforms: frozenset[str] = frozenset()
    manifests: tuple[Manifest, ...] = ()
    """Of a model; other distributions need no licence of weights."""


def make_plan(
    files: Sequence[Path],
    repository_url: str,
    index: Target,
    rules: Rules,
    release: Release | None = None,
) -> Plan:
    """Compares every file with what the index has; changes nothing.

    Args:
        files: Wheels and source distributions.
        repository_url: Where they will be posted.
        index: The index, or what else files are published to.
        rules: What it accepts.
        release: If given, refuses all files but those of this release. No other file is opened.

    Raises:
        UsageError: A file is given twice, or is not a distribution.
        WheelError: A file is damaged or was renamed.
        PublishError: The index cannot be read.
    """
    ordered = _in_order(files)
    refused = [refusal for path in ordered if (refusal := _refuse(path, release))]
    foreign = {refusal.path for refusal in refused}
    distributions = [_read_distribution(path) for path in ordered if path not in foreign]
    projects = {file.project for file in distributions} | (
        {release.listed.project} if release else set()
    )
    pages = {project: index.files(project) for project in sorted(projects)}
    planned = [_plan_file(file, pages[file.project] or {}, index, rules) for file in distributions]
    problems = list(_too_large(planned, pages, rules))
    if release:
        names = [file.path.name for file in distributions]
        page = pages[release.listed.project] or {}
        problems += release.find_problems(names, page, draft=rules.replaces)
    return Plan(
        redact(repository_url),
        redact(index.url),
        tuple(project for project, page in pages.items() if page is None),
        (*refused, *planned),
        tuple(problems),
    )


def _too_large(
    planned: Sequence[PlannedFile], pages: Mapping[str, Page | None], rules: Rules
) -> Iterator[str]:
    """A sentence for each project that would have more bytes than the index gives it."""
    for project, page in pages.items():
        there = sum(file.size or 0 for file in (page or {}).values())
        added = sum(f.size for f in planned if f.project == project and f.action == "upload")
        if rules.max_project_bytes is not None and there + added > rules.max_project_bytes:
            yield (
                f"{project} would have {size_text(there + added)} in all its versions; the index gives a project "
                f"{size_text(rules.max_project_bytes)}: remove old versions there, or ask it for more"
            )


def _refuse(path: Path, release: Release | None) -> PlannedFile | None:
    """The refusal of a file that is not part of the release."""
    reason = release.find_problem(path) if release else None
    if reason is None:
        return None
    digest = digest_file(path)
    return PlannedFile(path, "", "", digest.size, digest.sha256, "refuse", reason)


def _plan_file(distribution: _Distribution, page: Page, index: Target, rules: Rules) -> PlannedFile:
    digest = digest_file(distribution.path)
    listed = page.get(distribution.path.name)
    # An index need not state hashes (PEP 503); then the file is downloaded.
    same = listed is not None and (listed.sha256 or index.sha256(listed)) == digest.sha256
    action: Literal["upload", "skip", "refuse"] = "upload"
    if same:
        action, reason = "skip", "already on the index"
    elif listed is not None and not rules.replaces:
        action, reason = "refuse", f"on the index with different contents; {KEEPS_VERSIONS}"
    else:
        reason = "; ".join(_refusals(distribution, digest.size, rules))
        action = "refuse" if reason else "upload"
        if listed is not None and not reason:
            reason = "replaces other contents in the draft"
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
    if "+" in distribution.version and not rules.any_index:
        # The version specifiers of PyPA: "Local version identifiers SHOULD NOT be used when publishing
        # upstream projects to a public index server"; PyPI and others refuse them.
        yield (
            f"the version {distribution.version} has a local part, which public indexes refuse: set "
            "model.version without it (--any-index uploads it anyway)"
        )
    models = [manifest.model for manifest in distribution.manifests]
    if not all(model.publish for model in models):
        yield "its spec has `publish: false`: it is built and never released"
    elif any(model.weights_license is None for model in models):
        yield (
            "does not state the licence of the weights: set package.weights_license in the spec, such as CC-BY-4.0, or "
            "LicenseRef-NAME for one without an SPDX identifier, and build it again"
        )
    if size > rules.max_bytes:
        yield (
            f"is {size_text(size)}; the index accepts {size_text(rules.max_bytes)}: compile "
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
        require_verified(wheel)
        wheel.require_own_name()
        platforms = frozenset(tag.platform for tag in wheel.tags)
        manifests = (wheel.manifest,) if wheel.has_manifest else ()
        return _Distribution(path, wheel.distribution, str(wheel.version), platforms, manifests)
    try:
        project, version = parse_sdist_filename(path.name)
    except InvalidSdistFilename:
        raise UsageError(f"{path} is not a wheel or source distribution", code="MW209") from None
    contents = open_contents(path)
    metadata = contents.metadata
    if (canonicalize_name(metadata.name), metadata.version) != (project, version):
        raise WheelError(
            f"{path} contains {metadata.name} {metadata.version}; "
            "restore the file name that it was built with"
        )
    models = contents.manifests if contents.manifest_texts else ()
    return _Distribution(path, project, str(version), manifests=models)
