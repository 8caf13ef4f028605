"""The command line of bubblewrap: a machine of its own that has hardly anything.

See bwrap(1), https://github.com/containers/bubblewrap.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from .layout import library_paths
from .policy import Access

_NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
)

_ROOT_LINKS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
"""Links of systems with a merged /usr; the loader's path goes through one."""


def find_bubblewrap() -> str | None:
    """The program, or None."""
    return shutil.which("bwrap")


def bubblewrap_command(program: str, access: Access) -> list[str]:
    """The command that runs another one inside, to be followed by that."""
    return [
        program,
        *_NAMESPACES,
        "--hostname",
        "modelwheel",
        "--die-with-parent",
        # No controlling terminal, into which it could type.
        "--new-session",
        "--cap-drop",
        "ALL",
        *_mounts(access),
        "--chdir",
        str(access.write.absolute()),
        "--",
    ]


def _mounts(access: Access) -> Iterator[str]:
    for name in _ROOT_LINKS:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
    yield from ("--proc", "/proc", "--dev", "/dev")
    binds = dict.fromkeys(_with_targets(*library_paths(), *access.read), "--ro-bind")
    binds |= dict.fromkeys(_with_targets(access.write), "--bind")
    # Outer directories first, or they would cover the inner ones.
    for path, option in sorted(binds.items(), key=lambda item: len(item[0].parts)):
        outer = next((binds[parent] for parent in path.parents if parent in binds), None)
        if outer != option and not (path.parent == Path("/") and path.is_symlink()):
            yield from (option, str(path), str(path))
    # The root is a file system in memory that no limit counts; only the scratch directory is writable.
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _with_targets(*paths: Path) -> list[Path]:
    """Paths that exist, also as programs see them that resolve links on the way."""
    absolute = [path.absolute() for path in paths if path.exists()]
    return [*absolute, *(path.resolve() for path in absolute)]
