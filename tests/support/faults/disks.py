"""Programs that see file systems of their own: a full one, a read-only one. An ordinary user may mount them, too."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SMALL = "mount -t tmpfs -o size=512k tmpfs"
"""Makes a directory a disk of half a megabyte."""


def read_only(directory: Path) -> str:
    """Makes a directory with its content read-only, also to root."""
    return f"mount --bind '{directory}' '{directory}' && mount -o remount,ro,bind"


def mounting(command: str, directory: Path) -> tuple[str, ...]:
    """What before a program lets it run after a mount; empty where this machine forbids that.

    In a mount namespace of its own, which ends with it; for an ordinary user also a user namespace.
    """
    namespace = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "-Ur")
    script = f"{command} '{directory}' && exec \"$@\""
    prefix = (*namespace, "sh", "-c", script, "sh")
    if shutil.which("unshare") is None:
        return ()
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if tried.returncode == 0 else ()
