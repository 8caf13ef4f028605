"""Locks in the calling process for good: for a child that a trusted server has forked."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict

from .layout import library_paths
from .policy import Access, Limits, SandboxError


def confine(access: Access, limits: Limits, *, parent: int | None = None) -> None:
    """Restricts this process to some files and limits; it stays alone and executes no programs.

    To be called before this process starts threads, since Landlock restricts the calling thread and
    what it starts. Afterwards nothing beyond `access`, the libraries of the system and Python's
    can be read, and nothing outside `access.write` written; there are no sockets, no other processes,
    and no signals to others. It is killed when its parent ends. On Linux by Landlock, seccomp and
    resource limits, as far as the kernel has them; elsewhere by resource limits alone.

    Args:
        access: Its files.
        limits: What it may use; `wall_seconds` is for its parent to enforce.
        parent: The process that forked this one. If that has ended already, this process ends.

    Raises:
        SandboxError: The kernel refuses it; the process must not go on.
    """
    if sys.platform == "win32":  # a job object holds the whole server, see `windows`
        return
    try:
        _confine(access, limits, parent)
    except OSError as error:
        raise SandboxError(f"the sandbox cannot be set up: {error}") from error


def _confine(access: Access, limits: Limits, parent: int | None) -> None:
    from . import rlimits

    directory = str(access.write.absolute())
    os.chdir(directory)
    readable = [str(path.absolute()) for path in (*library_paths(), *access.read)]
    rlimits.apply_limits({**asdict(limits), "processes": 1})
    if sys.platform == "linux":
        from . import kernel, launch

        kernel.end_with_parent(parent)
        launch.restrict(readable, directory, all_processes=False, pid=os.getpid(), execute=False)
