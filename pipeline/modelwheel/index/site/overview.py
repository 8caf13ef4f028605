"""The overview: one compact row for each model, with what it is searched, filtered and sorted by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...util.words import shorten, size_text, time_text
from .charts import machines_of, row_time
from .grid import place_of
from .projects import Project

_SUMMARY, _TAGS, _WORDS, _LICENCE = 150, 60, 90, 60
"""Characters of a row's texts, so that a page of 500 models is small."""

_CHOICES = 80
"""The most tags and licences to filter by; search finds the rest."""


@dataclass(frozen=True)
class Entry:
    """One row."""

    name: str
    version: str
    page: str
    summary: str
    tags: str
    licence: str
    systems: str
    """For people: Linux, macOS."""
    places: str
    """The numbers of its platforms among those to filter by."""
    size: str
    time: str
    """Of a row; empty if it was not measured."""
    date: str
    numbers: str
    """What it is sorted by: bytes, nanoseconds and the day."""
    words: str
    """More to search in: names of tensors, the author and the commit."""


@dataclass(frozen=True)
class Overview:
    """All rows and the choices of the filters."""

    entries: tuple[Entry, ...]
    places: tuple[str, ...]
    """By their numbers."""
    licences: tuple[str, ...]
    tags: tuple[str, ...]


def make_overview(projects: Sequence[Project]) -> Overview:
    """The rows, sorted by name."""
    places = {}
    for project in projects:
        for wheel in project.newest.wheels:
            place = place_of(wheel)
            places[place.name] = place.order
    names = sorted(places, key=lambda name: places[name])
    entries = [_entry(project, names) for project in projects]
    return Overview(
        tuple(sorted(entries, key=lambda entry: (entry.name.lower(), entry.page))),
        tuple(names),
        _choices(project.newest.manifest.model.whole_license for project in projects),
        _choices(tag for project in projects for tag in project.newest.manifest.model.keywords),
    )


def _entry(project: Project, places: Sequence[str]) -> Entry:
    release = project.newest
    model = release.manifest.model
    here = [place_of(wheel) for wheel in release.wheels]
    size = min(wheel.size for wheel in release.wheels)
    time = min((row_time(machine) for machine in machines_of(release)), default=None)
    systems = dict.fromkeys(place.system for place in sorted(here, key=lambda place: place.order))
    return Entry(
        name=model.name,
        version=str(release.version),
        page=project.page,
        summary=shorten(model.summary, _SUMMARY),
        tags=shorten(", ".join(model.keywords), _TAGS),
        licence=shorten(model.whole_license, _LICENCE),
        systems=", ".join(systems),
        places=" ".join(map(str, sorted({places.index(place.name) for place in here}))),
        size=size_text(size),
        time="" if time is None else time_text(time / 1e9),
        date=release.date,
        numbers=f"{size} {'' if time is None else round(time)} {release.date.replace('-', '')}",
        words=shorten(" ".join(_words(project)), _WORDS),
    )


def _words(project: Project) -> Iterable[str]:
    manifest = project.newest.manifest
    yield manifest.provenance.source.get("commit", "")[:12]
    if manifest.model.author:
        yield manifest.model.author
    yield from (t.name for t in (*manifest.signature.inputs, *manifest.signature.outputs))


def _choices(values: Iterable[str]) -> tuple[str, ...]:
    """The most frequent values, sorted."""
    return tuple(sorted(value for value, _ in Counter(values).most_common(_CHOICES)))
