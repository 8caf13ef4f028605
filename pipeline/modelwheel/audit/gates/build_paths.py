"""Gate: no file contains a path of the machine that built it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..opened import OpenedWheel
from .finding import GateFinding

# `/project` and `/opt/_internal` (CPython) are places in the containers of cibuildwheel and
# manylinux, `/__w` is the workspace of GitHub's jobs in containers.
_PLACES = (
    "home", "root", "tmp", "work", "project", "build", "builds", "github", "__w", "Users", "Volumes",
    "private/tmp", "private/var", "var/folders", "var/tmp", "mnt", "opt/_internal",
)  # fmt: skip
"""The first directories of build paths: of people, of CI services, of cibuildwheel and its containers."""

_REST = rb"[\\/]+[\w.+-][^\0\s\"'<>]{2,200}"
"""The rest of a path: a name of at least two characters, and whatever may follow in a path."""

# Each begins with a plain character, which is looked for much faster than an expression.
_POSIX = rb"/(?:" + b"|".join(re.escape(place.encode()) for place in _PLACES) + rb")" + _REST
# `D:\a` is the workspace of GitHub's runners; string literals and JSON double the backslash.
_WINDOWS = re.compile(rb":[\\/]{1,2}(?:Users|a|b|_work|Temp)" + _REST)
_CONTINUES = re.compile(rb"[\w.$}\]-]")
"""A character before a path that makes it a part of something else: of a URL (`example.org/home/...`) or of what a
variable has (`$PREFIX/build`, `${name}/tmp`)."""
_DRIVE = re.compile(rb"(?:^|[^A-Za-z])[A-Za-z]")


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Searches every file, whatever its format."""
    chosen = _data_repository(wheel)
    patterns = [re.compile(pattern) for pattern in (_POSIX, *_own_places())]
    for name in wheel.contents.files:
        content = wheel.read(name)
        paths = {path.decode(errors="replace") for path in _paths(content, patterns)}
        leaked = sorted(path for path in paths if not _is_part(path, chosen))
        if leaked:
            yield GateFinding(
                name,
                f"contains a path of the machine that built it ({leaked[0]!r}); compile with "
                "-ffile-prefix-map and write relative paths",
            )
        elif paths:
            yield GateFinding(
                name,
                f"names a data repository that only exists on one machine ({chosen!r})",
                "note",
            )


def _paths(content: bytes, posix: Sequence[re.Pattern[bytes]]) -> Iterator[bytes]:
    for pattern in posix:
        yield from _matches(content, pattern, lambda start: start)
    yield from _matches(content, _WINDOWS, lambda start: _drive(content, start))


def _matches(
    content: bytes, pattern: re.Pattern[bytes], begin: Callable[[int], int | None]
) -> Iterator[bytes]:
    """The matches at their beginnings, unless they continue something else."""
    position = 0
    while match := pattern.search(content, position):
        start = begin(match.start())
        if start is None or (start == match.start() and _is_continued(content, start)):
            position = match.start() + 1
        else:
            yield content[start : match.end()]
            position = match.end()


def _is_continued(content: bytes, start: int) -> bool:
    return start > 0 and _CONTINUES.match(content, start - 1) is not None


def _drive(content: bytes, colon: int) -> int | None:
    """Where the letter of a drive is; None if there is a word."""
    before = content[max(0, colon - 2) : colon]
    return colon - 1 if _DRIVE.fullmatch(before) else None


def _is_part(path: str, chosen: str) -> bool:
    """Whether a path is the beginning of the chosen one, or continues it with a commit or file."""
    # A match may be shorter than the path: it ends at a blank or after 200 characters.
    return bool(chosen.strip("/")) and (chosen.startswith(path) or path.startswith(chosen))


def _own_places() -> list[bytes]:
    """Patterns for directories of this machine, which may have built the wheel."""
    places = sorted({str(Path.home()), tempfile.gettempdir(), str(Path.cwd())})
    return [
        re.escape(place.encode()) + _REST
        for place in places
        # `/`, the home or working directory in some containers, would match every absolute path.
        if len(Path(place).parts) > 1
    ]


def _data_repository(wheel: OpenedWheel) -> str:
    """The local path of the model in the spec, which the manifest repeats on purpose; empty if it has a URL."""
    if wheel.manifest is None:
        return ""
    source = wheel.manifest.provenance.source
    local = (value.removeprefix("file://") for value in source.values())
    return next((value for value in local if value.startswith("/")), "")
