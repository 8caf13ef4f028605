"""Specs as they were at a commit, with the files that they name, in a directory of their own."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import SpecError, UsageError
from ..spec import Spec, load_spec
from .changes import WorkingTree
from .selection import companions


@dataclass(frozen=True)
class OldSpec:
    """A spec as it was."""

    spec: Spec | None
    """None if there was none, or if it was written for another modelwheel."""
    time: float
    """Of the commit, in seconds since the epoch."""


def specs_at(revision: str, specs: Sequence[Spec], scratch: Path) -> list[OldSpec]:
    """Some specs as they were at a commit.

    Args:
        revision: A tag, or another name of a commit.
        specs: The specs as they are, in git checkouts.
        scratch: An empty directory for the old files, which later uses of the specs read.

    Raises:
        UsageError: A spec is not in a checkout, or the revision does not exist.
    """
    trees: dict[Path, WorkingTree] = {}
    for directory in dict.fromkeys(spec.directory for spec in specs):
        trees[directory] = WorkingTree.of(directory)
    old: dict[Path, OldSpec] = {}
    for number, tree in enumerate(dict.fromkeys(trees.values())):
        own = [spec for spec in specs if trees[spec.directory] == tree]
        old |= _Checkout(tree, revision, scratch / str(number)).read(own)
    return [old[spec.path] for spec in specs]


class _Checkout:
    """Files of one commit below a directory, at their places in the repository."""

    def __init__(self, tree: WorkingTree, revision: str, root: Path) -> None:
        # In full first: a branch may have the same name.
        commit = tree.find_commit(f"refs/tags/{revision}") or tree.find_commit(revision)
        if commit is None:
            raise UsageError(
                f"{tree.root} has no tag {revision!r}; fetch it with `git fetch --tags`, or pass another one",
                code="MW207",
            )
        self._tree, self._commit, self._root = tree, commit, root
        listed = tree.git("ls-tree", "-r", "-z", "--name-only", commit).stdout.split(b"\0")
        self._names = [os.fsdecode(name) for name in listed if name]
        self._all = set(self._names)
        self._time = float(tree.git("show", "-s", "--format=%ct", commit).text)
        root.mkdir()

    def read(self, specs: Sequence[Spec]) -> dict[Path, OldSpec]:
        """The specs as they were, by the path of each as it is."""
        changes = self._tree.changes_since(self._commit)
        places: dict[Path, str] = {}
        for spec in specs:
            path = self._tree.relative(spec.path)
            old = changes.files.get(path, path)  # another one if it was renamed
            if old is not None and str(old) in self._all:
                places[spec.path] = str(old)
        self._extract(places.values())
        # First without the files that they name, which only they tell.
        first = {path: self._load(name, with_files=False) for path, name in places.items()}
        self._extract_companions(spec for spec in first.values() if spec is not None)
        loaded = {
            path: self._load(places[path]) for path, spec in first.items() if spec is not None
        }
        return {spec.path: OldSpec(loaded.get(spec.path), self._time) for spec in specs}

    def _load(self, name: str, *, with_files: bool = True) -> Spec | None:
        with suppress(SpecError):
            return load_spec(self._root / name, with_files=with_files)
        return None

    def _extract_companions(self, specs: Iterable[Spec]) -> None:
        wanted = {
            os.path.relpath(path, self._root).replace(os.sep, "/")
            for spec in specs
            for path in companions(spec)
        }
        inside = {name for name in wanted if not name.startswith("../")}
        tracked = {name for name in inside if self._has(name)}
        self._extract(tracked)
        for name in inside - tracked:
            # What git does not keep is taken from where it is now.
            self._link(self._tree.root / name, self._root / name)

    def _has(self, name: str) -> bool:
        return name in self._all or any(path.startswith(f"{name}/") for path in self._names)

    def _extract(self, names: Collection[str]) -> None:
        if not names:
            return
        archive = self._root.with_suffix(".tar")
        self._tree.git(
            "archive", "--format=tar", f"--output={archive}", self._commit, "--", *sorted(names)
        )
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None:  # no link, which models may not have anyway
                    place = self._root / member.name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with content, place.open("wb") as target:
                        shutil.copyfileobj(content, target)
        archive.unlink()

    @staticmethod
    def _link(there: Path, here: Path) -> None:
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            shutil.copytree(there, here, copy_function=_link_or_copy, dirs_exist_ok=True)
        elif there.is_file():
            _link_or_copy(there, here)


def _link_or_copy(there: str | Path, here: str | Path) -> None:
    try:
        os.link(there, here)
    except OSError:
        shutil.copy2(there, here)
