"""What is in a wheel or model source distribution: model card, manifests, bills of materials, files.

Nothing is unpacked and nothing is run. What a file says of itself is not believed here: whether it is
true, `modelwheel.provenance.replay` finds out.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, TypeAlias

from packaging.metadata import ExceptionGroup, InvalidMetadata, Metadata

from ..assembly.manifest import Manifest
from ..errors import WheelError
from ..packaging.checksums import CHECKSUMS, parse_checksums
from ..util.files import FileDigest, digest_stream

Kind: TypeAlias = Literal["wheel", "sdist"]

_MAX_TEXT = 64 << 20
"""Bytes of what is read whole: no manifest, bill of materials or model card is larger."""


@dataclass(frozen=True)
class Contents:
    """An opened wheel or source distribution; see `open_contents`."""

    path: Path
    kind: Kind
    files: dict[str, FileDigest]
    """Every file; those of a source distribution without the directory around them."""
    texts: dict[str, bytes]
    """Whole contents of metadata, manifests, bills of materials and lists of hashes."""

    @cached_property
    def metadata(self) -> Metadata:
        """Name, version, licence, requirements and the model card.

        Raises:
            WheelError: It cannot be read.
        """
        place = "PKG-INFO" if self.kind == "sdist" else "*.dist-info/METADATA"
        content = self._single(place)
        try:
            return Metadata.from_email(content)
        except (ExceptionGroup, InvalidMetadata, UnicodeDecodeError) as error:
            first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            raise WheelError(f"{self.path}: {place}: {first}; build it again") from None

    @cached_property
    def manifest_texts(self) -> dict[str, bytes]:
        """Manifests as they lie there, by the names of their files."""
        pattern = "platforms/*/manifest.json" if self.kind == "sdist" else "*/_manifest.json"
        return self._matching(pattern)

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """A wheel's manifest, or those of all platforms.

        Raises:
            WheelError: There is none, or one cannot be read.
        """
        if not self.manifest_texts:
            raise WheelError(
                f"{self.path} holds no model: it has no manifest; was it built by modelwheel?"
            )
        return tuple(
            Manifest.parse(content, f"{self.path}: {name}")
            for name, content in sorted(self.manifest_texts.items())
        )

    @cached_property
    def sbom_texts(self) -> dict[str, bytes]:
        """Bills of materials as they lie there; in a source distribution, templates of them."""
        wheel = self._matching("*.dist-info/sboms/*.json")
        return self._matching("platforms/*/*.cdx.json.in") if self.kind == "sdist" else wheel

    @cached_property
    def sboms(self) -> dict[str, dict[str, Any]]:
        """Bills of materials by the names of their files.

        Raises:
            WheelError: One is no JSON.
        """
        return {name: self._parse(name, text) for name, text in sorted(self.sbom_texts.items())}

    def require_sboms(self) -> dict[str, bytes]:
        """As `sbom_texts`.

        Raises:
            WheelError: There is none.
        """
        if not self.sbom_texts:
            raise WheelError(f"{self.path} holds no bill of materials; build it again")
        return self.sbom_texts

    @property
    def recorded(self) -> dict[str, str]:
        """SHA-256 of files by name, as `RECORD` or `SHA256SUMS` lists them; empty for what has none.

        Raises:
            WheelError: There is no such list, or it cannot be read.
        """
        try:
            if self.kind == "sdist":
                return parse_checksums(self._single(CHECKSUMS))
            return dict(_read_record(self._single("*.dist-info/RECORD")))
        except (ValueError, csv.Error) as error:
            raise WheelError(f"{self.path}: its list of hashes cannot be read: {error}") from None

    def read(self, name: str) -> bytes:
        """The content of one file of a wheel."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(name)

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON holds it."""
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
        found = self._matching(pattern)
        if len(found) != 1:
            raise WheelError(f"{self.path} holds {len(found)} files {pattern} instead of one")
        return next(iter(found.values()))

    def _parse(self, name: str, text: bytes) -> dict[str, Any]:
        try:
            parsed = json.loads(text)
        except ValueError as error:
            raise WheelError(f"{self.path}: {name} is no JSON: {error}; build it again") from None
        if not isinstance(parsed, dict):
            raise WheelError(f"{self.path}: {name} is no bill of materials; build it again")
        return parsed


def open_contents(path: Path) -> Contents:
    """Reads and hashes every file of a wheel (`.whl`) or model source distribution (`.tar.gz`).

    Raises:
        WheelError: It is neither, cannot be read, or holds a name twice.
    """
    try:
        if path.name.endswith(".whl"):
            return _read(path, "wheel", _wheel_files(path))
        if path.name.endswith(".tar.gz"):
            return _read(path, "sdist", _sdist_files(path))
    except OSError as error:
        raise WheelError(f"cannot read {path}: {error.strerror or error}; name a file") from None
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise WheelError(f"{path} is not whole: {error}; fetch or build it again") from None
    raise WheelError(f"{path} is neither a wheel (.whl) nor a source distribution (.tar.gz)")


def _read(path: Path, kind: Kind, members: Iterator[tuple[str, IO[bytes]]]) -> Contents:
    files: dict[str, FileDigest] = {}
    texts: dict[str, bytes] = {}
    for name, file in members:
        if name in files:
            raise WheelError(f"{path} holds {name} twice; nobody can tell which would be installed")
        copy = io.BytesIO() if _is_text(name, kind) else None
        files[name] = digest_stream(file, copy)
        if copy is not None:
            texts[name] = copy.getvalue()
    return Contents(path, kind, files, texts)


def _wheel_files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                _require_small(path, member.filename, member.file_size, "wheel")
                with archive.open(member) as file:
                    yield member.filename, file


def _sdist_files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(path) as archive:
        for member in archive:
            name = "/".join(PurePosixPath(member.name).parts[1:])
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                _require_small(path, name, member.size, "sdist")
                yield name, file


_TEXTS: dict[Kind, tuple[str, ...]] = {
    "wheel": ("*/_manifest.json", "*.dist-info/METADATA", "*.dist-info/RECORD",
              "*.dist-info/WHEEL", "*.dist-info/sboms/*.json"),
    "sdist": ("PKG-INFO", CHECKSUMS, "platforms/*/manifest.json", "platforms/*/*.cdx.json.in"),
}  # fmt: skip


def _is_text(name: str, kind: Kind) -> bool:
    return any(_matches(name, pattern) for pattern in _TEXTS[kind])


def _matches(name: str, pattern: str) -> bool:
    """Whether a whole name matches, component by component."""
    path = PurePosixPath(name)
    return len(path.parts) == pattern.count("/") + 1 and path.match(pattern)


def _require_small(path: Path, name: str, size: int, kind: Kind) -> None:
    if size > _MAX_TEXT and _is_text(name, kind):
        raise WheelError(f"{path}: {name} has {size} bytes: no wheel of modelwheel has such a file")


def _read_record(content: bytes) -> Iterator[tuple[str, str]]:
    for name, digest, *_ in csv.reader(content.decode().splitlines()):
        algorithm, _, value = digest.partition("=")
        if algorithm and algorithm != "sha256":
            raise ValueError(f"{name} has a hash of the kind {algorithm!r} instead of sha256")
        yield name, base64.urlsafe_b64decode(value + "==").hex()
