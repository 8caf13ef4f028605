"""The filter of system calls, run in an interpreter of its instructions: for every architecture."""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import struct

import pytest

from modelwheel.sandbox.seccomp import build_filter
from modelwheel.sandbox.syscalls import AUDIT_ARCH, NEWEST, numbers

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
MACHINES = list(AUDIT_ARCH)
PID = 4321


def decide(program: bytes, data: bytes) -> int:
    """What a classic BPF program returns for a `struct seccomp_data` (linux/bpf_common.h)."""
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = instructions[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x15:
            at += if_true if accumulator == value else if_false
        elif code == 0x25:
            at += if_true if accumulator > value else if_false
        else:
            raise AssertionError(f"unknown instruction {code:#x}")


def ask(
    machine: str,
    call: str | int,
    *arguments: int,
    pid: int | None = PID,
    execute: bool = False,
    arch: int | None = None,
) -> int | str:
    """What becomes of a call: `allowed`, `killed`, or the number of its error."""
    number = numbers(machine)[call] if isinstance(call, str) else call
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number, arch or AUDIT_ARCH[machine], 0, *padded)
    result = decide(build_filter(machine, pid=pid, execute=execute), data)
    if result in (ALLOWED, KILLED):
        return "allowed" if result == ALLOWED else "killed"
    assert result & 0xFFFF0000 == 0x00050000
    return result & 0xFFFF


CLONE_THREAD, CLONE_VM, CLONE_NEWUSER, CLONE_NEWTIME = 0x10000, 0x100, 0x10000000, 0x80
HIGH = 1 << 32

DECISIONS: list[tuple[str, tuple[int, ...], int | str]] = [
    # Threads, but no processes and no namespaces.
    ("clone", (CLONE_THREAD | CLONE_VM,), "allowed"),
    ("clone", (17,), errno.EPERM),
    ("clone", (CLONE_THREAD | CLONE_NEWUSER,), errno.EPERM),
    ("clone", (CLONE_THREAD | CLONE_NEWTIME,), errno.EPERM),
    ("clone3", (), errno.ENOSYS),
    ("execve", (), errno.EPERM),
    ("execveat", (), errno.EPERM),
    ("unshare", (CLONE_NEWUSER,), errno.EPERM),
    # Signals and limits: only its own.
    ("kill", (PID, 9), "allowed"),
    ("kill", (PID + 1, 9), errno.EPERM),
    ("kill", (0, 9), errno.EPERM),
    ("kill", (2**64 - 1, 9), errno.EPERM),
    ("tgkill", (PID, 5, 9), "allowed"),
    ("tgkill", (PID + 1, 5, 9), errno.EPERM),
    ("rt_sigqueueinfo", (PID + 1,), errno.EPERM),
    ("rt_tgsigqueueinfo", (PID + 1,), errno.EPERM),
    ("prlimit64", (0, 7), "allowed"),
    ("prlimit64", (PID, 7), "allowed"),
    ("prlimit64", (PID + 1, 7), errno.EPERM),
    ("prctl", (1, 0), errno.EPERM),
    ("prctl", (15, 0), "allowed"),
    ("sched_setaffinity", (0,), "allowed"),
    ("sched_setaffinity", (PID,), errno.EPERM),
    # Sockets: connected pairs alone.
    ("socket", (1, 1), errno.EACCES),
    ("socketpair", (1, 1), "allowed"),
    ("socketpair", (1, 1 | 0o2000000), "allowed"),
    ("socketpair", (1, 2), errno.EPERM),
    ("socketpair", (1, 2 | 0o2000000), errno.EPERM),
    ("socketpair", (2, 1), errno.EPERM),
    ("sendto", (3, 4096, 1, 0, 0), "allowed"),
    ("sendto", (3, 4096, 1, 0, 4096), errno.EPERM),
    ("sendto", (3, 4096, 1, 0, HIGH), errno.EPERM),
    ("sendmsg", (), errno.EACCES),
    # The kernel ignores the upper half of an ioctl's number.
    ("ioctl", (0, 0x5413), "allowed"),
    ("ioctl", (0, 0x5412), errno.EPERM),
    ("ioctl", (0, 0x5412 | HIGH), errno.EPERM),
    ("ioctl", (0, 0x541C), errno.EPERM),
    ("ioctl", (0, 0x8901), errno.EPERM),
    # FS_IOC_SETFLAGS, FS_IOC_SETVERSION and FS_IOC_FSSETXATTR, which need no more than an open input.
    ("ioctl", (3, 0x40086602), errno.EPERM),
    ("ioctl", (3, 0x40087602), errno.EPERM),
    ("ioctl", (3, 0x401C5820), errno.EPERM),
    ("ioctl", (0, 0x5401), "allowed"),
    ("ioctl", (3, 0x5451), "allowed"),
    ("fcntl", (3, 2), "allowed"),
    ("fcntl", (3, 8), errno.EPERM),
    ("fcntl", (3, 15), errno.EPERM),
    # F_SETLEASE, F_NOTIFY and F_SETDELEG make those wait who open an input.
    ("fcntl", (3, 1024, 1), errno.EPERM),
    ("fcntl", (3, 1026), errno.EPERM),
    ("fcntl", (3, 1040), errno.EPERM),
    ("fcntl", (3, 1036), errno.EPERM),
    ("fcntl", (3, 1030), "allowed"),
    ("fcntl", (3, 7), "allowed"),
    # No set-user-ID or set-group-ID bits.
    ("openat", (0, 0, 0o101, 0o755), "allowed"),
    ("openat", (0, 0, 0o101, 0o4755), errno.EPERM),
    ("openat", (0, 0, 0o101, 0o2755), errno.EPERM),
    ("mkdirat", (0, 0, 0o2755), errno.EPERM),
    ("openat2", (), errno.ENOSYS),
    ("fchmodat", (), errno.EPERM),
    ("fchmodat2", (), errno.EPERM),
    ("linkat", (), errno.EPERM),
    ("ptrace", (), errno.EPERM),
    ("process_vm_writev", (), errno.EPERM),
    ("bpf", (), errno.EPERM),
    ("mount", (), errno.EPERM),
    ("keyctl", (), errno.EPERM),
    ("io_uring_setup", (), errno.ENOSYS),
    ("userfaultfd", (), errno.ENOSYS),
    ("memfd_create", (), errno.EPERM),
    ("inotify_init1", (), errno.EPERM),
]


@pytest.mark.parametrize("machine", MACHINES)
def test_decisions_for_a_process_that_stays_alone(machine: str) -> None:
    found = [(call, arguments, ask(machine, call, *arguments)) for call, arguments, _ in DECISIONS]
    assert found == DECISIONS


@pytest.mark.parametrize("machine", MACHINES)
def test_a_server_may_fork_and_signal_its_children(machine: str) -> None:
    for call, argument in (("clone", 17), ("kill", 99), ("prlimit64", 99), ("prctl", 1)):
        assert ask(machine, call, argument, pid=None) == "allowed"
    assert ask(machine, "execve", pid=None, execute=True) == "allowed"
    assert ask(machine, "clone", CLONE_NEWUSER, pid=None) == errno.EPERM
    assert ask(machine, "ptrace", pid=None) == errno.EPERM


def test_calls_that_only_old_architectures_have() -> None:
    for call in ("fork", "vfork", "chmod", "link", "mknod"):
        assert ask("x86_64", call) == errno.EPERM
        assert call not in numbers("aarch64")
    assert ask("x86_64", "open", 0, 0o101, 0o4755) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_are_not_known(machine: str) -> None:
    assert ask(machine, NEWEST) == "allowed"
    assert ask(machine, NEWEST + 1) == errno.ENOSYS
    # The x32 ABI has every call a second time: with bit 30.
    assert ask(machine, 0x40000000 | numbers(machine)["ptrace"]) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    i386 = 0x40000003
    assert ask(machine, 1, arch=i386) == "killed"


@pytest.mark.parametrize("machine", MACHINES)
def test_jumps_end_in_the_program(machine: str) -> None:
    program = list(struct.iter_unpack("=HBBI", build_filter(machine, pid=1, execute=False)))
    assert len(program) < 4096  # BPF_MAXINSNS
    for at, (code, if_true, if_false, _) in enumerate(program):
        if code in (0x15, 0x25):
            assert at + 1 + max(if_true, if_false) < len(program)


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_libseccomp(machine: str) -> None:
    name = ctypes.util.find_library("seccomp")
    if name is None:
        pytest.skip("libseccomp is not installed")
    library = ctypes.CDLL(name)
    resolve = library.seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    # -1: this version of libseccomp does not know the call.
    known = {
        call: number
        for call, number in numbers(machine).items()
        if resolve(AUDIT_ARCH[machine], call.encode()) != -1
    }
    assert len(known) > 100
    assert known == {call: resolve(AUDIT_ARCH[machine], call.encode()) for call in known}
    # Calls that aarch64 lacks have a negative number there.
    for call in set(numbers("x86_64")) - set(numbers(machine)):
        assert resolve(AUDIT_ARCH[machine], call.encode()) < 0
