"""Finds the spec files that a command line names: files, directories, patterns. Some commands take models themselves."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..errors import SpecError
from ..util.text import find_unsafe, one_line
from ..util.words import suggest
from .formats import FORMATS

SPEC_SUFFIXES = (".yaml", ".yml", ".json")
"""How the names of specs end."""
_MODEL_SUFFIXES = tuple(suffix for row in FORMATS.values() for suffix in row.suffixes)
_SAVED_MODEL = "saved_model.pb"
_HEAD = 4096
_LOOKED_FOR = ", ".join(f"*{suffix}" for suffix in SPEC_SUFFIXES)
_CREATE = "`modelwheel new` creates one"
_NO_SPECS = ("schema.json", ".tune.json")


def is_model(pattern: str) -> bool:
    """Whether a word of a command line names a model itself, not the spec of one.

    A file is one if its name has the ending of a format, or if it is no text. A directory is one if it has a
    SavedModel or files of other formats at its top, and no specs in YAML: these come first.
    """
    path = Path(pattern)
    if path.is_file():
        return _has_ending_of_model(path) or (path.suffix not in SPEC_SUFFIXES and _is_binary(path))
    if not path.is_dir():
        return _has_ending_of_model(path) and "*" not in pattern
    names = {child.name for child in path.iterdir() if child.is_file()}
    if _SAVED_MODEL in names:
        # Files of JSON are in the directories of some SavedModels.
        return not any(name.endswith((".yaml", ".yml")) for name in names)
    return any(map(_has_ending_of_model, map(Path, names))) and not any(
        _is_spec(path / name) for name in names
    )


def has_both(pattern: str) -> bool:
    """Whether a directory has specs in YAML, which are read, and a SavedModel, which is not."""
    path = Path(pattern)
    return path.is_dir() and (path / _SAVED_MODEL).is_file() and not is_model(pattern)


def _has_ending_of_model(path: Path) -> bool:
    return path.suffix.lower() in _MODEL_SUFFIXES


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" in file.read(_HEAD)


def find_specs(patterns: Sequence[str]) -> list[Path]:
    """The spec files that match some patterns, sorted by name within each pattern.

    Raises:
        SpecError: A pattern matches none, or is a model itself.
    """
    return [path for pattern in patterns for path in _find(pattern)]


def _find(pattern: str) -> Iterable[Path]:
    path = Path(pattern)
    if is_model(pattern):
        if not path.exists():
            raise SpecError(f"there is no model {pattern!r}; {_hint(path, _has_ending_of_model)}")
        raise SpecError(
            f"{one_line(pattern)} is a model, and this takes specs: `modelwheel new NAME --model PATH` writes one"
        )
    if path.is_file():
        _require_plain_name(path)
        return [path]
    # pathlib has no glob for a pattern that may be absolute.
    matches = glob.iglob(pattern, recursive=True)  # noqa: PTH207
    candidates = path.iterdir() if path.is_dir() else map(Path, matches)
    specs = sorted(candidate for candidate in candidates if _is_spec(candidate))
    for spec in specs:
        _require_plain_name(spec)
    if not specs:
        if path.is_dir():
            raise SpecError(
                f"no specs in {one_line(pattern)} (looked for {_LOOKED_FOR}); {_CREATE}",
                code="MW109",
            )
        raise SpecError(f"no spec {pattern!r}; {_hint(path, _is_spec)}", code="MW109")
    return specs


def _require_plain_name(path: Path) -> None:
    # The name is in messages, logs, keys of steps and in annotations of pull requests.
    if find_unsafe(path.name) is not None:
        raise SpecError(
            f"{one_line(path)}: the name of the file has a control character or an invisible one; rename it",
            code="MW108",
        )


def _is_spec(path: Path) -> bool:
    return path.suffix in SPEC_SUFFIXES and not path.name.endswith(_NO_SPECS) and path.is_file()


def _hint(path: Path, fits: Callable[[Path], bool]) -> str:
    parent = path.parent if path.parent.is_dir() else Path()
    names = sorted(p.name for p in parent.iterdir() if fits(p))
    if names:
        return suggest(path.name, names)
    return _CREATE if fits is _is_spec else "correct the path"
