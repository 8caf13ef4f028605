"""Where a model comes from: a repository, a file that is downloaded, or a directory; all pinned.

`path` is the directory of a SavedModel, or the one file of a model of another format. Names whose
content can change (branches, tags, short commits) are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Discriminator, Tag

from ...util.words import nearest_word
from ..fields import mistake
from .addresses import is_local
from .common import ExtraFile, ModelSource, OrderedTensors
from .directory import DirectorySource
from .files import (
    ArchiveSource,
    DownloadSource,
    FileSource,
    GitHubReleaseSource,
    PyPISource,
    SingleSource,
    ZenodoSource,
)
from .repositories import GitSource, HuggingFaceSource, RepositorySource

__all__ = [
    "SOURCE_KINDS",
    "AnySource",
    "ArchiveSource",
    "DirectorySource",
    "DownloadSource",
    "ExtraFile",
    "FileSource",
    "GitHubReleaseSource",
    "GitSource",
    "HuggingFaceSource",
    "ModelSource",
    "OrderedTensors",
    "PyPISource",
    "RepositorySource",
    "SingleSource",
    "Source",
    "ZenodoSource",
    "is_local",
    "source_of",
    "source_tag",
]

AnySource: TypeAlias = RepositorySource | DownloadSource | DirectorySource

SOURCE_KINDS: Mapping[str, type[ModelSource]] = {
    "git": GitSource,
    "huggingface": HuggingFaceSource,
    "archive": ArchiveSource,
    "zenodo": ZenodoSource,
    "github_release": GitHubReleaseSource,
    "pypi": PyPISource,
    # After those that have a `file` of their own.
    "file": FileSource,
    "directory": DirectorySource,
}
"""The key that decides the kind of a source, and its class; the first that is there counts."""

_FIELDS_OF_OTHERS = {
    key: {kind for kind, section in SOURCE_KINDS.items() if key in section.model_fields}
    for key in SOURCE_KINDS
}


def source_tag(kind: str) -> str:
    """How validation errors mark the kind of a source; never a key of a spec."""
    return f"<{kind}>"


def source_of(provenance: Mapping[str, str]) -> AnySource | None:
    """The source that `provenance` describes, with the checks of a spec; None if it describes none.

    Raises:
        pydantic.ValidationError: A value is not one that a spec may have.
    """
    kind = provenance.get("kind", "")
    section = SOURCE_KINDS.get(kind)
    if section is None or section is DirectorySource:
        return None
    fields: dict[str, Any] = {
        key: value
        for key, value in provenance.items()
        if key in section.model_fields and key not in ("path", kind)
    }
    fields[kind] = provenance.get(kind) or provenance.get("url", "")
    fields["path"] = provenance.get("path") or "."
    source = section.model_validate(fields)
    assert isinstance(source, AnySource)
    return source


def _kind_of(value: Any) -> str | None:
    for kind, section in SOURCE_KINDS.items():
        if isinstance(value, section) or (isinstance(value, Mapping) and kind in value):
            return source_tag(kind)
    return None


def _check_kind(value: Any) -> Any:
    *others, last = SOURCE_KINDS
    kinds = f"{', '.join(others)} or {last}"
    if isinstance(value, tuple(SOURCE_KINDS.values())):
        return value
    if not isinstance(value, Mapping):
        raise mistake("must be a mapping", f"Begin it with {kinds}")
    named = [kind for kind in SOURCE_KINDS if kind in value]
    # `file` is a kind, and a field of some kinds.
    named = [kind for kind in named if not (_FIELDS_OF_OTHERS[kind] - {kind}) & set(named)]
    if len(named) > 1:
        wrong = f"has {' and '.join(named)}, but a model has one source"
        raise mistake(wrong, "Keep one of them")
    if not named:
        near = [(key, nearest_word(str(key), SOURCE_KINDS)) for key in value]
        typos = [f"Did you mean '{kind}' instead of '{key}'?" for key, kind in near if kind]
        raise mistake(f"needs one of {kinds}", typos[0] if typos else "")
    return value


Source: TypeAlias = Annotated[
    Annotated[GitSource, Tag(source_tag("git"))]
    | Annotated[HuggingFaceSource, Tag(source_tag("huggingface"))]
    | Annotated[ArchiveSource, Tag(source_tag("archive"))]
    | Annotated[ZenodoSource, Tag(source_tag("zenodo"))]
    | Annotated[GitHubReleaseSource, Tag(source_tag("github_release"))]
    | Annotated[PyPISource, Tag(source_tag("pypi"))]
    | Annotated[FileSource, Tag(source_tag("file"))]
    | Annotated[DirectorySource, Tag(source_tag("directory"))],
    Discriminator(_kind_of),
    BeforeValidator(_check_kind),
]
