"""Models in git repositories."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from ...util.urls import redact
from ..fields import Sha256, mistake
from .addresses import Address, Commit, check_git_address, is_local
from .common import ModelSource, in_quotes

HUGGING_FACE = "https://huggingface.co"


class RepositorySource(ModelSource):
    """A directory or file of a git repository at one commit."""

    commit: Commit = Field(
        description="The full commit id, 40 (or, for SHA-256 repositories, 64) hexadecimal digits.",
        examples=["df4bfd35dfed51d7c6ff0367ebc78093dfcc7d1d"],
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="SHA-256 of the model's tree: names and content of all its files.",
    )

    @property
    @abstractmethod
    def address(self) -> str:
        """The repository as git takes it."""

    def __str__(self) -> str:
        return f"{redact(self.address)} at {self.commit}{in_quotes(self.subdirectory)}"


class GitSource(RepositorySource):
    """A directory or file of a git repository at one commit; what Git LFS keeps of it comes from its server."""

    title: ClassVar[str] = "a git repository"

    git: Annotated[Address, AfterValidator(check_git_address)] = Field(
        description="The repository: https://, ssh://, file://, user@host:path, or a path relative "
        "to the spec file. Credentials are refused.",
        examples=["https://github.com/cms-externals/cms-tfaot.git"],
    )

    @property
    def address(self) -> str:
        return str(self._directory / self.git) if is_local(self.git) else self.git

    def given(self) -> dict[str, str]:
        return {
            "kind": "git",
            # Not `address`, which may contain a path of this machine.
            "url": redact(self.git),
            "path": self.subdirectory,
            "commit": self.commit,
        }


def _check_hub_name(name: str) -> str:
    if "://" in name:
        raise mistake("this is a URL", "Write OWNER/NAME, as the page of the model does")
    part = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}"
    if not re.fullmatch(rf"((datasets|spaces)/)?{part}/{part}", name):
        raise mistake(f"'{name}' is not a repository of Hugging Face", "Write OWNER/NAME")
    return name


class HuggingFaceSource(RepositorySource):
    """A directory or file of a repository of Hugging Face, or of the server that HF_ENDPOINT names, at one commit."""

    title: ClassVar[str] = "a repository of Hugging Face"

    huggingface: Annotated[Address, AfterValidator(_check_hub_name)] = Field(
        description="The repository, as OWNER/NAME. HF_ENDPOINT and HF_TOKEN of the environment are obeyed.",
        examples=["onnx-community/silero-vad"],
    )

    @property
    def address(self) -> str:
        """At Hugging Face itself, whatever HF_ENDPOINT is."""
        return f"{HUGGING_FACE}/{self.huggingface}"

    def given(self) -> dict[str, str]:
        return {
            "kind": "huggingface",
            "huggingface": self.huggingface,
            "url": self.address,
            "path": self.subdirectory,
            "commit": self.commit,
        }
