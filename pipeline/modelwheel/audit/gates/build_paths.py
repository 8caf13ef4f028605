"""Gate: no file contains a path of the machine that built it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
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

# The character before must not continue something else: a URL (`example.org/home/...`) or a
# variable (`$PREFIX/build`, `${name}/tmp`) is not a path of the machine.
_POSIX = rb"(?<![\w.$}\]-])/(?:" + "|".join(map(re.escape, _PLACES)).encode() + rb")" + _REST
# `D:\a` is the workspace of GitHub's runners; string literals and JSON double the backslash.
_WINDOWS = rb"(?<![A-Za-z])[A-Za-z]:[\\/]{1,2}(?:Users|a|b|_work|Temp)" + _REST


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Searches every file, whatever its format."""
    chosen = _data_repository(wheel)
    pattern = re.compile(b"|".join((_POSIX, _WINDOWS, *_own_places())))
    for name in wheel.contents.files:
        content = wheel.read(name)
        found = {match[0].decode(errors="replace") for match in pattern.finditer(content)}
        leaked = sorted(path for path in found if not _is_part(path, chosen))
        if leaked:
            yield GateFinding(
                name,
                f"contains a path of the machine that built it ({leaked[0]!r}); compile with "
                "-ffile-prefix-map and write relative paths",
            )
        elif found:
            yield GateFinding(
                name,
                f"names a data repository that only exists on one machine ({chosen!r})",
                "note",
            )


def _is_part(path: str, chosen: str) -> bool:
    """Whether a path is the beginning of the chosen one, or continues it with a commit or file."""
    # A match may be shorter than the path: it ends at a blank or after 200 characters.
    return bool(chosen.strip("/")) and (chosen.startswith(path) or path.startswith(chosen))


def _own_places() -> list[bytes]:
    """Patterns for directories of this machine, which may have built the wheel."""
    places = sorted({str(Path.home()), tempfile.gettempdir(), str(Path.cwd())})
    return [
        rb"(?<![\w.$}\]-])" + re.escape(place.encode()) + _REST
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
