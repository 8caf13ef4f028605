"""The profile of macOS's `sandbox-exec`: no network, nothing written but in one directory.

The program is deprecated, but Bazel and Chromium use the same mechanism, and there is no other for a
program that is not an application. A profile that refused everything would have to follow each
release of macOS, so this one allows what is not named, as Bazel's does. What it does not stop: most
services of the system (Mach), reading files outside of home directories, and surviving the client if
that is killed by SIGKILL. Resource limits hold as far as macOS has them.

Sources: bazel's DarwinSandboxedSpawnRunner.java and chromium's sandbox/mac/seatbelt_sandbox_design.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .layout import library_paths
from .policy import Access

PROGRAM = "/usr/bin/sandbox-exec"

_HIDDEN = (
    "/Users",
    "/Volumes",
    "/Library/Keychains",
    "/private/etc",
    "/private/tmp",
    "/private/var/folders",
    "/private/var/root",
)
_SERVICES = (
    "com.apple.SecurityServer",
    "com.apple.coreservices.launchservicesd",
    "com.apple.pasteboard.1",
    "com.apple.securityd",
    "com.apple.securityd.xpc",
)
"""Keychains, starting applications, the clipboard."""


def command(access: Access, *, alone: bool) -> list[str]:
    """The command that runs another one inside, to be followed by that."""
    return [PROGRAM, "-p", profile(access, alone=alone)]


def profile(access: Access, *, alone: bool) -> str:
    """The rules; of those that match, the last one counts.

    Args:
        access: Files in addition to those of the system and of Python.
        alone: Whether the program may start no others.
    """
    scratch = _subpaths([access.write])
    rules = [
        "(version 1)",
        "(allow default)",
        "(deny network*)",
        f"(deny mach-lookup {_filters('global-name', _SERVICES)})",
        "(deny signal)",
        "(allow signal (target self))",
        "(deny process-info* (target others))",
        "(deny file-write*)",
        f"(deny file-read* {_filters('subpath', _HIDDEN)})",
        # Programs look at every directory on the way to a file.
        "(allow file-read-metadata)",
        f"(allow file-read* {_subpaths([*library_paths(), *access.read])})",
        f"(allow file-read* file-write* {scratch})",
        "(deny file-write-setugid)",
        f"(allow file-write-data {_filters('literal', ['/dev/null', '/dev/dtracehelper'])})",
    ]
    if alone:
        rules.append("(deny process-fork)")
    return "\n".join(rules)


def _subpaths(paths: Iterable[Path]) -> str:
    # The kernel compares paths without links, such as /private/tmp.
    return _filters("subpath", dict.fromkeys(str(path.resolve()) for path in paths))


def _filters(kind: str, values: Iterable[str]) -> str:
    return " ".join(f"({kind} {_quote(value)})" for value in values)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
