"""File names that are safe, and that can exist on every system that wheels are installed on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

# PATH_MAX of macOS, NAME_MAX of Linux: longer names cannot exist on every system.
MAX_NAME_BYTES = 1024
MAX_COMPONENT_BYTES = 255

MAX_DEPTH = 32
"""Components of a name. Each is a directory to be made, and a walk opens one after the other."""

WINDOWS_DEVICES = frozenset(
    ["aux", "con", "conin$", "conout$", "nul", "prn"]
    + [f"{port}{n}" for port in ("com", "lpt") for n in "0123456789\u00b9\u00b2\u00b3"]
)
"""Names that open a device in every directory of Windows, whatever follows the first dot.

See "Naming Files, Paths, and Namespaces" in Microsoft's documentation of Win32.
"""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_REFUSED_BY_WINDOWS = re.compile(r'[<>:"|?*]')


class UnsafePathError(ValueError):
    """A file is not regular, or its name is not safe or portable; the message names it."""


def safety_problem(name: str) -> str | None:
    """Why `name` is not a safe, relative POSIX path; None if it is one.

    A name without a problem stays below any directory that it is joined to.
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if not name:
        return "is empty"
    if length > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    if _CONTROL.search(name):
        return "contains a control character"
    if "\\" in name:
        return "contains a backslash"
    if name.startswith("/") or _DRIVE.match(name):
        return "is an absolute path"
    return _component_problem(name.split("/"))


def _component_problem(components: list[str]) -> str | None:
    if ".." in components:
        return "climbs out of its directory with '..'"
    if "" in components or "." in components:
        return "has an empty or '.' component"
    if any(len(component.encode()) > MAX_COMPONENT_BYTES for component in components):
        return f"has a component longer than {MAX_COMPONENT_BYTES} bytes"
    if len(components) > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} directories deep"
    return None


@lru_cache(maxsize=4096)
def name_problem(name: str) -> str | None:
    """Why a file of this name is not safe, or cannot exist on every system; None if it can."""
    return safety_problem(name) or _windows_problem(name)


def _windows_problem(name: str) -> str | None:
    if match := _REFUSED_BY_WINDOWS.search(name):
        return f"contains {match.group()!r}, which Windows refuses in file names"
    for component in name.split("/"):
        if component.endswith((".", " ")):
            return "has a component that ends with a dot or a space, which Windows removes"
        # `CON`, `con.txt` and `con .txt` are one device.
        if component.partition(".")[0].rstrip(" ").lower() in WINDOWS_DEVICES:
            return f"has the component {component!r}, which is a device on Windows"
    return None


def check_names(names: Iterable[str]) -> None:
    """Checks that file names are safe and can exist together on every file system.

    Two names clash if they, or their parent directories, differ only in letter case or Unicode
    form, if one occurs twice, or if one is a parent directory of the other.

    Raises:
        UnsafePathError: The first name that is unsafe, or two that clash.
    """
    names = tuple(names)
    # Records of hundreds of models have the same few short lists of names.
    (_check_few_names if len(names) <= _FEW else _check_names)(names)


def _check_names(names: tuple[str, ...]) -> None:
    seen = NameSet()
    for name in names:
        seen.add(name)


_FEW = 64
_check_few_names = lru_cache(maxsize=512)(_check_names)


class NameSet:
    """File names that can exist together on every file system; see `check_names`."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._directories: dict[str, str] = {}

    @property
    def directory_count(self) -> int:
        """How many directories the names have."""
        return len(self._directories)

    def add(self, name: str) -> None:
        """Adds one name.

        Raises:
            UnsafePathError: It is unsafe, or clashes with an earlier one.
        """
        if problem := name_problem(name):
            raise UnsafePathError(f"the file name {name!r} {problem}")
        for parent in _parents(name):
            folded = _fold(parent)
            self._refuse(self._files.get(folded), name)
            # Two spellings of a directory are one directory on some systems, and two on others.
            if self._directories.setdefault(folded, parent) != parent:
                self._refuse(self._directories[folded], name)
        folded = _fold(name)
        self._refuse(self._files.get(folded) or self._directories.get(folded), name)
        self._files[folded] = name

    def _refuse(self, other: str | None, name: str) -> None:
        if other is not None:
            raise UnsafePathError(f"the file names {other!r} and {name!r} clash")


def _parents(name: str) -> Iterator[str]:
    cut = name.find("/")
    while cut != -1:
        yield name[:cut]
        cut = name.find("/", cut + 1)


def _fold(name: str) -> str:
    if name.isascii():
        return name.lower()
    # Case folding may undo the normal form, so there are two normalisations, as in the definition
    # of canonical caseless matching (The Unicode Standard, section 3.13).
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
