"""Models in directories of this machine."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from ...util.files import find_checkout
from ..fields import LocalPath, Sha256
from .common import ModelSource

if TYPE_CHECKING:
    from typing_extensions import Self


class DirectorySource(ModelSource):
    """A directory on this machine, or something in it."""

    title: ClassVar[str] = "a directory of this machine"

    directory: LocalPath = Field(
        description="The SavedModel's directory, or one that `path` begins in; absolute or relative to "
        "the spec file.",
        examples=["../data/saved_model"],
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="SHA-256 of the model's tree: names and content of all its files.",
    )

    @classmethod
    def at(cls, directory: Path, path: str = ".") -> DirectorySource:
        """A model that the caller names, without the checks of a spec."""
        return cls.model_construct(directory=str(directory), path=path)

    def resolve(self, directory: Path) -> Self:
        resolved = super().resolve(directory)
        # A file is taken where its directory is expected.
        if not self.subdirectory and resolved.root.is_file():
            path = PurePosixPath(Path(self.directory).as_posix())
            resolved = resolved.model_copy(
                update={"directory": str(path.parent), "path": path.name}
            )
        return resolved

    @property
    def is_own(self) -> bool:
        """Whether errors may show what is in it: the user typed it, or it is in the spec's checkout.

        A spec may name any directory of the machine; its author need not be allowed to list it.
        """
        # Only `resolve`, which every spec goes through, sets the directory.
        if self._directory == Path():
            return True
        home = self._directory.resolve()
        checkout = find_checkout(home) or home
        return all(path.resolve().is_relative_to(checkout) for path in (self.root, self.location))

    @property
    def root(self) -> Path:
        """The directory, with the spec's directory before a relative path."""
        return self._directory / self.directory

    @property
    def location(self) -> Path:
        """The SavedModel's directory, or the model's file."""
        return self.root / self.path if self.subdirectory else self.root

    def given(self) -> dict[str, str]:
        """Nothing but the kind: the path means nothing on other machines."""
        return {"kind": "directory"}

    def __str__(self) -> str:
        return str(self.location)
