"""Common to all kinds of sources: the limits of a model, and suggestions for wrong paths."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..util.names import NameSet, UnsafePathError
from ..util.words import size_text

MAX_MODEL_FILES = 10_000
MAX_MODEL_DIRECTORIES = 10_000
MAX_MODEL_BYTES = 4 << 30
"""Beyond these it is a mistake, or a decompression bomb."""


class Tally:
    """Counts what a source has, and refuses more than a model may have, before it is made."""

    def __init__(self) -> None:
        self._names = NameSet()
        self._files = self._bytes = 0

    def count(self, size: int = 0) -> None:
        """Counts one file, whatever its name.

        Raises:
            UnsafePathError: There are too many, or they are too large together.
        """
        self._files += 1
        self.grow(size)
        if self._files > MAX_MODEL_FILES:
            raise UnsafePathError(f"it has more than {MAX_MODEL_FILES} files")

    def grow(self, size: int) -> None:
        """Counts `size` bytes.

        Raises:
            UnsafePathError: They are too many together.
        """
        self._bytes += size
        if self._bytes > MAX_MODEL_BYTES:
            raise UnsafePathError(f"it has more than {size_text(MAX_MODEL_BYTES)}")

    def add(self, name: str) -> None:
        """Adds the name of a file of the model, with the directories that it needs.

        Raises:
            UnsafePathError: The name is unsafe or not portable, clashes with an earlier one, or
                there are too many directories.
        """
        self._names.add(name)
        if self._names.directory_count > MAX_MODEL_DIRECTORIES:
            raise UnsafePathError(f"it has more than {MAX_MODEL_DIRECTORIES} directories")


def suggest_path(path: str, existing: Iterable[str]) -> str:
    """A path to write in place of a file or directory that does not exist."""
    names = sorted(existing)
    near = difflib.get_close_matches(path, names, n=3, cutoff=0.5) or names[:5]
    if not near:
        return "it has nothing with a name: leave the path out"
    return "did you mean " + " or ".join(map(repr, near)) + "?"
