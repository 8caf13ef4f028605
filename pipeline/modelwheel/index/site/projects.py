"""Wheels by the model and version that they are of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from itertools import groupby

from packaging.version import Version

from ...assembly.manifest import Manifest
from .wheels import IndexedFile, IndexedWheel, ModelWheel


@dataclass(frozen=True)
class Release:
    """One version of a model."""

    version: Version
    wheels: tuple[ModelWheel, ...]
    sdist: IndexedFile | None
    """Its source distribution, if the index has it: what a Python without a wheel builds."""

    @property
    def files(self) -> list[IndexedFile]:
        """All files."""
        return [*self.wheels, *([self.sdist] if self.sdist is not None else [])]

    @property
    def manifest(self) -> Manifest:
        """The manifest of its first wheel; those of other platforms differ in their CPU levels and sizes."""
        return self.wheels[0].manifest

    @cached_property
    def time(self) -> datetime | None:
        """When its first file was uploaded; None if that is not known."""
        times = [wheel.uploaded for wheel in self.wheels if wheel.uploaded is not None]
        return min(times).astimezone(timezone.utc) if times else None

    @property
    def date(self) -> str:
        """The day, such as 2026-11-25; empty if it is not known."""
        return self.time.strftime("%Y-%m-%d") if self.time is not None else ""

    @property
    def levels(self) -> list[str]:
        """The CPU levels of all platforms, lowest first within each architecture."""
        return list(dict.fromkeys(level for w in self.wheels for level in w.manifest.levels))

    @cached_property
    def passed(self) -> bool | None:
        """Whether all wheels that were compared agree with their reference; None if none was compared."""
        verdicts = [wheel.report.passed for wheel in self.wheels if wheel.report]
        return all(verdicts) if verdicts else None


@dataclass(frozen=True)
class Project:
    """A model with all its versions."""

    name: str
    """Normalised as in PEP 503: what is installed (`model-digits`)."""
    releases: tuple[Release, ...]
    """Oldest first."""

    @property
    def newest(self) -> Release:
        """The version that pages show."""
        return self.releases[-1]

    @property
    def page(self) -> str:
        """The path of its page in the site."""
        return f"models/{self.name}.html"


def group_projects(indexed: Iterable[IndexedFile]) -> list[Project]:
    """The models of an index.

    Args:
        indexed: All files, sorted by project and version.
    """
    projects = []
    for name, of_project in groupby(indexed, key=lambda file: file.project):
        versions = groupby(of_project, key=lambda file: file.version)
        releases = tuple(filter(None, (_release(version, files) for version, files in versions)))
        if releases:
            projects.append(Project(name, releases))
    return projects


def _release(version: Version, files: Iterable[IndexedFile]) -> Release | None:
    """A version; None if it has no wheel of a model, as those of the runtime."""
    files = list(files)
    wheels = tuple(file for file in files if isinstance(file, ModelWheel))
    sdists = [file for file in files if not isinstance(file, IndexedWheel)]
    return Release(version, wheels, sdists[0] if sdists else None) if wheels else None
