"""The facts that the index and the catalogue need from each file, and from what is stored beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from ...assembly.manifest import Manifest
from ...util.watching import NOBODY, Watcher, each
from ...wheelfile.reports import (
    BENCH_SUFFIX,
    REPORT_SUFFIX,
    UPLOAD_SUFFIX,
    Report,
    Timing,
    parse_beside,
    parse_report,
    parse_timings,
    parse_upload,
    read_upload,
)
from ...wheelfile.sizes import WheelSizes
from ..entries import ENTRIES, Entry, read_entries, read_entry


@dataclass(frozen=True)
class IndexedFile:
    """A wheel or source distribution in the index."""

    name: str
    """The file name."""
    path: Path | None
    """None if only its entry is here: the file stays where it was released."""
    tag: str
    """Of its release (`NAME-VERSION`)."""
    project: str
    """Normalised as in PEP 503."""
    version: Version
    sha256: str
    size: int
    metadata: bytes
    """The METADATA or PKG-INFO file, unchanged."""
    requires_python: str | None
    requires: tuple[Requirement, ...]
    """Unconditional and conditional requirements, without those of extras."""
    companions: dict[str, bytes]
    """What is stored beside it, by the ending of its name."""
    uploaded: datetime | None
    """When it was released; None if nothing says so."""

    def link(self, base_url: str, template: str | None) -> str:
        """Where the file is served.

        Args:
            base_url: Of the site, ending with a slash, or a relative one.
            template: The address of files that are elsewhere, with `{tag}`, `{name}`, `{version}` and `{file}`.
        """
        if template is None:
            return base_url + quote(self.name)
        values = {
            "tag": self.tag,
            "name": self.project,
            "version": str(self.version),
            "file": self.name,
        }
        return template.format_map({key: quote(value) for key, value in values.items()})


@dataclass(frozen=True)
class IndexedWheel(IndexedFile):
    """A wheel in the index."""

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """The platforms and Pythons that it can be installed on."""
        return parse_wheel_filename(self.name)[3]


@dataclass(frozen=True)
class ModelWheel(IndexedWheel):
    """The wheel of a model. All other wheels of an index are dependencies of these."""

    manifest: Manifest
    sizes: WheelSizes
    report: Report | None
    timings: tuple[Timing, ...]
    bill: str | None
    """Its bill of materials."""


def read_files(paths: Iterable[Path], watcher: Watcher = NOBODY) -> list[IndexedFile]:
    """Reads wheels, source distributions and the entries of releases, sorted by project, version and file name.

    Args:
        paths: The files. A file and its entry are one.
        watcher: Receives the name of each.

    Raises:
        WheelError: One is damaged, was renamed, or was not built by modelwheel.
    """
    files: dict[str, IndexedFile] = {}
    ordered = sorted(paths, key=lambda path: not path.name.endswith(ENTRIES))
    for path in each(ordered, lambda path: path.name, watcher):
        if path.name.endswith(ENTRIES):
            listed, released = read_entries(path), read_upload(path)
            files.update((e.file, _index(e, listed.tag, None, released)) for e in listed.files)
        else:
            tag, entry = read_entry(path)
            files[path.name] = _index(entry, tag, path, None)
    return sorted(files.values(), key=lambda file: (file.project, file.version, file.name))


def _index(entry: Entry, tag: str, path: Path | None, released: datetime | None) -> IndexedFile:
    """A file of the index; `released` is when, unless a companion says it of this file."""
    metadata, where = entry.parsed, path or entry.file
    texts = {ending: text.encode() for ending, text in entry.companions.items()}
    upload = parse_beside(texts.get(UPLOAD_SUFFIX), f"{where}{UPLOAD_SUFFIX}", parse_upload)
    common: dict[str, Any] = {
        "name": entry.file,
        "path": path,
        "tag": tag,
        "project": entry.project,
        "version": metadata.version,
        "sha256": entry.sha256,
        "size": entry.size,
        "metadata": entry.metadata.encode(),
        "requires_python": str(metadata.requires_python) if metadata.requires_python else None,
        "requires": tuple(r for r in metadata.requires_dist or () if not _is_extra(r)),
        "companions": texts,
        "uploaded": upload or released,
    }
    if not entry.file.endswith(".whl"):
        return IndexedFile(**common)
    if entry.manifest is None or entry.sizes is None:
        return IndexedWheel(**common)
    return ModelWheel(
        **common,
        manifest=Manifest.parse(entry.manifest.encode(), entry.file),
        sizes=WheelSizes(*entry.sizes),
        report=parse_beside(texts.get(REPORT_SUFFIX), f"{where}{REPORT_SUFFIX}", parse_report),
        timings=parse_beside(texts.get(BENCH_SUFFIX), f"{where}{BENCH_SUFFIX}", parse_timings)
        or (),
        bill=entry.bill,
    )


def _is_extra(requirement: Requirement) -> bool:
    return requirement.marker is not None and "extra ==" in str(requirement.marker)
