"""Static pages of the last builds: what ran, what was in the store, what failed, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..index.site.catalogue import Branding, render_assets
from ..index.site.rendering import render, stamp
from ..util.files import write_atomically
from ..util.words import count, size_text, time_text
from .history import Build

_LONGEST = 20
"""Steps of a build that its page lists because they took longest."""
_MARKS = {"done": "passed", "failed": "failed"}
_TITLE = "Builds"


@dataclass(frozen=True)
class _Column:
    name: str
    number: bool = False


@dataclass(frozen=True)
class _Table:
    title: str
    columns: Sequence[_Column]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class _Shown:
    """A build as pages show it."""

    page: str
    began: str
    stamp: str
    result: str
    mark: str
    numbers: Sequence[object]
    place: str


def write_pages(builds: Sequence[Build], directory: Path, sources: int) -> list[str]:
    """Writes the overview and a page for each build; returns the names of the files.

    Args:
        builds: The newest first.
        directory: Made if it is not there. Pages of builds that are no longer among the last ones stay.
        sources: The number of files that the events were in.

    Raises:
        OSError: A file cannot be written.
    """
    branding = Branding(_TITLE)
    assets, files = render_assets(branding)
    files = {assets["catalogue.css"]: files[assets["catalogue.css"]]}
    shared = {"assets": assets, "branding": branding}
    lead = f"{count(len(builds), 'build')} in {count(sources, 'file')} of events, the newest first."
    files["index.html"] = render(
        "builds.html.j2", top="", lead=lead, builds=list(map(_show, builds)), **shared
    )
    for build in builds:
        shown = _show(build)
        files[shown.page] = render(
            "build.html.j2",
            top="../",
            build=shown,
            facts=list(_facts(build)),
            tables=list(_tables(build)),
            **shared,
        )
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / name, content)
    return sorted(files)


def _show(build: Build) -> _Shown:
    ended = {result: len(build.of(result)) for result in ("run", "cached", "failed")}
    models = len({step.model for step in build.steps.values()})
    numbers = (
        models,
        *ended.values(),
        len(build.steps) - sum(ended.values()),
        time_text(build.duration),
        len(build.lost),
    )
    return _Shown(
        f"builds/{build.id}.html",
        f"{build.began:%Y-%m-%d %H:%M:%S} UTC",
        stamp(build.began),
        build.result,
        _MARKS.get(build.result, ""),
        numbers,
        build.cluster or build.host,
    )


def _facts(build: Build) -> Iterator[tuple[str, object]]:
    hits, ran = len(build.of("cached")), len(build.of("run"))
    yield "Took", time_text(build.duration)
    yield "Time of all steps", time_text(sum(step.seconds for step in build.of("run")))
    yield "Ran", count(ran, "step")
    yield (
        "From the store",
        f"{count(hits, 'step')}" + (f", {100 * hits // (hits + ran)} %" if hits else ""),
    )
    yield "Failed", count(len(build.of("failed")), "step")
    yield "Started on", build.host or "unknown"
    if build.cluster:
        yield "Cluster", build.cluster
        yield "Workers", f"{len(build.workers)}, {len(build.lost)} lost"
    if build.version:
        yield "modelwheel", build.version


def _tables(build: Build) -> Iterator[_Table]:
    """The tables that have rows."""
    texts = [("Step", False), ("Took", True), ("Size", True), ("Worker", False)]
    for title, columns, rows in (
        ("Failures", [("Step", False), ("Code", False), ("Why", False)], _failures(build)),
        ("Kinds of steps", _KINDS, _kinds(build)),
        ("Longest steps", texts, _longest(build)),
        ("Unfinished steps", [("Step", False), ("State", False), ("Worker", False)], _open(build)),
        ("Repeated steps", [("Step", False), ("Attempts", True), ("Result", False)], _again(build)),
        ("Lost workers", [("Worker", False), ("When", False), ("Why", False)], _lost(build)),
    ):
        if listed := list(rows):
            yield _Table(title, [_Column(*column) for column in columns], listed)


_KINDS = [("Kind", False), ("Ran", True), ("From the store", True), ("Failed", True)]
_KINDS += [("Time", True), ("Mean", True), ("Longest", True), ("Results", True)]


def _failures(build: Build) -> Iterator[Sequence[object]]:
    for step in build.of("failed"):
        yield step.name, step.code, step.message


def _kinds(build: Build) -> Iterator[Sequence[object]]:
    for kind, steps in build.by_kind().items():
        number = dict.fromkeys(("run", "cached", "failed"), 0)
        for step in steps:
            if step.result in number:
                number[step.result] += 1
        seconds = [step.seconds for step in steps if step.result == "run"]
        times = (
            [
                time_text(value)
                for value in (sum(seconds), sum(seconds) / len(seconds), max(seconds))
            ]
            if seconds
            else ["-"] * 3
        )
        yield kind, *number.values(), *times, size_text(sum(step.bytes for step in steps))


def _longest(build: Build) -> Iterator[Sequence[object]]:
    for step in sorted(build.of("run"), key=lambda step: -step.seconds)[:_LONGEST]:
        yield step.name, time_text(step.seconds), size_text(step.bytes), step.worker or "-"


def _open(build: Build) -> Iterator[Sequence[object]]:
    for step in (*build.of("running"), *build.of("not started")):
        yield step.name, step.result, step.worker or "-"


def _again(build: Build) -> Iterator[Sequence[object]]:
    for step in build.steps.values():
        if step.attempts > 1:
            yield step.name, step.attempts, _RESULTS.get(step.result, step.result)


_RESULTS = {"run": "has its result", "cached": "has its result"}


def _lost(build: Build) -> Iterator[Sequence[object]]:
    for lost in build.lost:
        yield lost.worker, f"{lost.time:%H:%M:%S}", lost.why
