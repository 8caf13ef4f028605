"""Resource limits of this process, see setrlimit(2). Windows has job objects instead (`windows`)."""

from __future__ import annotations

import os
import resource
import sys

_ADDRESS_SPACE = 4 << 30
"""Address space beyond the memory limit: TensorFlow maps 1.6 GB when it is imported, 2.8 GB after the
first compilation, of which 0.6 GB are private memory (measured with 2.21)."""
_ADDRESS_SPACE_PER_CORE = 576 << 20
"""The C library reserves 64 MB of addresses for each of 8 arenas for each core, threads their stacks."""
_MEMORY_PER_CORE = 64 << 20
"""Stacks of TensorFlow's threads, 8 MB each, count as private memory though hardly used."""
_THREADS = 2048
"""Of a program that must stay alone. With other processes allowed, their threads count as processes."""
_OPEN_FILES = 1024


def apply_limits(limits: dict[str, float | None]) -> None:
    """Limits this process and what it starts. A limit never rises.

    Args:
        limits: The fields of `policy.Limits`.
    """
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_MSGQUEUE", 0)
    _limit("RLIMIT_NOFILE", _OPEN_FILES)
    memory, cores = limits.get("memory_bytes"), os.cpu_count() or 1
    if memory is not None:
        # DATA counts private memory alone; AS also stops what is shared with nobody.
        _limit("RLIMIT_DATA", int(memory) + cores * _MEMORY_PER_CORE)
        _limit("RLIMIT_AS", int(memory) + _ADDRESS_SPACE + cores * _ADDRESS_SPACE_PER_CORE)
    if (seconds := limits.get("cpu_seconds")) is not None:
        # SIGXCPU, which a program may ignore, and a second later SIGKILL.
        _limit("RLIMIT_CPU", int(seconds), int(seconds) + 1)
    if (size := limits.get("file_bytes")) is not None:
        _limit("RLIMIT_FSIZE", int(size))
    if (processes := limits.get("processes")) is not None and _counts_by_namespace():
        tasks = _THREADS if processes == 1 else int(processes)
        _limit("RLIMIT_NPROC", tasks + _tasks_of_this_user())


def _limit(name: str, soft: int, hard: int | None = None) -> None:
    number = getattr(resource, name, None)
    if number is None:  # macOS lacks some
        return
    _, highest = resource.getrlimit(number)
    hard = soft if hard is None else hard
    if highest != resource.RLIM_INFINITY:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(number, (soft, hard))


def _counts_by_namespace() -> bool:
    """Whether the kernel counts the processes of a user in each user namespace apart (Linux 5.14)."""
    if sys.platform != "linux":
        return False
    parts = os.uname().release.split("-")[0].split(".")
    return tuple(int(part) for part in parts[:2] if part.isdigit()) >= (5, 14)


def _tasks_of_this_user() -> int:
    """Threads and processes that count already."""
    count, user = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:  # it has ended
                continue
    return count
