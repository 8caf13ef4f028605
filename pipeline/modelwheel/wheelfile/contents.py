"""The contents of a wheel or model source distribution: files with their hashes, metadata, manifests, SBOMs.

Nothing is unpacked and nothing is run. Claims are not verified here, but in `modelwheel.provenance`.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, TypeAlias

from packaging.metadata import Metadata

from ..assembly.manifest import Manifest
from ..errors import SourceError, WheelError
from ..packaging.checksums import CHECKSUMS, parse_checksums
from ..source.members import DAMAGE, damage_reason, read_members
from ..util.files import FileDigest, digest_stream
from ..util.records import parse_json
from ..util.text import one_line
from ..util.trees import open_plain
from .wheel import (
    MANIFEST,
    Wheel,
    no_model,
    open_wheel,
    parse_metadata,
    require_text_size,
)

Kind: TypeAlias = Literal["wheel", "sdist"]

_UNLISTED = {
    # RECORD cannot have its own hash and lists no signatures (binary distribution format).
    "wheel": ("RECORD", "RECORD.jws", "RECORD.p7s"),
    # The build backend adds PKG-INFO to what `write_checksums` listed.
    "sdist": (CHECKSUMS, "PKG-INFO"),
}


@dataclass(frozen=True)
class Mismatch:
    """A file that its list of hashes does not describe."""

    file: str
    problem: str
    """A sentence without its subject, which is `file`."""


@dataclass(frozen=True)
class Contents:
    """A wheel or source distribution with every file hashed; see `open_contents`."""

    path: Path
    kind: Kind
    files: dict[str, FileDigest]
    """Every file. Names in a source distribution are relative to its top directory."""
    texts: dict[str, bytes]
    """Contents of metadata, manifests, SBOMs and lists of hashes."""
    wheel: Wheel | None = None
    """The wheel itself, if it is one."""

    @cached_property
    def metadata(self) -> Metadata:
        """Name, version, licence, requirements and model card.

        Raises:
            WheelError: They cannot be read.
        """
        if self.wheel is not None:
            return self.wheel.metadata
        return parse_metadata(self._single("PKG-INFO"), f"{self.path}: PKG-INFO")

    @cached_property
    def manifest_texts(self) -> dict[str, bytes]:
        """Manifests as bytes, by file name."""
        pattern = "platforms/*/manifest.json" if self.kind == "sdist" else f"*/{MANIFEST}"
        return self._matching(pattern)

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """A wheel's manifest, or a source distribution's manifests of all platforms.

        Raises:
            WheelError: There is none, or one cannot be read.
        """
        if not self.manifest_texts:
            raise no_model(self.path)
        return tuple(
            Manifest.parse(content, f"{self.path}: {name}")
            for name, content in sorted(self.manifest_texts.items())
        )

    @cached_property
    def sbom_texts(self) -> dict[str, bytes]:
        """SBOMs as bytes, by file name; in a source distribution they are templates."""
        sdist = self.kind == "sdist"
        return self._matching("platforms/*/*.cdx.json.in" if sdist else "*.dist-info/sboms/*.json")

    @cached_property
    def sboms(self) -> dict[str, dict[str, Any]]:
        """Parsed SBOMs by file name.

        Raises:
            WheelError: One is not a JSON object.
        """
        return {name: self._parse(name, text) for name, text in sorted(self.sbom_texts.items())}

    def require_sboms(self) -> dict[str, bytes]:
        """Returns `sbom_texts`.

        Raises:
            WheelError: There is none.
        """
        if not self.sbom_texts:
            raise WheelError(f"{self.path} has no SBOM. Build it again.", code="MW602")
        return self.sbom_texts

    @property
    def hash_list(self) -> str:
        """The name of the file that lists the hashes of all others."""
        return CHECKSUMS if self.kind == "sdist" else "RECORD"

    @cached_property
    def listed(self) -> dict[str, FileDigest | None]:
        """Files as the list of hashes describes them; None where it has no hash.

        Raises:
            WheelError: There is no such list, or it is not valid.
        """
        try:
            if self.kind == "sdist":
                return dict(self._read_checksums())
            return dict(_read_record(self._single("*.dist-info/RECORD")))
        except (ValueError, csv.Error) as error:
            raise WheelError(
                f"{self.path}: {self.hash_list} is not valid: {one_line(error)}", code="MW602"
            ) from None

    def mismatches(self) -> Iterator[Mismatch]:
        """Compares every file with the list of hashes, in both directions.

        Raises:
            WheelError: The list is missing or not valid.
        """
        top = "" if self.wheel is None else f"{self.wheel.dist_info}/"
        exempt = {top + name for name in _UNLISTED[self.kind]}
        for name, file in sorted(self.files.items()):
            if name in exempt:
                continue
            if name not in self.listed:
                yield Mismatch(name, f"is not listed in {self.hash_list}")
            elif self.listed[name] != file:
                yield Mismatch(name, f"differs from the hash or size in {self.hash_list}")
        for name in sorted(self.listed.keys() - self.files.keys()):
            yield Mismatch(name, f"is listed in {self.hash_list} and missing")

    def read(self, name: str) -> bytes:
        """The content of one file; in a source distribution, everything before it is read again.

        Raises:
            WheelError: There is no such file.
        """
        if self.wheel is not None:
            return self.wheel.read(name)
        with _errors_of_sdist(self.path):
            for member, file in _sdist_files(self.path):
                if member == name:
                    return file.read()
        raise WheelError(f"{self.path} has no file {name}", code="MW602")

    def summary(self) -> dict[str, Any]:
        """Everything as JSON-serialisable values."""
        metadata = self.metadata
        return {
            "file": str(self.path),
            "kind": self.kind,
            "name": metadata.name,
            "version": str(metadata.version),
            "summary": metadata.summary,
            "license": metadata.license_expression,
            "requires_python": str(metadata.requires_python or ""),
            "requires": [str(requirement) for requirement in metadata.requires_dist or ()],
            "model_card": metadata.description,
            "manifests": [manifest.model_dump(mode="json") for manifest in self.manifests],
            "sboms": self.sboms,
            "files": {name: asdict(file) for name, file in sorted(self.files.items())},
        }

    def _matching(self, pattern: str) -> dict[str, bytes]:
        return {name: text for name, text in self.texts.items() if _matches(name, pattern)}

    def _single(self, pattern: str) -> bytes:
        matching = self._matching(pattern)
        if len(matching) != 1:
            raise WheelError(
                f"{self.path} has {len(matching)} files {pattern} instead of one", code="MW602"
            )
        return next(iter(matching.values()))

    def _parse(self, name: str, text: bytes) -> dict[str, Any]:
        try:
            parsed = parse_json(text)
        except ValueError as error:
            raise WheelError(
                f"{self.path}: {one_line(name)} is not JSON: {one_line(error)}. Build it again.",
                code="MW602",
            ) from None
        if not isinstance(parsed, dict):
            raise WheelError(
                f"{self.path}: {one_line(name)} is not an SBOM. Build it again.", code="MW602"
            )
        return parsed

    def _read_checksums(self) -> Iterator[tuple[str, FileDigest]]:
        for name, digest in parse_checksums(self._single(CHECKSUMS)).items():
            # SHA256SUMS has no sizes: take that of the file, if it is there.
            size = self.files[name].size if name in self.files else 0
            yield name, FileDigest(digest, size)


def open_contents(path: Path) -> Contents:
    """Reads and hashes every file of a wheel (`.whl`) or model source distribution (`.tar.gz`).

    Raises:
        WheelError: It is neither, cannot be read, or contains a name twice.
    """
    if path.name.endswith(".whl"):
        wheel = open_wheel(path)
        return _read(path, "wheel", _wheel_files(wheel), wheel)
    if path.name.endswith(".tar.gz"):
        with _errors_of_sdist(path):
            return _read(path, "sdist", _sdist_files(path))
    raise WheelError(
        f"{path} is neither a wheel (.whl) nor a source distribution (.tar.gz)", code="MW602"
    )


@contextmanager
def _errors_of_sdist(path: Path) -> Iterator[None]:
    try:
        yield
    except (SourceError, *DAMAGE) as error:  # before OSError, of which some are subclasses
        reason = error if isinstance(error, SourceError) else damage_reason(error)
        raise WheelError(
            f"{path} is not a valid source distribution ({one_line(reason)}). "
            "Download or build it again.",
            code="MW602",
        ) from None
    except OSError as error:
        raise WheelError(f"cannot read {path}: {error.strerror or error}", code="MW602") from None


def _read(
    path: Path, kind: Kind, members: Iterator[tuple[str, IO[bytes]]], wheel: Wheel | None = None
) -> Contents:
    files: dict[str, FileDigest] = {}
    texts: dict[str, bytes] = {}
    for name, file in members:
        copy = io.BytesIO() if _is_text(name, kind) else None
        files[name] = digest_stream(file, copy)
        if copy is not None:
            texts[name] = copy.getvalue()
            require_text_size(path, "its texts together", sum(map(len, texts.values())))
    return Contents(path, kind, files, texts, wheel)


def _wheel_files(wheel: Wheel) -> Iterator[tuple[str, IO[bytes]]]:
    for name, member in wheel.members.items():
        if _is_text(name, "wheel"):
            # Before anything is read: zipfile never returns more than the size in the directory.
            require_text_size(wheel.path, name, member.size)
    yield from wheel.open_members()


def _sdist_files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    seen: set[str] = set()
    with open_plain(path) as archive:
        for member in read_members(archive, path.name):
            name = "/".join(PurePosixPath(member.name).parts[1:])
            if member.kind != "file":
                continue
            if name in seen:
                raise WheelError(
                    f"{path} contains {one_line(name)} twice. Build it again.", code="MW602"
                )
            seen.add(name)
            if _is_text(name, "sdist"):
                require_text_size(path, name, member.size)
            with member.open() as file:
                yield name, file


_TEXTS: dict[Kind, tuple[str, ...]] = {
    "wheel": (f"*/{MANIFEST}", "*.dist-info/METADATA", "*.dist-info/RECORD",
              "*.dist-info/WHEEL", "*.dist-info/sboms/*.json"),
    "sdist": ("PKG-INFO", CHECKSUMS, "platforms/*/manifest.json", "platforms/*/*.cdx.json.in"),
}  # fmt: skip


def _is_text(name: str, kind: Kind) -> bool:
    return any(_matches(name, pattern) for pattern in _TEXTS[kind])


def _matches(name: str, pattern: str) -> bool:
    """Whether a whole name matches, component by component."""
    path = PurePosixPath(name)
    # `match` compares from the right, so without the count `a/b/x.json` would match `*/x.json`.
    return len(path.parts) == pattern.count("/") + 1 and path.match(pattern)


def _read_record(content: bytes) -> Iterator[tuple[str, FileDigest | None]]:
    """Reads RECORD with PyPA's own reader; any other hash than SHA-256 is refused."""
    from installer.records import InvalidRecordEntry, RecordEntry, parse_record_file

    try:
        for row in parse_record_file(content.decode().splitlines()):
            entry = RecordEntry.from_elements(*row)
            if entry.hash_ is None or entry.size is None:
                yield entry.path, None
            elif entry.hash_.name != "sha256":
                raise ValueError(f"{entry.path} has a {entry.hash_.name} hash instead of sha256")
            else:
                # RECORD omits the padding of base64; too much of it does no harm.
                digest = base64.urlsafe_b64decode(entry.hash_.value + "==").hex()
                yield entry.path, FileDigest(digest, entry.size)
    except InvalidRecordEntry as error:
        raise ValueError(str(error)) from None
