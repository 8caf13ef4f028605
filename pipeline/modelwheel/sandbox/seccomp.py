"""Filters the system calls of this process for good, with seccomp.

The list of what is refused follows Docker's and Flatpak's; calls that are newer than the list fail as
on an older kernel (ENOSYS), so that a new kernel opens nothing. The filter is written here as there is
no maintained binding: `pyseccomp` had its last release in 2021, and needs libseccomp on the machine.

Sources: https://docs.kernel.org/userspace-api/seccomp_filter.html; linux/filter.h;
https://docs.docker.com/engine/security/seccomp/; for the set-user-ID bits, RestrictSUIDSGID= in
systemd.exec(5).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from .kernel import call, prctl
from .syscalls import AUDIT_ARCH, NEWEST, numbers

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

# Instructions of the Berkeley Packet Filter (linux/bpf_common.h).
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER = 0x15, 0x25

_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000

_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`; each argument has 8 bytes, the lower half first."""

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME."""
_CLONE_THREAD = 0x00010000
_AF_UNIX, _SOCK_DGRAM, _SOCK_TYPES = 1, 2, 0xF
_SET_ID_BITS = 0o6000
_PR_SET_PDEATHSIG = 1
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS and TIOCGWINSZ (what a terminal is like), FIONREAD, FIONBIO, FIONCLEX and FIOCLEX. All others fail: they
type into terminals (CVE-2017-5226), name processes that get signals, or change attributes of files that are open for
reading only (FS_IOC_SETFLAGS, FS_IOC_SETVERSION, FS_IOC_FSSETXATTR), and each file system has its own."""
_FCNTLS = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    9,
    11,
    36,
    37,
    38,
    1025,
    1027,
    1030,
    1031,
    1032,
    1034,
    1035,
    1037,
)
"""Copies, flags and locks of descriptors, and questions. All others fail: F_SETOWN, F_SETSIG and F_SETOWN_EX name a
process that gets signals; F_SETLEASE, F_NOTIFY and F_SETDELEG make the next program that opens an input wait; F_SET_RW_HINT and
F_SET_FILE_RW_HINT change what a file system knows of it."""

_REFUSED = {
    errno.EPERM: """
        acct adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init
        finit_module fsconfig fsmount fsopen fspick init_module ioperm iopl kexec_file_load
        kexec_load lookup_dcookie modify_ldt mount mount_setattr move_mount name_to_handle_at
        open_by_handle_at open_tree perf_event_open personality pivot_root quotactl quotactl_fd
        reboot setdomainname sethostname setns settimeofday swapoff swapon syslog umount2 unshare
        vhangup
        kcmp migrate_pages move_pages pidfd_getfd pidfd_open pidfd_send_signal process_madvise
        process_mrelease process_vm_readv process_vm_writev ptrace tkill
        ioprio_set sched_setattr sched_setparam sched_setscheduler setpriority
        add_key keyctl request_key
        memfd_create mq_open mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop
        shmat shmctl shmget
        link linkat mknod mknodat symlink symlinkat
        chmod chown fchmod fchmodat fchmodat2 fchown fchownat lchown
        fremovexattr fsetxattr lremovexattr lsetxattr removexattr setxattr
        futimesat utime utimensat utimes
        inotify_add_watch inotify_init inotify_init1
    """,
    errno.EACCES: "accept accept4 bind connect listen sendmmsg sendmsg socket",
    # A structure in memory holds their arguments, which a filter cannot read. The C library then
    # uses clone and openat.
    errno.ENOSYS: """
        clone3 io_uring_enter io_uring_register io_uring_setup memfd_secret openat2 userfaultfd
    """,
}
"""Calls that always fail, by their error. In order: administration; other processes; priorities;
keys; memory that no limit counts and that outlives the process; links and devices; permissions,
owners and times, which Landlock does not protect; what others do with files."""

Check = tuple[int, int, tuple[int, ...], bool]
"""Fails a call depending on half an argument: which half, a mask, values, and whether these values
fail (True) or all others do."""


def _low(argument: int) -> int:
    return _ARGUMENTS + 8 * argument


def _high(argument: int) -> int:
    return _low(argument) + 4


_CHECKED: dict[str, tuple[Check, ...]] = {
    "clone": ((_low(0), _NEW_NAMESPACES, (0,), False),),
    # Only connected pairs: a datagram socket could reach any other by its address.
    "socketpair": (
        (_low(0), 0xFFFFFFFF, (_AF_UNIX,), False),
        (_low(1), _SOCK_TYPES, (_SOCK_DGRAM,), True),
    ),
    "sendto": ((_low(4), 0xFFFFFFFF, (0,), False), (_high(4), 0xFFFFFFFF, (0,), False)),
    # The kernel reads the lower half only (CVE-2019-10063).
    "ioctl": ((_low(1), 0xFFFFFFFF, _IOCTLS, False),),
    "fcntl": ((_low(1), 0xFFFFFFFF, _FCNTLS, False),),
    "sched_setaffinity": ((_low(0), 0xFFFFFFFF, (0,), False),),
    "open": ((_low(2), _SET_ID_BITS, (0,), False),),
    "openat": ((_low(3), _SET_ID_BITS, (0,), False),),
    "creat": ((_low(1), _SET_ID_BITS, (0,), False),),
    "mkdir": ((_low(1), _SET_ID_BITS, (0,), False),),
    "mkdirat": ((_low(2), _SET_ID_BITS, (0,), False),),
}

_SINGLE_REFUSED = ("fork", "setpgid", "setsid", "vfork")


def _single_checked(pid: int) -> dict[str, tuple[Check, ...]]:
    """The checks of a process that must stay alone: it may send signals to itself only, for example."""
    itself = (_low(0), 0xFFFFFFFF, (pid,), False)
    return {
        "clone": (*_CHECKED["clone"], (_low(0), _CLONE_THREAD, (0,), True)),
        "kill": (itself,),
        "tgkill": (itself,),
        "rt_sigqueueinfo": (itself,),
        "rt_tgsigqueueinfo": (itself,),
        "prlimit64": ((_low(0), 0xFFFFFFFF, (0, pid), False),),
        # It must end with its parent.
        "prctl": ((_low(0), 0xFFFFFFFF, (_PR_SET_PDEATHSIG,), True),),
    }


def build_filter(machine: str, *, pid: int | None = None, execute: bool = True) -> bytes:
    """A filter program, an array of `struct sock_filter`.

    Args:
        machine: The architecture, as `uname` names it.
        pid: The process, if it must stay alone: it can start threads but no process, and send
            signals to itself only.
        execute: Whether it may execute programs.
    """
    known = numbers(machine)
    refused = {name: code for code, text in _REFUSED.items() for name in text.split()}
    checked = dict(_CHECKED)
    if pid is not None:
        refused.update(dict.fromkeys(_SINGLE_REFUSED, errno.EPERM))
        checked.update(_single_checked(pid))
    if not execute:
        refused.update(dict.fromkeys(("execve", "execveat"), errno.EPERM))
    program = [
        (_LOAD, 0, 0, _ARCH),
        (_IF_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        # Also the calls of the x32 ABI, whose numbers have bit 30.
        (_IF_GREATER, 0, 1, NEWEST),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    blocks = {name: [(_RETURN, 0, 0, _ERRNO | code)] for name, code in refused.items()}
    blocks |= {name: _check_block(checks) for name, checks in checked.items()}
    for name, block in sorted(blocks.items()):
        if name in known:
            program += [(_IF_EQUAL, 0, len(block), known[name]), *block]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _check_block(checks: tuple[Check, ...]) -> list[tuple[int, int, int, int]]:
    block = []
    for offset, mask, values, fails in checks:
        block += [(_LOAD, 0, 0, offset), (_AND, 0, 0, mask)]
        for left, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
            # To the failure, or over it; the last comparison decides for all other values.
            to_failure, over = left, left + 1
            target = to_failure if fails else over
            other = (over if fails else to_failure) if left == 0 else 0
            block.append((_IF_EQUAL, target, other, value))
        block.append((_RETURN, 0, 0, _ERRNO | errno.EPERM))
    return [*block, (_RETURN, 0, 0, _ALLOW)]


def is_available() -> bool:
    """Whether this machine's kernel and architecture allow filters."""
    # Without a program, a kernel that knows filters answers EFAULT.
    if os.uname().machine not in AUDIT_ARCH:
        return False
    code = call("prctl", _PR_SET_SECCOMP, _MODE_FILTER, 0, 0, 0)
    return code == -errno.EFAULT


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def apply_filter(instructions: bytes) -> None:
    """Filters the calls of the calling thread, and of what it starts from now on.

    Raises:
        OSError: The kernel refuses the filter, as it does unless `no_new_privileges` was called.
    """
    program = _Program(len(instructions) // 8, instructions)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program))
