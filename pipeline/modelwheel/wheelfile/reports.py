"""What the index and the catalogue need to know of each wheel, read from the file and its companions."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from packaging.metadata import ExceptionGroup, InvalidMetadata, Metadata
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ..assembly.manifest import Manifest
from ..errors import WheelError
from ..util.files import digest_file
from ..verify.selftest import Report, read_manifest, read_report
from ..versions import RUNTIME
from .sizes import WheelSizes, read_sizes

REPORT_SUFFIX = ".report.json"
"""After a wheel's whole file name: what `modelwheel verify` measured."""

BENCH_SUFFIX = ".bench.json"
"""After a wheel's whole file name: what `python -m model_NAME bench --json` printed."""

_T = TypeVar("_T")


class Timing(BaseModel):
    """How long one call takes, as the wheel's `bench --json` tells it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    level: str
    rows: int
    rule: str
    nanoseconds: float


_TIMINGS = TypeAdapter(tuple[Timing, ...])


@dataclass(frozen=True)
class IndexedWheel:
    """One wheel of the index."""

    path: Path
    project: str
    """Normalised as PEP 503 demands."""
    version: Version
    sha256: str
    size: int
    metadata: bytes
    """The METADATA file, as it lies in the wheel."""
    requires_python: str | None

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
    """The wheel of a model; what else an index may hold is what such wheels need."""

    manifest: Manifest
    sizes: WheelSizes
    report: Report | None
    timings: tuple[Timing, ...]


def read_wheels(directory: Path) -> list[IndexedWheel]:
    """Reads all wheels of a directory, sorted by project, version and file name.

    Raises:
        WheelError: There is none, or one is broken, misnamed or not of modelwheel.
    """
    paths = sorted(directory.glob("*.whl"))
    if not paths:
        raise WheelError(f"{directory} holds no wheels; name a directory with .whl files")
    wheels = [_read_wheel(path) for path in paths]
    return sorted(wheels, key=lambda wheel: (wheel.project, wheel.version, wheel.name))


def _read_wheel(path: Path) -> IndexedWheel:
    try:
        project, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise WheelError(f"{path}: {error}; give it the name that it was built with") from None
    content = _read_metadata_file(path)
    metadata = _parse_metadata(path, content)
    if (canonicalize_name(metadata.name), metadata.version) != (project, version):
        raise WheelError(
            f"{path} says inside that it is {metadata.name} {metadata.version}; "
            "give it the name that it was built with"
        )
    digest = digest_file(path)
    wheel = IndexedWheel(
        path=path,
        project=project,
        version=version,
        sha256=digest.sha256,
        size=digest.size,
        metadata=content,
        requires_python=str(metadata.requires_python) if metadata.requires_python else None,
    )
    return wheel if project == RUNTIME else _read_model(wheel)


def _read_model(wheel: IndexedWheel) -> ModelWheel:
    manifest = read_manifest(wheel.path)
    return ModelWheel(
        **vars(wheel),
        manifest=manifest,
        sizes=_read_sizes(wheel.path, manifest),
        report=_read_companion(wheel.path, REPORT_SUFFIX, read_report),
        timings=_read_companion(wheel.path, BENCH_SUFFIX, _TIMINGS.validate_json) or (),
    )


def _read_metadata_file(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if _is_metadata(PurePosixPath(name))]
            if len(names) != 1:
                raise WheelError(f"{path} holds {len(names)} METADATA files instead of one")
            return archive.read(names[0])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise WheelError(f"{path} is no whole wheel: {error}; fetch or build it again") from None


def _is_metadata(name: PurePosixPath) -> bool:
    return len(name.parts) == 2 and name.match("*.dist-info/METADATA")


def _parse_metadata(path: Path, content: bytes) -> Metadata:
    try:
        return Metadata.from_email(content)
    except (ExceptionGroup, InvalidMetadata, UnicodeDecodeError) as error:
        first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        raise WheelError(f"{path}: METADATA: {first}; build the wheel again") from None


def _read_sizes(path: Path, manifest: Manifest) -> WheelSizes:
    try:
        return read_sizes(path, manifest)
    except ValueError:
        raise WheelError(f"{path} holds no library of the model; build it again") from None


def _read_companion(path: Path, suffix: str, read: Callable[[bytes], _T]) -> _T | None:
    companion = path.with_name(path.name + suffix)
    if not companion.exists():
        return None
    try:
        return read(companion.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise WheelError(f"{companion}: {where}: {first['msg']}; write it again") from None
