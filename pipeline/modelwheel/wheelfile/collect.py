"""Files and directories that a command was given, as wheels and source distributions.

Every command that takes wheels takes directories of them as well, and ignores what other commands
store beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import UsageError
from ..util.text import find_unsafe, one_line
from ..versions import RUNTIME
from .reports import COMPANIONS

WHEEL = ".whl"
SDIST = ".tar.gz"

ENTRIES = ".site.json.xz"
"""Follows the tag of a release: what a site shows of its files; see `modelwheel.index.entries`."""

_IGNORED = (*COMPANIONS, ENTRIES, "SHA256SUMS", ".sigstore.json", ".publish.attestation")
"""Endings of files beside wheels that are not distributions; `publish dist/*` names them."""


def find_wheels(paths: Iterable[Path]) -> list[Path]:
    """The wheels among these files and in these directories; see `find_distributions`."""
    return find_distributions(paths, (WHEEL,))


def find_model_wheels(paths: Iterable[Path], *, may_be_empty: bool = False) -> list[Path]:
    """Like `find_wheels`, without wheels of the runtime package."""
    wheels = find_distributions(paths, (WHEEL,), may_be_empty=may_be_empty)
    runtime = f"{RUNTIME.replace('-', '_')}-"
    return [path for path in wheels if not path.name.startswith(runtime)]


def find_distributions(
    paths: Iterable[Path],
    endings: Sequence[str] = (WHEEL, SDIST),
    *,
    may_be_empty: bool = False,
) -> list[Path]:
    """The wheels and source distributions among these files and in these directories.

    Directories are not searched recursively. A file that is named twice is returned once.

    Args:
        paths: Files and directories.
        endings: The kinds that the caller takes.
        may_be_empty: Whether directories without such files are accepted.

    Raises:
        UsageError: A path does not exist, is something else, or a directory has none of them, or
            nothing is left.
    """
    kinds = " or ".join(endings)
    distributions: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            # Sorted, as the order of a directory differs between systems.
            inside = sorted(file for file in path.iterdir() if _is_one(file, endings))
            if not inside and not may_be_empty:
                raise UsageError(
                    f"{one_line(path)}: the directory has no {kinds} files", code="MW209"
                )
            distributions.update(dict.fromkeys(inside))
        elif not path.exists():
            raise UsageError(f"{one_line(path)}: no such file or directory", code="MW209")
        elif _is_one(path, endings):
            distributions[path] = None
        elif not path.name.endswith(_IGNORED):
            raise UsageError(
                f"{one_line(path)}: not a {kinds} file or a directory of them", code="MW209"
            )
    for path in distributions:
        if find_unsafe(path.name) is not None:
            raise UsageError(
                f"{one_line(path)}: not the name of a wheel or source distribution", code="MW209"
            )
    if not distributions and not may_be_empty:
        raise UsageError(f"no {kinds} files were given", code="MW209")
    return list(distributions)


def _is_one(path: Path, endings: Sequence[str]) -> bool:
    return path.is_file() and path.name.endswith(tuple(endings))
