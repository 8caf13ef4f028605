"""Which files of a repository, archive or directory belong to a model, and their names in its tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from ..errors import SourceError
from ..spec.sources import ExtraFile
from ..util.names import UnsafePathError


class Placement:
    """Decides for one file after the other; see `modelwheel.source.fetch` for the tree.

    Args:
        path: Of a directory or of one file, from the root of what is fetched; empty for all.
        extras: Further files, which are put at the top of the tree.
        shown: What is fetched, in messages.
    """

    def __init__(self, path: str, extras: Sequence[ExtraFile], shown: str) -> None:
        self._path, self._extras, self._shown = path, extras, shown
        # Weights of a model may be in thousands of files.
        self._by_path: dict[str, list[ExtraFile]] = {}
        for extra in extras:
            self._by_path.setdefault("" if extra.is_checkpoint else extra.path, []).append(extra)
        self._sources: dict[str, str] = {}
        self._found: set[ExtraFile] = set()
        self.is_file = False
        """Whether there was a file at `path`."""
        self._is_directory = False

    def place(self, name: str) -> list[str]:
        """The names in the tree of a file; none if it does not belong to the model.

        Raises:
            SourceError: Another file has the same name in the tree.
            UnsafePathError: `path` is both a directory and a file.
        """
        names = []
        relative = below(name, self._path)
        if relative is not None:
            self.is_file |= not relative
            self._is_directory |= bool(relative)
            if self.is_file and self._is_directory:
                raise UnsafePathError(f"{self._path!r} is a directory and a file")
            names.append(relative or PurePosixPath(name).name)
        for extra in (*self._by_path.get(name, ()), *self._by_path.get("", ())):
            if extra.matches(name):
                self._found.add(extra)
                names.append(PurePosixPath(name).name)
        for placed in names:
            other = self._sources.setdefault(placed, name)
            if other != name:
                raise SourceError(
                    f"{self._shown}: {other!r} and {name!r} would both be {placed!r} beside the model; "
                    "rename one of them",
                    code="MW309",
                )
        return list(dict.fromkeys(names))

    def require_extras(self) -> None:
        """Requires that all further files were there.

        Raises:
            SourceError: One was not.
        """
        for extra in self._extras:
            if extra not in self._found:
                fix = "write its path as that of the model, from the same root"
                if extra.is_reference:
                    fix = "put it there: the model has weights in it"
                raise SourceError(f"{self._shown} has no {extra}; {fix}", code="MW312")


def below(name: str, path: str) -> str | None:
    """`name` relative to `path`: empty for `path` itself, None if it is elsewhere."""
    if not path:
        return name
    if name == path:
        return ""
    return name[len(path) + 1 :] if name.startswith(f"{path}/") else None
