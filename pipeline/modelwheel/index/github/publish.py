"""Publishes a release on GitHub: a draft, its files, a comparison by digest, and then nothing changes any more.

Drafts come first because releases can be immutable: what is not in one when it is published never gets in. An interrupted
publication is simply repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from ...errors import PublishError, UsageError
from ...util.files import digest_file
from ...util.http import Patience
from ...util.text import one_line
from ...util.unfinished import temporary_directory
from ...util.words import count
from ..entries import ENTRIES, read_entry, write_entries
from ..order import warn_of_order
from ..plan import KEEPS_VERSIONS, Plan, PlannedFile, Rules, make_plan
from ..plan import Release as Bound
from ..released import open_index
from .api import GitHub, Report, web_url
from .release import MAX_ASSETS, MAX_BYTES, Release

if TYPE_CHECKING:
    from typing_extensions import Self


class GithubPublisher:
    """The release of one tag; see `modelwheel.index.publish.Publisher`, which does the same with a package index.

    Args:
        repository: OWNER/REPOSITORY.
        tag: The tag; by default that of the files.
        rules: What is accepted; files of a draft are replaced.
        token: By default GITHUB_TOKEN.
        index_url: The simple API of the site, where earlier versions are.
        patience: How failed requests are repeated.
        report: Receives progress, a line at a time.
    """

    def __init__(
        self,
        repository: str,
        *,
        tag: str | None = None,
        index_url: str | None = None,
        rules: Rules | None = None,
        token: str | None = None,
        patience: Patience | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._tag = tag
        self._rules = rules or Rules(MAX_BYTES)
        self._report: Report = report
        self._github = GitHub(repository, token=token, patience=patience, report=report)
        self._release: Release | None = None
        self._read = cache(read_entry)
        self._open = ExitStack()
        self._open.enter_context(self._github)
        self._index = None if index_url is None else self._open.enter_context(open_index(index_url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def release(self) -> Release:
        """The release that was planned."""
        assert self._release is not None
        return self._release

    def plan(self, files: Sequence[Path], bound: Bound | None = None) -> Plan:
        """Compares every file with what the release has; changes nothing.

        Raises:
            UsageError: The files are not of one release, or not of this tag.
            WheelError: A file is damaged or was renamed.
            PublishError: GitHub cannot be read.
        """
        tag = self._tag or (bound.listed.tag if bound else None) or self._common_tag(files)
        release = self._release = Release(self._github, tag)
        draft = release.state != "published"
        url = f"{web_url()}/{self._github.repository}/releases/tag/{tag}"
        planned = make_plan(files, url, release, replace(self._rules, replaces=draft), bound)
        named = tuple(_named(file, release) for file in planned.files)
        problems = [*planned.problems, *_limits(planned.files), *self._others(planned.files)]
        if not planned.refused:
            problems += self._foreign(planned.files, tag)
        planned = replace(
            planned, index_url=url, new_projects=(), files=named, problems=tuple(problems)
        )
        wheels = planned.wheels_to_upload
        warnings = () if self._index is None else tuple(warn_of_order(wheels, self._index))
        return replace(planned, warnings=warnings)

    def _common_tag(self, files: Sequence[Path]) -> str:
        """The tag of files that are of one release."""
        tags = sorted({self._read(path)[0] for path in files})
        if len(tags) != 1:
            raise UsageError(
                f"a release on GitHub is of one model, but these files are of {', '.join(tags)}; publish them one by one"
            )
        return tags[0]

    def _foreign(self, files: Sequence[PlannedFile], tag: str) -> Iterator[str]:
        for file in files:
            other, _ = self._read(file.path)
            if other != tag:
                yield f"{one_line(file.name)}: is of {one_line(other)}, not of {one_line(tag)}"

    def _others(self, files: Sequence[PlannedFile]) -> list[str]:
        """Sentences about files that the release has and that are not published now."""
        release = self.release
        names = {file.name for file in files} | {f"{release.tag}{ENTRIES}"}
        others = sorted(name for name, a in release.assets.items() if a.whole and name not in names)
        if release.state == "published":
            return [f"the release {release.tag} has {one_line(name)}, too" for name in others]
        return [
            f"the draft of {release.tag} has {one_line(name)}, which is none of these files; delete it there"
            for name in others
        ]

    def publish(self, plan: Plan) -> list[str]:
        """Uploads what is missing, compares every file, and makes the release public.

        Returns:
            The names of the files that were uploaded.

        Raises:
            PublishError: A file is refused, cannot be uploaded, or is not stored as it was sent.
        """
        plan.require_acceptable()
        release = self.release
        hashes = {file.name: file.sha256 for file in plan.files}
        if release.state == "published":
            return []  # the plan has compared it
        self._github.require_token()
        with temporary_directory("entries") as directory:
            every = [self._read(file.path)[1] for file in plan.files]
            entries = write_entries(release.tag, every, directory)
            digest = digest_file(entries).sha256
            version = Version(plan.files[0].version)
            release.start(_text(plan), prerelease=version.is_prerelease)
            missing = [file for file in plan.files if file.action == "upload"]
            for number, file in enumerate(missing, 1):
                self._report(f"uploading {file.name} ({number} of {len(missing)})")
                release.add(file.path, file.sha256)
            if not _is_there(release, entries.name, digest):
                release.add(entries, digest)
        hashes[entries.name] = digest
        self._compare(hashes, "nothing is published: run the same command again")
        self._report(f"publishing {release.tag}")
        release.publish()
        self._compare(hashes, "withdraw the release and report this to GitHub")
        return [file.name for file in missing]

    def _compare(self, hashes: Mapping[str, str], advice: str) -> None:
        self.release.reload()
        differences = self.release.differences(hashes)
        if differences:
            raise PublishError(f"the release {self.release.tag}: {differences[0]}; {advice}")


def _is_there(release: Release, name: str, sha256: str) -> bool:
    asset = release.assets.get(name)
    return asset is not None and asset.whole and asset.sha256 == sha256


def _named(file: PlannedFile, release: Release) -> PlannedFile:
    """The problems in the words of releases: those of an index may not fit."""
    if file.action == "skip":
        return replace(file, reason=f"already in the {_kind(release)}")
    if file.action == "upload" and release.state == "published":
        reason = f"not in the release, which is published; {KEEPS_VERSIONS}"
        return replace(file, action="refuse", reason=reason)
    if file.action == "refuse" and file.name in release.assets and release.state == "published":
        return replace(file, reason=f"in the release with different contents; {KEEPS_VERSIONS}")
    return file


def _kind(release: Release) -> str:
    return "release" if release.state == "published" else "draft"


def _limits(files: Sequence[PlannedFile]) -> list[str]:
    if len(files) < MAX_ASSETS:  # one is for the entries
        return []
    size = count(len(files), "file")
    advice = "build for fewer platforms or Pythons, or set `package.bindings: shared`"
    return [f"{size} and their entries; GitHub accepts {MAX_ASSETS} files in a release: {advice}"]


def _text(plan: Plan) -> str:
    lines = [f"{file.sha256}  {file.name}" for file in plan.files]
    return "\n".join(["SHA-256 of the files:", "", "```", *lines, "```", ""])
