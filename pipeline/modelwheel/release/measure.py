"""Measuring wheels where they are installed: errors, speed, size, and how the released version did."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..assembly.manifest import Manifest
from ..errors import ModelwheelError, VerifyError
from ..index.client import PackageIndex
from ..index.released import find_newest, is_installable, open_index
from ..packaging.runtime import needed_wheels
from ..store.store import Store
from ..util.files import write_atomically
from ..util.process import ProcessError
from ..verify.selftest import (
    Comparison,
    Report,
    find_reference,
    install_wheel,
    read_manifest,
    require_passed,
    run_module,
    run_selftest,
)
from ..wheelfile.reports import BENCH_SUFFIX, REPORT_SUFFIX, Timing

_ROUNDS = 2
"""How often each side is timed, in turns, so that a slow moment of the machine hits neither alone."""
_SECONDS = 0.3
"""How long each number of rows is timed in a round."""

_TIMINGS = TypeAdapter(tuple[Timing, ...])


@dataclass(frozen=True)
class Released:
    """The newest released version of a model."""

    version: str
    size: int
    """Of its wheel, in bytes."""
    timings: tuple[Timing, ...]


@dataclass(frozen=True)
class Measurement:
    """What was measured of one wheel."""

    wheel: Path
    manifest: Manifest
    report: Report | None = None
    timings: tuple[Timing, ...] = ()
    released: Released | None = None
    error: ModelwheelError | None = None
    """Why it does not do, or could not be measured."""

    @property
    def worst(self) -> Comparison | None:
        """The comparison with TensorFlow that used most of its tolerance."""
        compared = self.report.comparisons if self.report else ()
        return max(compared, key=lambda c: c.absolute / max(c.limit, 1e-300), default=None)

    def as_json(self) -> dict[str, object]:
        """For machines."""
        released = self.released
        return {
            "wheel": str(self.wheel),
            "wheel_bytes": self.wheel.stat().st_size,
            "error": None if self.error is None else str(self.error),
            "report": None if self.report is None else self.report.model_dump(mode="json"),
            "timings": [timing.model_dump() for timing in self.timings],
            "released": None
            if released is None
            else {
                "version": released.version,
                "wheel_bytes": released.size,
                "timings": [timing.model_dump() for timing in released.timings],
            },
        }


def measure_wheels(
    wheels: Iterable[Path], store: Store, index_url: str | None = None
) -> list[Measurement]:
    """Measures wheels one by one and writes what was found beside each, for the index.

    Args:
        wheels: Those that this interpreter cannot install are left out.
        store: May hold the reference that a wheel was built with; else its own sample is used.
        index_url: The simple API of an index to compare with its newest version.

    Raises:
        WheelError: A file is no wheel of modelwheel.
        PublishError: The index fails.
    """
    manifests = [(wheel, read_manifest(wheel)) for wheel in wheels]
    fitting = [(wheel, manifest) for wheel, manifest in manifests if is_installable(wheel.name)]
    with _opened(index_url) as index:
        measured = [_measure(wheel, manifest, store, index) for wheel, manifest in fitting]
    for measurement in measured:
        _write_companions(measurement)
    return measured


def find_wheels(paths: Sequence[Path]) -> list[Path]:
    """Wheels that are named, and those of models in directories that are named."""
    return [
        wheel
        for path in paths
        for wheel in (sorted(path.glob("model_*.whl")) if path.is_dir() else [path])
    ]


@contextmanager
def _opened(index_url: str | None) -> Iterator[PackageIndex | None]:
    if index_url is None:
        yield None
        return
    with open_index(index_url) as index:
        yield index


def _measure(
    wheel: Path, manifest: Manifest, store: Store, index: PackageIndex | None
) -> Measurement:
    report = None
    try:
        with tempfile.TemporaryDirectory(prefix="modelwheel-measure-") as scratch:
            needed = needed_wheels(manifest, store, Path(scratch) / "needed")
            python = install_wheel(wheel, Path(scratch), needed)
            report = run_selftest(python, wheel, find_reference(manifest, store))
            require_passed(report, wheel.name)
            older = _install_released(manifest, index, Path(scratch) / "released", needed)
            ours, theirs = _race(manifest.model.module, python, older.python if older else None)
    except ModelwheelError as error:
        return Measurement(wheel, manifest, report, error=error)
    released = None if older is None else Released(older.version, older.size, theirs)
    return Measurement(wheel, manifest, report, ours, released)


@dataclass(frozen=True)
class _Installed:
    python: Path
    version: str
    size: int


def _install_released(
    manifest: Manifest, index: PackageIndex | None, scratch: Path, needed: Sequence[Path]
) -> _Installed | None:
    found = None if index is None else find_newest(index, manifest.model.distribution)
    if index is None or found is None:
        return None
    scratch.mkdir()
    wheel = scratch / found.name
    index.download(found.file, wheel)
    python = install_wheel(wheel, scratch, needed)
    return _Installed(python, str(found.version), wheel.stat().st_size)


def _race(
    module: str, ours: Path, theirs: Path | None
) -> tuple[tuple[Timing, ...], tuple[Timing, ...]]:
    """The best times of one installation, and of another that takes turns with it."""
    rounds: dict[Path, list[tuple[Timing, ...]]] = {}
    for _ in range(_ROUNDS):
        for python in (ours, *([theirs] if theirs else [])):
            rounds.setdefault(python, []).append(_time(module, python))
    return _best(rounds[ours]), _best(rounds[theirs]) if theirs else ()


def _time(module: str, python: Path) -> tuple[Timing, ...]:
    try:
        done = run_module(python, module, "bench", "--json", "--seconds", str(_SECONDS))
        return _TIMINGS.validate_json(done.stdout)
    except (ProcessError, ValidationError) as error:
        raise VerifyError(f"{module} cannot be timed: {error}") from None


def _best(rounds: Sequence[tuple[Timing, ...]]) -> tuple[Timing, ...]:
    return tuple(
        min(same, key=lambda timing: timing.nanoseconds) for same in zip(*rounds, strict=True)
    )


def _write_companions(measurement: Measurement) -> None:
    wheel = measurement.wheel
    if measurement.report is not None:
        content = measurement.report.model_dump_json(indent=1)
        write_atomically(wheel.with_name(wheel.name + REPORT_SUFFIX), f"{content}\n".encode())
    if measurement.timings:
        content = json.dumps([timing.model_dump() for timing in measurement.timings], indent=1)
        write_atomically(wheel.with_name(wheel.name + BENCH_SUFFIX), f"{content}\n".encode())
