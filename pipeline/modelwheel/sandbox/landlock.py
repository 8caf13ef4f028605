"""Restricts this process to some files for good, with Landlock.

By ctypes: the bindings on the package index are some months old and hardly used, which is too little
trust for this place, and the interface is three calls.

Source: https://docs.kernel.org/userspace-api/landlock.html and linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from .kernel import call, require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ENOUGH = 3
"""The first version that also guards truncation (Linux 6.2); older ones do not protect inputs."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on every architecture."""
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DIR, _MAKE_REG = 1 << 7, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILES_V1 = (1 << 13) - 1

_READ = _EXECUTE | _READ_FILE | _READ_DIR
# Neither symbolic links, devices, sockets nor FIFOs can be made.
_WRITE = (
    _READ_FILE | _READ_DIR | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG
    | _REFER | _TRUNCATE
)  # fmt: skip
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""The rights that a rule for a single file can have."""
_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

_DEVICES = ("/dev/full", "/dev/random", "/dev/urandom", "/dev/zero")
WRITABLE_DEVICES = ("/dev/null",)

_FACTS = ("cpuinfo", "loadavg", "meminfo", "stat", "sys/kernel/osrelease", "sys/vm", "version")
"""What libraries read of /proc beside the process itself; none of it is about other processes."""

_OWN = (
    *("auxv", "cgroup", "cmdline", "comm", "environ", "exe", "fd", "limits", "maps", "oom_score"),
    *("sched", "schedstat", "smaps", "smaps_rollup", "stat", "statm", "status"),
)
"""What a process may read of itself. `net`, `mountinfo` and their like are about the whole machine."""
_LISTED = ("task",)
"""What it may only list: the directory of each thread has `net` and `mountinfo` too."""


def version() -> int:
    """The version of Landlock's interface in this kernel; 0 without Landlock."""
    return max(0, call("syscall", _CREATE_RULESET, None, 0, _VERSION_FLAG))


def restrict_files(readable: list[str], writable: list[str], listed: Sequence[str] = ()) -> None:
    """Restricts the calling thread, and what it starts from now on, to these paths.

    It can also neither use TCP, nor reach abstract sockets or send signals outside, as far as the
    kernel's version of Landlock can refuse that. Does nothing on a kernel without Landlock.

    Args:
        readable: Files and directories; those that do not exist are left out.
        writable: The same, in which files can also be created, changed and removed.
        listed: Directories whose entries can be listed, also further down, but not read.

    Raises:
        OSError: The kernel refuses the rules.
    """
    abi = version()
    if abi == 0:
        return
    handled = _FILES_V1
    for right, since in ((_REFER, 2), (_TRUNCATE, 3), (_IOCTL_DEV, 5)):
        handled |= right if abi >= since else 0
    attributes = struct.pack(
        "=QQQ",
        handled,
        _TCP if abi >= 4 else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0,
    )
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = require("syscall", _CREATE_RULESET, _pointer(attributes), size, 0)
    try:
        for paths, rights in ((readable, _READ), (writable, _WRITE), (listed, _READ_DIR)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        require("syscall", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _pointer(content: bytes) -> ctypes.c_char_p:
    return ctypes.c_char_p(content)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        require("syscall", _ADD_RULE, ruleset, _PATH_BENEATH, _pointer(rule), 0)
    finally:
        os.close(descriptor)


def kernel_paths(process: str = "/proc/self", *, all_processes: bool) -> list[str]:
    """Files of the kernel: devices without an owner, and facts about the machine.

    Args:
        process: The directory of the process itself.
        all_processes: Whether to include those of other processes, which a program needs that
            starts some. The kernel still protects their memory, environment and files.
    """
    own = [os.path.realpath(process) + f"/{name}" for name in _OWN]
    facts = ["/proc"] if all_processes else [*own, *(f"/proc/{name}" for name in _FACTS)]
    # Not the file that a link leads to: `exe` is Python, `fd` has pipes.
    links = [os.path.realpath(name) for name in facts if name not in own]
    return [*_DEVICES, *WRITABLE_DEVICES, *facts, *links]


def listed_paths(process: str = "/proc/self") -> list[str]:
    """Directories of the process itself that it may list."""
    return [f"{os.path.realpath(process)}/{name}" for name in _LISTED]
