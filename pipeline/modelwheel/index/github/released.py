"""Reads the releases of a repository: which there are, and what a site shows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from packaging.version import Version

from ...errors import PublishError
from ...util.files import digest_file, replace, sync_file
from ...util.names import safety_problem
from ...util.text import one_line
from ...util.unfinished import unfinished_file
from ...util.watching import NOBODY, Watcher, each
from ...wheelfile.collect import SDIST, WHEEL
from ...wheelfile.reports import write_upload
from ..entries import ENTRIES
from ..plan import KEEPS_VERSIONS
from ..release_list import version_of
from .api import GitHub
from .release import Asset


@dataclass(frozen=True)
class Published:
    """A public release of a model."""

    tag: str
    name: str
    """Of the model."""
    version: Version
    assets: Mapping[str, Asset]
    time: datetime | None
    """When it became public."""


def list_published(github: GitHub, names: Collection[str]) -> Iterator[Published]:
    """The public releases of some models, in GitHub's order: newest first.

    Raises:
        PublishError: GitHub cannot be read.
    """
    for listed in github.list("/releases"):
        if listed["draft"]:
            continue
        tag = str(listed["tag_name"])
        for name in names:
            version = version_of(tag, name)
            if version is not None:
                yield Published(tag, name, version, _assets(listed), _time(listed))


def _assets(fields: Mapping[str, Any]) -> dict[str, Asset]:
    return {asset.name: asset for asset in map(Asset.read, fields["assets"]) if asset.whole}


def _time(fields: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(fields["published_at"]).replace("Z", "+00:00"))
    except (KeyError, ValueError):
        return None


def download_releases(
    github: GitHub,
    names: Collection[str],
    out: Path,
    *,
    whole: bool = False,
    watcher: Watcher = NOBODY,
) -> list[str]:
    """Downloads what a site needs of all releases of some models.

    Args:
        github: The repository.
        names: Of models.
        out: A directory. Files in it are kept.
        whole: Download the files themselves; otherwise the entries of each release, if it has them.
        watcher: Receives the name of each file.

    Returns:
        The names of the downloaded files.

    Raises:
        PublishError: GitHub cannot be read, or a file in `out` differs.
    """
    out.mkdir(parents=True, exist_ok=True)
    wanted = [
        (release, asset)
        for release in list_published(github, names)
        for asset in _needed(release, whole=whole)
    ]
    private = bool(wanted) and bool((github.get("") or {}).get("private"))
    copied = []
    for release, asset in each(wanted, lambda pair: pair[1].name, watcher):
        if _copy(github, asset, out, asset.url if private else asset.public_url):
            copied.append(asset.name)
        if release.time is not None:
            write_upload(release.time, out / asset.name)
    return copied


def _needed(release: Published, *, whole: bool) -> list[Asset]:
    entries = release.assets.get(f"{release.tag}{ENTRIES}")
    if entries is not None and not whole:
        return [entries]
    return [asset for name, asset in release.assets.items() if name.endswith((WHEEL, SDIST))]


def _copy(github: GitHub, asset: Asset, out: Path, url: str) -> bool:
    problem = safety_problem(asset.name)
    if problem is not None or "/" in asset.name:
        raise PublishError(
            f"{github.repository} has a file {one_line(asset.name)!r} in a release: {problem or 'a path'}"
        )
    target = out / asset.name
    if target.exists():
        if asset.sha256 not in (None, digest_file(target).sha256):
            raise PublishError(
                f"{target} differs from the file of this name in {github.repository}; {KEEPS_VERSIONS}"
            )
        return False
    with unfinished_file(target) as aside:
        served = github.download(url, aside)
        if asset.sha256 not in (None, served):
            raise PublishError(
                f"{asset.name} has SHA-256 {served}, but GitHub states {asset.sha256}; report this to GitHub"
            )
        sync_file(aside)
        replace(aside, target)
    return True
