"""The entries of a release: one small file that has all that an index and a catalogue show of its files.

`modelwheel publish` adds it to a release on GitHub, so that a site of hundreds of models is written without a download of their
wheels. It is compressed with a dictionary of megabytes, because wheels for different Pythons have nearly the same manifest.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from typing import Literal

from packaging.metadata import Metadata
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from pydantic import ValidationError

from ..errors import WheelError
from ..util.files import digest_file
from ..util.records import JsonRecord, first_mistake
from ..util.words import size_text
from ..versions import RUNTIME
from ..wheelfile.collect import ENTRIES, WHEEL
from ..wheelfile.contents import open_contents
from ..wheelfile.reports import read_companions
from ..wheelfile.sizes import read_sizes
from ..wheelfile.unverified import require_verified
from ..wheelfile.wheel import Wheel, open_wheel, parse_metadata

__all__ = ["ENTRIES", "Entries", "Entry", "read_entries", "read_entry", "write_entries"]

_MAX_TEXT = 256 << 20
"""Bytes of all entries of a release; those of 56 wheels have a few millions."""


class Entry(JsonRecord):
    """One file."""

    file: str
    sha256: str
    size: int
    metadata: str
    """METADATA or PKG-INFO."""
    manifest: str | None
    """The manifest of a model's wheel as JSON."""
    sizes: tuple[int, int, int, int] | None
    """See `WheelSizes`."""
    companions: dict[str, str]
    """Measurements and signed statements, by the endings of their names."""
    bill: str | None = None
    """The bill of materials of a model's wheel."""

    @cached_property
    def parsed(self) -> Metadata:
        """Name, version and requirements.

        Raises:
            WheelError: They cannot be read.
        """
        return parse_metadata(self.metadata.encode(), self.file)

    @property
    def project(self) -> str:
        """The normalised name."""
        return canonicalize_name(self.parsed.name)


class Entries(JsonRecord):
    """All files of a release."""

    JSON_INDENT = None

    format: Literal[1] = 1
    tag: str
    files: tuple[Entry, ...]


def read_entry(path: Path) -> tuple[str, Entry]:
    """The tag of a file's release, and its entry.

    Raises:
        WheelError: It is damaged, was renamed, or was not built by modelwheel.
    """
    return _of_wheel(open_wheel(path)) if path.suffix == WHEEL else _of_sdist(path)


def _of_wheel(wheel: Wheel) -> tuple[str, Entry]:
    require_verified(wheel)
    wheel.require_own_name()
    model = None if wheel.distribution == RUNTIME else wheel.manifest
    sizes = None if model is None else read_sizes(wheel)
    name = RUNTIME if model is None else model.model.name
    digest = digest_file(wheel.path)
    entry = Entry(
        file=wheel.name,
        sha256=digest.sha256,
        size=digest.size,
        metadata=wheel.metadata_content.decode(),
        manifest=None if model is None else model.model_dump_json(),
        sizes=None if sizes is None else astuple(sizes),
        companions=read_companions(wheel.path),
        bill=None if model is None else _bill_of(wheel),
    )
    return f"{name}-{wheel.version}", entry


def _bill_of(wheel: Wheel) -> str | None:
    # PEP 770 fixes the directory.
    bills = [name for name in wheel.members if name.startswith(f"{wheel.dist_info}/sboms/")]
    return wheel.read_text(bills[0]).decode(errors="replace") if len(bills) == 1 else None


def _of_sdist(path: Path) -> tuple[str, Entry]:
    contents, digest = open_contents(path), digest_file(path)
    metadata = contents.metadata
    _require_name(path.name, metadata, str(path))
    runtime = canonicalize_name(metadata.name) == RUNTIME
    name = RUNTIME if runtime else contents.manifests[0].model.name
    entry = Entry(
        file=path.name,
        sha256=digest.sha256,
        size=digest.size,
        metadata=contents.texts["PKG-INFO"].decode(),
        manifest=None,
        sizes=None,
        companions=read_companions(path),
    )
    return f"{name}-{metadata.version}", entry


def write_entries(tag: str, files: Iterable[Entry], out: Path) -> Path:
    """Writes the entries of a release, the same bytes for the same files; returns their path."""
    ordered = sorted(files, key=lambda entry: entry.file)
    path = out / f"{tag}{ENTRIES}"
    path.write_bytes(lzma.compress(Entries(tag=tag, files=tuple(ordered)).to_json(), preset=6))
    return path


def read_entries(path: Path) -> Entries:
    """The entries that `write_entries` wrote.

    Raises:
        WheelError: They are something else.
    """
    try:
        decoder = lzma.LZMADecompressor(memlimit=_MAX_TEXT)
        text = decoder.decompress(path.read_bytes(), _MAX_TEXT + 1)
        if len(text) > _MAX_TEXT:
            raise WheelError(f"{path} has more than {size_text(_MAX_TEXT)} of text; remove it")
        if not decoder.eof:
            raise EOFError
        entries = Entries.model_validate_json(text)
    except OSError as error:
        raise WheelError(f"cannot read {path}: {error.strerror or error}") from None
    except (lzma.LZMAError, EOFError):
        raise WheelError(f"{path} is damaged; download it again") from None
    except ValidationError as error:
        raise WheelError(
            f"{path} has no entries that this modelwheel reads: {first_mistake(error)}"
        ) from None
    for entry in entries.files:
        _require_name(entry.file, entry.parsed, str(path))
    return entries


def _require_name(file: str, metadata: Metadata, where: str) -> None:
    """Refuses a file whose name is not that of its metadata: names become parts of paths and of addresses."""
    try:
        parsed = parse_wheel_filename if file.endswith(WHEEL) else parse_sdist_filename
        named = parsed(file)[:2]
    except (InvalidWheelFilename, InvalidSdistFilename):
        named = None
    if "/" in file or named != (canonicalize_name(metadata.name), metadata.version):
        raise WheelError(
            f"{where} contains {metadata.name} {metadata.version} under the name {file!r}; restore the file name "
            "that it was built with"
        )
