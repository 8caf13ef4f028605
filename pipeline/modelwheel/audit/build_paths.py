"""Gate: no file names a directory of the machine that built it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .finding import Finding
from .opened import OpenedWheel

_PLACES = (
    "home", "root", "tmp", "work", "project", "build", "builds", "github", "__w", "Users", "Volumes",
    "private/tmp", "private/var", "var/folders", "var/tmp", "mnt", "opt/_internal",
)  # fmt: skip
"""Where build directories lie: of people, of CI services, of cibuildwheel and its containers."""

_POSIX = re.compile(
    rb"(?<![\w.$}\]-])/(?:"
    + "|".join(map(re.escape, _PLACES)).encode()
    + rb")/[\w.+-][^\0\s\"'<>]{2,200}"
)
_WINDOWS = re.compile(
    rb"(?<![A-Za-z])[A-Za-z]:[\\/]{1,2}(?:Users|a|b|_work|Temp)[\\/][\w.+-][^\0\s\"'<>]{2,200}"
)


def check(wheel: OpenedWheel) -> Iterator[Finding]:
    """Looks at every file, whatever it is."""
    chosen = _data_repository(wheel)
    here = re.compile(b"|".join(re.escape(place) for place in sorted(_own_places())))
    for name in wheel.contents.files:
        content = wheel.read(name)
        found = {
            match[0].decode(errors="replace")
            for pattern in (_POSIX, _WINDOWS, here)
            for match in pattern.finditer(content)
        }
        leaked = sorted(path for path in found if not (chosen and chosen.startswith(path[:200])))
        if leaked:
            yield Finding(
                name,
                f"names a directory of the machine that built it ({leaked[0]!r}); compile with "
                "-ffile-prefix-map and write relative paths",
            )
        elif found:
            yield Finding(
                name, f"names a data repository that only one machine has ({chosen!r})", "note"
            )


def _own_places() -> set[bytes]:
    """Directories of this machine, which may have built the wheel."""
    places = {str(Path.home()), tempfile.gettempdir(), str(Path.cwd())}
    return {f"{place}/".encode() for place in places if len(Path(place).parts) > 1}


def _data_repository(wheel: OpenedWheel) -> str:
    """The place of the model that the spec names, which the manifest repeats on purpose."""
    if wheel.manifest is None:
        return ""
    source = wheel.manifest.provenance.source
    return next((v for v in source.values() if v.startswith(("/", "file://"))), "")
