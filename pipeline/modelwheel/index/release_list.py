"""The list that the jobs of a release agree on: which files there will be, and which job makes each of them.

It is made from the spec alone, before anything that could be hostile runs. GitHub keeps it, and the
hashes that each job hands on, as outputs of jobs: nothing that runs in one job can change those of another,
while every job of a run can delete and replace the artifacts of all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, Field, ValidationError

from ..errors import PublishError, UsageError
from ..packaging.checksums import parse_checksums
from ..util.records import JsonRecord, first_mistake
from ..util.text import one_line

SDIST_JOB = "sdist"
"""The job that makes the source distribution; all others are named after what they build wheels for."""

_T = TypeVar("_T", bound=BaseModel)


class WheelJob(JsonRecord):
    """The work of one job: the wheels of one project for one platform."""

    name: str
    """Of the job and its artifacts (`musllinux-x86_64`)."""
    runner: str
    """GitHub's label of the machine."""
    tag: str
    """How build identifiers of cibuildwheel end (`musllinux_x86_64`)."""
    build: str
    """Build identifiers, separated by blanks."""
    pythons: tuple[str, ...]
    """Python and ABI tags of the wheels, one wheel for each (`cp314-cp314t`, `py3-none`)."""
    sdist: str
    """The file name of the source distribution."""

    def slot(self, wheel: str) -> str | None:
        """Which of `pythons` a wheel is by its file name; None if it is not a wheel of this job."""
        try:
            _, _, build, tags = parse_wheel_filename(wheel)
        except InvalidWheelFilename:
            return None
        pythons = {f"{tag.interpreter}-{tag.abi}" for tag in tags}
        # Exactly, where names and versions have several spellings: each would be another file on the index.
        stem = self.sdist.removesuffix(".tar.gz")
        if (
            build
            or not wheel.startswith(f"{stem}-")
            or len(pythons) != 1
            or not pythons <= set(self.pythons)
            or not all(self._runs_here(tag) for tag in tags)
        ):
            return None
        return pythons.pop()

    def _runs_here(self, tag: Tag) -> bool:
        # Repairing a wheel names the oldest C library or macOS: manylinux_2_28_x86_64, macosx_11_0_arm64.
        system, _, machine = self.tag.partition("_")
        return tag.platform == self.tag or (
            tag.platform.startswith(system) and tag.platform.endswith(f"_{machine}")
        )


class ReleaseList(JsonRecord):
    """The files of one version of one project."""

    JSON_INDENT = None

    tag: str
    """`NAME-VERSION`."""
    project: str
    """Normalised, as indexes name it."""
    version: str
    sdist: str
    """The file name of the source distribution."""
    jobs: dict[str, WheelJob] = Field(min_length=1)
    """The jobs that build wheels, by name."""

    def owner(self, file: str) -> str | None:
        """The job that makes a file; None if the file is not on the list."""
        if file == self.sdist:
            return SDIST_JOB
        return next((name for name, job in self.jobs.items() if job.slot(file)), None)

    def missing(self, files: Iterable[str]) -> list[str]:
        """The wheels that the list has and these files lack, in words."""
        names = list(files)
        missing = [] if self.sdist in names else [self.sdist]
        for name, job in self.jobs.items():
            slots = {job.slot(file) for file in names}
            missing += [f"the wheel {p} of {name}" for p in job.pythons if p not in slots]
        return missing

    def twice(self, files: Iterable[str]) -> list[str]:
        """Files of which another one has the place on the list."""
        seen: set[tuple[str, str | None]] = set()
        repeated = []
        for file in files:
            owner = self.owner(file)
            place = (owner or file, self.jobs[owner].slot(file) if owner in self.jobs else None)
            if place in seen:
                repeated.append(file)
            seen.add(place)
        return repeated


def version_of(tag: str, name: str) -> Version | None:
    """The version that a tag of a model names; None if it is not one of this model."""
    prefix = f"{name}-"
    # Names may have hyphens and digits, so a tag is compared and not split.
    if not tag.startswith(prefix):
        return None
    try:
        return Version(tag.removeprefix(prefix))
    except InvalidVersion:
        return None


def read_list(text: str) -> ReleaseList:
    """Parses a list: JSON, or the name of a file with it.

    Raises:
        UsageError: It is something else.
    """
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"--list: cannot read {one_line(text)}: {error}") from None
    return _parse(ReleaseList, text, "the list of `modelwheel plan --release-list`")


def read_job(text: str) -> WheelJob:
    """Parses one job of a list, as `toJSON` in a workflow writes it.

    Raises:
        UsageError: The text is something else.
    """
    return _parse(WheelJob, text, "a job of `modelwheel plan --release-list`")


def read_hashes(listed: ReleaseList, needs: str) -> dict[str, str]:
    """The SHA-256 of every file of a release, as the job that made it has handed it on.

    Args:
        listed: The list.
        needs: GitHub's context `needs` as JSON: `{"JOB": {"outputs": {"sums": "HASH  NAME"}}}`.

    Raises:
        UsageError: The text is something else.
        PublishError: A job names a file that is not its own, or lacks one of its files.
    """
    try:
        jobs = json.loads(needs)
        texts = {name: job.get("outputs", {}).get("sums", "") for name, job in jobs.items()}
        sums = {name: parse_checksums(text.encode()) for name, text in texts.items()}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise UsageError(
            '--github-needs is not the JSON of GitHub\'s `needs`: {"JOB": {"outputs": {"sums": "HASH  NAME"}}}'
        ) from None
    hashes = {}
    for job, files in sums.items():
        for file, sha256 in files.items():
            owner = listed.owner(file)
            if owner != job:
                whose = f"belongs to the job {owner}" if owner else "is not on the list"
                raise PublishError(
                    f"the job {one_line(job)} hands on {one_line(file)}, which {whose} of {listed.tag}",
                    code="MW805",
                )
            hashes[file] = sha256
    problems = [f"{one_line(file)} twice" for file in listed.twice(hashes)]
    problems += [f"no hash of {name}" for name in listed.missing(hashes)]
    if problems:
        raise PublishError(f"the jobs of {listed.tag} hand on {', '.join(problems)}", code="MW805")
    return hashes


def _parse(kind: type[_T], text: str, what: str) -> _T:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise UsageError(f"this is not {what}: {first_mistake(error)}") from None
