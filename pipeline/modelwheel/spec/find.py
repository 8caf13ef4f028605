"""Finds the spec files that a command line names: files, directories, patterns."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import SpecError
from ..util.text import find_unsafe, one_line
from ..util.words import suggest

_SUFFIXES = (".yaml", ".yml", ".json")
_LOOKED_FOR = ", ".join(f"*{suffix}" for suffix in _SUFFIXES)
_CREATE = "`modelwheel new` creates one"
_NO_SPECS = ("schema.json", ".tune.json")


def find_specs(patterns: Sequence[str]) -> list[Path]:
    """The spec files that match some patterns, sorted by name within each pattern.

    Raises:
        SpecError: A pattern matches none.
    """
    return [path for pattern in patterns for path in _find(pattern)]


def _find(pattern: str) -> Iterable[Path]:
    path = Path(pattern)
    if path.is_file():
        _require_plain_name(path)
        return [path]
    # pathlib has no glob for a pattern that may be absolute.
    matches = glob.iglob(pattern, recursive=True)  # noqa: PTH207
    candidates = path.iterdir() if path.is_dir() else map(Path, matches)
    found = sorted(candidate for candidate in candidates if _is_spec(candidate))
    for spec in found:
        _require_plain_name(spec)
    if not found:
        if path.is_dir():
            raise SpecError(
                f"no specs in {one_line(pattern)} (looked for {_LOOKED_FOR}); {_CREATE}"
            )
        raise SpecError(f"no spec {pattern!r}; {_hint(path)}")
    return found


def _require_plain_name(path: Path) -> None:
    # The name is in messages, logs, keys of steps and in annotations of pull requests.
    if find_unsafe(path.name) is not None:
        raise SpecError(
            f"{one_line(path)}: the name of the file has a control character or an invisible one; rename it"
        )


def _is_spec(path: Path) -> bool:
    return path.suffix in _SUFFIXES and not path.name.endswith(_NO_SPECS) and path.is_file()


def _hint(path: Path) -> str:
    parent = path.parent if path.parent.is_dir() else Path()
    names = sorted(p.name for p in parent.iterdir() if _is_spec(p))
    return suggest(path.name, names) if names else _CREATE
