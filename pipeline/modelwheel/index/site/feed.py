"""The Atom feed of releases (RFC 4287), newest first."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from .addresses import Addresses
from .changes import changes_of
from .projects import Project
from .rendering import render, stamp

_ENTRIES = 100
"""The most releases in a feed."""

_UNKNOWN = datetime(1980, 1, 1, tzinfo=timezone.utc)
"""Atom demands a time. This one, the first that a wheel can have, stands for releases without one."""

_NAMES = uuid.uuid5(uuid.NAMESPACE_DNS, "modelwheel.catalogue")


@dataclass(frozen=True)
class Entry:
    """One release."""

    identifier: str
    title: str
    link: str
    updated: str
    author: str
    summary: str


def render_feed(title: str, projects: Sequence[Project], addresses: Addresses) -> bytes:
    """The feed; the same wheels give the same bytes, whenever it is written."""
    entries = []
    for project in projects:
        for older, release in zip((None, *project.releases), project.releases, strict=False):
            model = release.manifest.model
            entry = Entry(
                identifier=_identifier(addresses, f"{project.name} {release.version}"),
                title=f"{model.name} {release.version}",
                link=addresses.top + project.page,
                updated=stamp(release.time or _UNKNOWN),
                author=model.author or title,
                summary=". ".join([model.summary.rstrip("."), *changes_of(older, release)]) + ".",
            )
            entries.append(entry)
    entries.sort(key=lambda entry: entry.title)
    entries.sort(key=lambda entry: entry.updated, reverse=True)
    return render(
        "feed.xml.j2",
        title=title,
        site=addresses.top or "./",
        identifier=_identifier(addresses, "feed"),
        updated=entries[0].updated if entries else stamp(_UNKNOWN),
        entries=entries[:_ENTRIES],
    )


def _identifier(addresses: Addresses, name: str) -> str:
    return f"urn:uuid:{uuid.uuid5(_NAMES, f'{addresses.simple} {name}')}"
