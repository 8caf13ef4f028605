"""Models in files that are downloaded: a model alone, or an archive with one."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import quote

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BeforeValidator, Field, StrictStr, model_validator

from ...util.urls import redact
from ..fields import Mistake, RelativePath, Sha256, mistake, mistakes
from .addresses import (
    Address,
    check_archive_address,
    check_file_address,
    check_file_name,
    check_url,
    is_archive_name,
    name_in_url,
)
from .common import ModelSource, in_quotes

if TYPE_CHECKING:
    from typing_extensions import Self

_FileName = Annotated[
    StrictStr, Field(min_length=1, max_length=255), AfterValidator(check_file_name)
]


def _from_text(value: Any) -> Any:
    """The mapping that a manifest records of `beside`."""
    return json.loads(value) if isinstance(value, str) else value


class DownloadSource(ModelSource):
    """A file with its SHA-256, wherever it comes from."""

    sha256: Sha256 = Field(
        description="SHA-256 of the file that is downloaded.", examples=["0123456789abcdef" * 4]
    )

    @property
    def is_archive(self) -> bool:
        """Whether the model is in the file, and not the file itself."""
        return True

    @property
    def others(self) -> Mapping[str, str]:
        """Files that the model refers to, by their names beside it, with their SHA-256."""
        return {}

    @property
    @abstractmethod
    def shown(self) -> str:
        """The file in messages."""

    def given(self) -> dict[str, str]:
        return {"path": self.subdirectory, "sha256": self.sha256}

    def __str__(self) -> str:
        return f"{self.shown}{in_quotes(self.subdirectory)}"


class ArchiveSource(DownloadSource):
    """A directory or file of a downloaded archive."""

    title: ClassVar[str] = "an archive"

    archive: Annotated[Address, AfterValidator(check_archive_address)] = Field(
        description="URL of the archive: https://, file://, s3:// or gs://.",
        examples=["https://example.org/model.tar.gz"],
    )

    @property
    def shown(self) -> str:
        return redact(self.archive)

    def given(self) -> dict[str, str]:
        return {"kind": "archive", "url": redact(self.archive), **super().given()}


class SingleSource(DownloadSource):
    """A file that is the model, or an archive with it if it is one by its name."""

    beside: Annotated[
        Mapping[RelativePath, Sha256], Field(max_length=10_000), BeforeValidator(_from_text)
    ] = Field(
        default_factory=dict,
        description="Files beside the model that belong to it, such as weights of an ONNX model, with their SHA-256.",
        examples=[{"model.onnx.data": "0123456789abcdef" * 4}],
    )

    @property
    @abstractmethod
    def remote_name(self) -> str:
        """The name of the file where it comes from."""

    @property
    def is_archive(self) -> bool:
        return is_archive_name(self.remote_name)

    @property
    def others(self) -> Mapping[str, str]:
        return self.beside

    @property
    def named(self) -> str:
        return self.path if self.is_archive else self.remote_name

    def given(self) -> dict[str, str]:
        beside = {"beside": json.dumps(dict(sorted(self.beside.items())))} if self.beside else {}
        return {**super().given(), **beside}

    @model_validator(mode="after")
    def _check_kind_of_file(self) -> Self:
        name = self.remote_name
        if not self.is_archive and self.subdirectory:
            wrong = f"is in an archive, and {name!r} is none by its name"
            raise mistakes([Mistake(wrong, "Remove it: the file is the model", ("path",))])
        if self.is_archive and self.beside:
            wrong = f"has files beside a model, and {name!r} is an archive"
            raise mistakes([Mistake(wrong, "Remove it: archives have all files", ("beside",))])
        if name in self.beside:
            raise mistakes([Mistake("is the model itself", "Remove it", ("beside", name))])
        return self


class FileSource(SingleSource):
    """A file at a URL."""

    title: ClassVar[str] = "a file of a server"

    file: Annotated[Address, AfterValidator(check_file_address)] = Field(
        description="URL of the file: https://, file://, s3:// or gs://.",
        examples=["https://example.org/model.onnx"],
    )

    @property
    def remote_name(self) -> str:
        return name_in_url(self.file)

    @property
    def shown(self) -> str:
        return redact(self.file)

    def given(self) -> dict[str, str]:
        return {"kind": "file", "url": redact(self.file), **super().given()}


DOI = re.compile(r"10\.(?P<prefix>5281|5072)/zenodo\.(?P<number>[1-9]\d{0,17})")
"""Of Zenodo, or of its sandbox."""


def _check_doi(text: str) -> str:
    doi = re.sub(r"^(https?://(dx\.)?doi\.org/|doi:)", "", text, flags=re.IGNORECASE).lower()
    if not DOI.fullmatch(doi):
        hint = "Write the DOI of one version of the record, such as 10.5281/zenodo.1234567"
        raise mistake("this is not a DOI of Zenodo", hint)
    return doi


class ZenodoSource(SingleSource):
    """A file of a record of Zenodo."""

    title: ClassVar[str] = "a record of Zenodo"

    zenodo: Annotated[Address, AfterValidator(_check_doi)] = Field(
        description="DOI of one version of the record.", examples=["10.5281/zenodo.1234567"]
    )
    file: _FileName = Field(
        description="The file of the record: a model, or an archive with one.",
        examples=["model.onnx"],
    )

    @property
    def remote_name(self) -> str:
        return self.file

    @property
    def shown(self) -> str:
        return f"{self.file} of the Zenodo record {self.zenodo}"

    def given(self) -> dict[str, str]:
        return {
            "kind": "zenodo",
            "zenodo": self.zenodo,
            "file": self.file,
            "url": f"https://doi.org/{self.zenodo}",
            **super().given(),
        }


_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}"


def _check_repository(text: str) -> str:
    text = text.removeprefix("https://github.com/").rstrip("/").removesuffix(".git")
    if "://" in text:
        check_url(text, ("https",))
    owner = text.partition("://")[2].partition("/")[2] or text
    if not re.fullmatch(_REPOSITORY, owner) or owner.rpartition("/")[2] in (".", ".."):
        hint = "Write OWNER/NAME, or https://HOST/OWNER/NAME for GitHub Enterprise"
        raise mistake("this is not a repository of GitHub", hint)
    return text


def _check_tag(tag: str) -> str:
    if tag == "latest" or not re.fullmatch(r"[^\s~^:?*\[\\\x00-\x20\x7f]+", tag) or ".." in tag:
        raise mistake(f"'{tag}' is not the tag of a release", "Write it as `git tag` shows it")
    return tag


class GitHubReleaseSource(SingleSource):
    """An asset of a release on GitHub."""

    title: ClassVar[str] = "a release on GitHub"

    github_release: Annotated[Address, AfterValidator(_check_repository)] = Field(
        description="The repository, as OWNER/NAME, or https://HOST/OWNER/NAME of GitHub Enterprise.",
        examples=["snakers4/silero-vad"],
    )
    tag: Annotated[Address, AfterValidator(_check_tag)] = Field(
        description="The release's tag.", examples=["v1.0"]
    )
    asset: _FileName = Field(
        description="The file of the release: a model, or an archive with one.",
        examples=["model.onnx"],
    )

    @property
    def repository_url(self) -> str:
        """The page of the repository."""
        text = self.github_release
        return text if "://" in text else f"https://github.com/{text}"

    @property
    def remote_name(self) -> str:
        return self.asset

    def url(self, name: str) -> str:
        """Where everybody may download a file of the release."""
        return f"{self.repository_url}/releases/download/{quote(self.tag)}/{quote(name)}"

    @property
    def shown(self) -> str:
        return self.url(self.asset)

    def given(self) -> dict[str, str]:
        return {
            "kind": "github_release",
            "github_release": self.github_release,
            "tag": self.tag,
            "asset": self.asset,
            "url": self.url(self.asset),
            **super().given(),
        }


def _check_package(text: str) -> str:
    name, separator, version = (part.strip() for part in text.partition("=="))
    hint = "Pin one version, such as name==1.2.3"
    if not separator or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", name):
        raise mistake(f"'{text}' is not a version of a package", hint)
    try:
        return f"{canonicalize_name(name)}=={Version(version)}"
    except InvalidVersion:
        raise mistake(f"'{version}' is not a version", hint) from None


class PyPISource(DownloadSource):
    """A wheel or source distribution of a Python index: the one that pip is configured for."""

    title: ClassVar[str] = "a package of a Python index"

    pypi: Annotated[Address, AfterValidator(_check_package)] = Field(
        description="The package and its version, as NAME==VERSION, from the index that pip uses.",
        examples=["silero-vad==6.2.3"],
    )
    file: _FileName | None = Field(
        default=None,
        description="The wheel or source distribution. Omitted: the one with this SHA-256.",
        examples=["silero_vad-6.2.3-py3-none-any.whl"],
    )

    @property
    def project(self) -> str:
        """The package's normalised name."""
        return self.pypi.partition("==")[0]

    @property
    def version(self) -> str:
        """The version, normalised."""
        return self.pypi.partition("==")[2]

    @property
    def shown(self) -> str:
        return f"{self.file} of the package index" if self.file else f"{self.pypi} of the index"

    def given(self) -> dict[str, str]:
        # Where the index is does not count: the hash decides. https://github.com/package-url/purl-spec
        file = {"file": self.file} if self.file else {}
        url = f"pkg:pypi/{self.project}@{quote(self.version)}"
        return {"kind": "pypi", "pypi": self.pypi, **file, "url": url, **super().given()}
