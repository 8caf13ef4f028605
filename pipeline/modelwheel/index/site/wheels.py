"""What the index and the catalogue need from each wheel and from the files beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from ...assembly.manifest import Manifest
from ...util.files import digest_file
from ...util.watching import NOBODY, Watcher, each
from ...versions import RUNTIME
from ...wheelfile.reports import Report, Timing, read_report, read_timings
from ...wheelfile.sizes import WheelSizes, read_sizes
from ...wheelfile.unverified import require_verified
from ...wheelfile.wheel import Wheel, open_wheel


@dataclass(frozen=True)
class IndexedWheel:
    """A wheel in the index."""

    path: Path
    project: str
    """Normalised as in PEP 503."""
    version: Version
    sha256: str
    size: int
    metadata: bytes
    """The METADATA file, unchanged."""
    requires_python: str | None
    requires: tuple[Requirement, ...]
    """Unconditional and conditional requirements, without those of extras."""

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    @property
    def python(self) -> str:
        """The Python tag of the file name (`cp311`)."""
        return self.path.stem.split("-")[-3]

    @property
    def platform(self) -> str:
        """The platform tag of the file name (`linux_x86_64`)."""
        return self.path.stem.split("-")[-1]


@dataclass(frozen=True)
class ModelWheel(IndexedWheel):
    """The wheel of a model. All other wheels of an index are dependencies of these."""

    manifest: Manifest
    sizes: WheelSizes
    report: Report | None
    timings: tuple[Timing, ...]


def read_wheels(paths: Iterable[Path], watcher: Watcher = NOBODY) -> list[IndexedWheel]:
    """Reads wheels, sorted by project, version and file name.

    Args:
        paths: The files.
        watcher: Receives the name of each.

    Raises:
        WheelError: One is damaged, was renamed, or was not built by modelwheel.
    """
    wheels = [
        _read_wheel(open_wheel(path)) for path in each(paths, lambda path: path.name, watcher)
    ]
    return sorted(wheels, key=lambda wheel: (wheel.project, wheel.version, wheel.name))


def _read_wheel(wheel: Wheel) -> IndexedWheel:
    require_verified(wheel)
    wheel.require_own_name()
    metadata, digest = wheel.metadata, digest_file(wheel.path)
    indexed = IndexedWheel(
        path=wheel.path,
        project=wheel.distribution,
        version=wheel.version,
        sha256=digest.sha256,
        size=digest.size,
        metadata=wheel.metadata_content,
        requires_python=str(metadata.requires_python) if metadata.requires_python else None,
        requires=tuple(r for r in metadata.requires_dist or () if not _is_extra(r)),
    )
    return indexed if wheel.distribution == RUNTIME else _read_model(wheel, indexed)


def _is_extra(requirement: Requirement) -> bool:
    return requirement.marker is not None and "extra ==" in str(requirement.marker)


def _read_model(wheel: Wheel, indexed: IndexedWheel) -> ModelWheel:
    return ModelWheel(
        **vars(indexed),
        manifest=wheel.manifest,
        sizes=read_sizes(wheel),
        report=read_report(wheel.path),
        timings=read_timings(wheel.path),
    )
