"""The one reader of wheels: name, members, METADATA, WHEEL and manifest.

Every check, report and page reads wheels through this module, so that a damaged or foreign file fails
in the same way everywhere: with one sentence. Nothing is unpacked and nothing is run.
"""

from __future__ import annotations

import errno
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, cast

from packaging.metadata import ExceptionGroup, InvalidMetadata, Metadata
from packaging.tags import Tag
from packaging.utils import (
    InvalidWheelFilename,
    NormalizedName,
    canonicalize_name,
    is_normalized_name,
    parse_wheel_filename,
)
from packaging.version import Version

from ..assembly.manifest import Manifest
from ..errors import WheelError
from ..source.members import DAMAGE, damage_reason, open_zip, zip_problem
from ..source.rules import Tally
from ..util.names import NameSet, UnsafePathError, safety_problem
from ..util.text import one_line
from ..util.trees import open_plain
from ..util.words import size_text
from .container import container_problem

MAX_TEXT = 64 << 20
"""Bytes of a member that is read whole as text: manifests, SBOMs and METADATA are far smaller."""

MAX_MEMBER = 1 << 30
"""Bytes of a member that is read whole at all. Indexes take smaller wheels than that."""

MANIFEST = "_manifest.json"
"""The manifest's name, in the model's Python package."""


@dataclass(frozen=True)
class Member:
    """A file in a wheel; both sizes are in bytes."""

    size: int
    compressed: int


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name (binary distribution format, "File name convention")."""

    distribution: NormalizedName
    version: Version
    tags: frozenset[Tag]


@dataclass(frozen=True)
class Wheel(WheelName):
    """A wheel whose name and directory of members are valid; see `open_wheel`."""

    path: Path
    members: Mapping[str, Member]
    """Every file by its name, without directories."""

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size

    @cached_property
    def dist_info(self) -> str:
        """The name of its `.dist-info` directory.

        Raises:
            WheelError: It does not have exactly one.
        """
        tops = {name.partition("/")[0] for name in self.members if "/" in name}
        directories = [top for top in tops if top.endswith(".dist-info")]
        if len(directories) != 1:
            raise invalid_wheel(
                self.path, f"{len(directories)} .dist-info directories instead of one"
            )
        return directories[0]

    @cached_property
    def metadata_content(self) -> bytes:
        """The METADATA file, unchanged."""
        return self.read_text(f"{self.dist_info}/METADATA")

    @cached_property
    def metadata(self) -> Metadata:
        """Name, version, licence, requirements and model card.

        Raises:
            WheelError: METADATA is missing or not valid.
        """
        return parse_metadata(self.metadata_content, f"{self.path}: METADATA")

    @cached_property
    def wheel_metadata(self) -> Message:
        """The fields of the WHEEL file; none if it is missing."""
        name = f"{self.dist_info}/WHEEL"
        return BytesParser().parsebytes(self.read_text(name) if name in self.members else b"")

    @property
    def has_manifest(self) -> bool:
        """Whether it says that it is of a model, whatever else is true of it."""
        return any(name.endswith(f"/{MANIFEST}") for name in self.members)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of its model.

        Raises:
            WheelError: It has none, or one that this version cannot read.
        """
        names = [name for name in self.members if PurePosixPath(name).match(f"*/{MANIFEST}")]
        if len(names) != 1:
            raise no_model(self.path)
        return Manifest.parse(self.read_text(names[0]), str(self.path))

    def require_own_name(self) -> None:
        """Checks that METADATA has the name and version of the file name.

        Raises:
            WheelError: The file was renamed.
        """
        metadata = self.metadata
        stated = (canonicalize_name(metadata.name), metadata.version)
        if stated != (self.distribution, self.version):
            raise WheelError(
                f"{self.path} contains {metadata.name} {metadata.version}; "
                "restore the file name that it was built with",
                code="MW602",
            )

    def read(self, name: str) -> bytes:
        """The content of one member.

        Raises:
            WheelError: It is missing or damaged.
        """
        member = self.members[self._require(name)]
        self.require_size(name, member.size)
        with _opened(self.path) as archive, archive.open(name) as file:
            return _MemberFile(self.path, file, member.size).read()

    def require_size(self, name: str, size: int) -> None:
        """Raises WheelError if a member is too large to be read into memory."""
        if size > MAX_MEMBER:
            raise invalid_wheel(
                self.path, f"{name} has {size_text(size)}; at most {size_text(MAX_MEMBER)} are read"
            )

    def read_text(self, name: str) -> bytes:
        """The content of a member that has to be small.

        Raises:
            WheelError: It is missing, damaged, or larger than any file of this kind.
        """
        member = self.members[self._require(name)]
        require_text_size(self.path, name, member.size)
        return self.read(name)

    def open_members(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Opens one member after the other; each is closed when the next one is asked for.

        Raises:
            WheelError: One is damaged. Reading it raises WheelError, too.
        """
        with _opened(self.path) as archive:
            for name, member in self.members.items():
                with archive.open(name) as file:
                    yield name, cast("IO[bytes]", _MemberFile(self.path, file, member.size))

    def _require(self, name: str) -> str:
        if name not in self.members:
            raise invalid_wheel(self.path, f"it has no {name}")
        return name


def open_wheel(path: Path) -> Wheel:
    """Opens a wheel and checks its name and its directory of members.

    Raises:
        WheelError: The file cannot be read or is not a wheel that every installer accepts.
    """
    name = parse_name(path)
    with _errors_of(path), open_plain(path) as file, open_zip(file) as archive:
        members = dict(_list_members(path, archive))
        if problem := container_problem(file, archive):
            raise invalid_wheel(path, problem)
    return Wheel(name.distribution, name.version, name.tags, path, members)


def parse_name(path: Path) -> WheelName:
    """Parses the name of a wheel.

    Raises:
        WheelError: It is not a wheel's name.
    """
    try:
        distribution, version, _, tags = parse_wheel_filename(path.name)
        if not is_normalized_name(distribution):  # of dots alone, for example
            raise InvalidWheelFilename(f"Invalid wheel filename (distribution): {path.name!r}")
    except InvalidWheelFilename as error:
        raise WheelError(
            f"{path}: {one_line(error)}; restore the name that it was built with", code="MW602"
        ) from None
    return WheelName(distribution, version, tags)


def parse_metadata(content: bytes, origin: str) -> Metadata:
    """Parses a METADATA or PKG-INFO file, which comes from `origin`.

    Raises:
        WheelError: It is not valid.
    """
    try:
        return Metadata.from_email(content)
    except (ExceptionGroup, InvalidMetadata, UnicodeDecodeError) as error:
        first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        raise WheelError(
            f"{one_line(origin)}: {one_line(first)}. Build it again.", code="MW602"
        ) from None


def require_text_size(path: Path, name: str, size: int) -> None:
    """Raises WheelError if a text member is larger than any that modelwheel writes."""
    if size > MAX_TEXT:
        raise WheelError(
            f"{path}: {one_line(name)} has {size_text(size)}; at most {size_text(MAX_TEXT)} are read. Build it again.",
            code="MW602",
        )


def invalid_wheel(path: Path, reason: object) -> WheelError:
    """The error for a damaged or foreign file."""
    return WheelError(
        f"{path} is not a valid wheel ({one_line(reason)}). Download or build it again.",
        code="MW602",
    )


def no_model(path: Path) -> WheelError:
    """The error for a wheel or source distribution of something else."""
    return WheelError(f"{path} has no model manifest; it was not built by modelwheel", code="MW602")


def _list_members(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, Member]]:
    seen, names, tally = set[str](), NameSet(), Tally()
    for info in archive.infolist():
        # `filename` ends at the first NUL; the original does not.
        name = info.orig_filename
        tally.count(info.file_size)
        if name in seen:
            # Installers differ in which of the two they keep.
            raise invalid_wheel(path, f"it contains {name} twice")
        seen.add(name)
        if mode := _mode_problem(info):
            raise invalid_wheel(path, f"{name} {mode}")
        if name.endswith("/"):
            if info.file_size or info.compress_size:
                raise invalid_wheel(path, f"{name} is a directory with bytes of its own")
            _require_safe(path, name.rstrip("/"))
            continue
        # Installers write by these names: none may lead elsewhere, also not on Windows.
        _require_safe(path, name)
        try:
            names.add(name)
        except UnsafePathError as error:
            raise invalid_wheel(path, error) from None
        if problem := zip_problem(info):
            raise invalid_wheel(path, problem)
        yield name, Member(info.file_size, info.compress_size)


def _mode_problem(info: zipfile.ZipInfo) -> str:
    """The problem of the mode of a member, which some installers set; continues its name."""
    mode = info.external_attr >> 16  # as Unix tools write it; 0 elsewhere
    kind = stat.S_IFDIR if info.orig_filename.endswith("/") else stat.S_IFREG
    if stat.S_IFMT(mode) not in (0, kind):
        return "is a link, a device or of another kind than its name says"
    if mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX):
        return "has a set-user-ID, set-group-ID or sticky bit"
    return ""


def _require_safe(path: Path, name: str) -> None:
    if problem := safety_problem(name):
        raise invalid_wheel(path, f"the file name {name!r} {problem}")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens the archive; whatever zipfile raises while it is open becomes a WheelError."""
    with _errors_of(path), open_plain(path) as file, open_zip(file) as archive:
        yield archive


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:  # before OSError, of which some are subclasses
        raise invalid_wheel(path, damage_reason(error)) from None
    except OSError as error:
        # zipfile seeks to places that a damaged directory names.
        if error.errno == errno.EINVAL:
            raise invalid_wheel(path, "its directory is damaged") from None
        raise WheelError(f"cannot read {path}: {error.strerror or error}", code="MW602") from None


class _MemberFile:
    """A member that is being read: damage found on the way is a WheelError, too."""

    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self._path, self._file, self._left = path, file, size

    def read(self, size: int = -1, /) -> bytes:
        with _errors_of(self._path):
            content = self._file.read(size)
            self._left -= len(content)
            if self._left and (size < 0 or (size and not content)):
                raise EOFError("a file is shorter than the directory says")
            return content
