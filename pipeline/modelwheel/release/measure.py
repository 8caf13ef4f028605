"""Measures wheels where they are installed: errors, speed and size, beside the released version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ..assembly.manifest import Manifest
from ..errors import ModelwheelError
from ..index.client import PackageIndex
from ..index.differences import wheel_differences
from ..index.order import order_warning
from ..index.released import find_newest, is_installable, open_index
from ..levels import cpu_name
from ..packaging.runtime import needed_wheels
from ..sandbox.choose import Sandbox
from ..signature import Signature
from ..store.store import Store
from ..util.unfinished import temporary_directory
from ..util.urls import redact
from ..util.watching import NOBODY, Watcher, each
from ..verify.environment import InstalledWheel, install_wheel
from ..verify.selftest import find_reference, replaced_in, require_passed
from ..wheelfile.reports import (
    Comparison,
    Report,
    Timing,
    fastest,
    read_timings,
    write_report,
    write_timings,
)
from ..wheelfile.wheel import Wheel, open_wheel

_ROUNDS = 2
"""How often each side is timed, in turns, so that a slow moment of the machine affects both."""
_SECONDS = "0.3"
"""How long each number of rows is timed in a round."""

NOT_COMPARED = "not compared with a released version: no index is configured"


@dataclass(frozen=True)
class Released:
    """The newest released version of a model."""

    version: str
    wheel_bytes: int
    timings: tuple[Timing, ...]
    moved: str = ""
    """How the order of inputs or outputs has changed since, as a clause; empty if it has not."""
    differences: tuple[str, ...] = ()
    """What else the new version changes for its users, as clauses."""


@dataclass(frozen=True)
class Measurement:
    """The measurements of one wheel."""

    JSON_FIELDS: ClassVar = (
        "wheel",
        "wheel_bytes",
        "error",
        "report",
        "timings",
        "framework",
        "released",
        "not_compared",
    )

    wheel: Path
    wheel_bytes: int
    manifest: Manifest
    report: Report | None = None
    timings: tuple[Timing, ...] = ()
    released: Released | None = None
    not_compared: str | None = None
    """Why there is no released version."""
    error: ModelwheelError | None = None
    """Why it failed, or could not be measured."""
    framework: tuple[Timing, ...] = ()
    """How long the framework took for calls, when it computed the reference on a CPU of this kind."""

    @property
    def worst(self) -> Comparison | None:
        """The comparison with TensorFlow that used most of its tolerance."""
        return self.report.worst if self.report else None


def measure_wheels(
    paths: Iterable[Path],
    store: Store,
    sandbox: Sandbox,
    index_url: str | None = None,
    watcher: Watcher = NOBODY,
) -> list[Measurement]:
    """Measures wheels one by one and stores the results beside each, for the catalogue.

    Args:
        paths: Wheels. Those that this interpreter cannot install are skipped.
        store: May have the reference that a wheel was built with; otherwise its sample is used.
        sandbox: Where they run.
        index_url: The simple API of an index whose newest version is measured for comparison.
        watcher: Receives the name of each wheel.

    Raises:
        WheelError: A file is not a wheel of a model.
        PublishError: The index fails.
    """
    wheels = [wheel for wheel in map(open_wheel, paths) if is_installable(wheel.tags)]
    with _opened(index_url) as index:
        measured = [
            _measure(wheel, store, sandbox, index)
            for wheel in each(wheels, lambda wheel: wheel.name, watcher)
        ]
    for measurement in measured:
        if measurement.report is not None:
            write_report(measurement.report, measurement.wheel)
        if measurement.timings:
            # What the build recorded of the framework stays, of whatever CPU.
            recorded = [t for t in read_timings(measurement.wheel) if t.framework]
            write_timings([*measurement.timings, *recorded], measurement.wheel)
    return measured


def notes_on_releases(measured: Iterable[Measurement]) -> list[str]:
    """Why there is no released version beside some wheels, and what has moved since the others'; each once."""
    return list(dict.fromkeys(note for measurement in measured for note in _notes(measurement)))


def _notes(measurement: Measurement) -> Iterator[str]:
    if measurement.not_compared:
        yield measurement.not_compared
    if measurement.released is not None and measurement.released.moved:
        model = measurement.manifest.model
        yield f"warning: {model.name} {model.version}: {measurement.released.moved}"


@contextmanager
def _opened(index_url: str | None) -> Iterator[PackageIndex | None]:
    if index_url is None:
        yield None
        return
    with open_index(index_url) as index:
        yield index


def _measure(
    wheel: Wheel, store: Store, sandbox: Sandbox, index: PackageIndex | None
) -> Measurement:
    manifest, report = wheel.manifest, None
    module = manifest.model.module
    measurement = Measurement(
        wheel.path, wheel.size, manifest, framework=_framework_times(wheel.path)
    )
    try:
        with temporary_directory("measure") as scratch:
            needed = needed_wheels(manifest, store, scratch / "needed")
            ours = install_wheel(wheel.path, module, scratch, sandbox, needed)
            report = ours.selftest(find_reference(manifest, store))
            require_passed(report, wheel.name, replaced_in(manifest))
            older = _install_released(wheel, index, scratch / "released", sandbox, needed)
            timings, older_timings = _race(ours, older.installed if older else None)
    except ModelwheelError as error:
        # With the report, if there is one: the catalogue shows a failed comparison, too.
        return replace(measurement, report=report, error=error)
    measurement = replace(measurement, report=report, timings=timings)
    if older is None:
        return replace(measurement, not_compared=_why_not(index, manifest))
    moved = order_warning(older.signature, older.version, manifest.signature)
    released = Released(older.version, older.size, older_timings, moved, older.differences)
    return replace(measurement, released=released)


def _why_not(index: PackageIndex | None, manifest: Manifest) -> str:
    if index is None:
        return NOT_COMPARED
    return (
        f"not compared with a released version: {redact(index.url)} has no wheel of "
        f"{manifest.model.distribution} for this machine"
    )


@dataclass(frozen=True)
class _InstalledRelease:
    installed: InstalledWheel
    version: str
    size: int
    signature: Signature
    differences: tuple[str, ...]


def _install_released(
    newer: Wheel,
    index: PackageIndex | None,
    scratch: Path,
    sandbox: Sandbox,
    needed: Sequence[Path],
) -> _InstalledRelease | None:
    model = newer.manifest.model
    newest = None if index is None else find_newest(index, model.distribution)
    if index is None or newest is None:
        return None
    scratch.mkdir()
    path = scratch / newest.name
    index.download(newest.file, path)
    installed = install_wheel(path, model.module, scratch, sandbox, needed)
    older = open_wheel(path)
    differences = wheel_differences(older, newer)
    signature = older.manifest.signature
    return _InstalledRelease(installed, str(newest.version), older.size, signature, differences)


def _framework_times(wheel: Path) -> tuple[Timing, ...]:
    """The times that a build recorded beside its wheel, if it was on a CPU of this kind: others are not comparable."""
    cpu = cpu_name()
    return tuple(t for t in read_timings(wheel) if t.framework and t.cpu == cpu)


def _race(
    ours: InstalledWheel, theirs: InstalledWheel | None
) -> tuple[tuple[Timing, ...], tuple[Timing, ...]]:
    """The best times of two installations that take turns."""
    our_rounds, their_rounds = [], []
    for _ in range(_ROUNDS):
        our_rounds.append(ours.bench("--seconds", _SECONDS))
        if theirs is not None:
            their_rounds.append(theirs.bench("--seconds", _SECONDS))
    return _here(fastest(our_rounds)), _here(fastest(their_rounds))


def _here(timings: Iterable[Timing]) -> tuple[Timing, ...]:
    """Timings with the name of this machine's CPU: microseconds of another one are not comparable."""
    cpu = cpu_name()
    return tuple(timing.model_copy(update={"cpu": cpu}) for timing in timings)
