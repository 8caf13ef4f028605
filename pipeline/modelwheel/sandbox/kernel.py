"""System calls of Linux that Python's standard library lacks: prctl(2), capset(2) and others.

By ctypes, since there is no maintained binding of them; see the manual page of each call.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64
_SIGKILL = 9


def call(function: str, *arguments: int | ctypes.c_char_p | None) -> int:
    """The result of a function of the C library that takes integers; -errno if it failed."""
    libc = ctypes.CDLL(None, use_errno=True)
    typed = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    result: int = libc[function](*typed)
    return -ctypes.get_errno() if result < 0 else result


def require(function: str, *arguments: int | ctypes.c_char_p | None) -> int:
    """Like `call`.

    Raises:
        OSError: It failed.
    """
    result = call(function, *arguments)
    if result < 0:
        raise OSError(-result, f"{function}: {os.strerror(-result)}")
    return result


def prctl(option: int, *arguments: int) -> None:
    """Changes an attribute of this process; see prctl(2).

    Raises:
        OSError: The kernel refuses it.
    """
    require("prctl", option, *(*arguments, 0, 0, 0, 0)[:4])


def no_new_privileges() -> None:
    """From now on no program that is executed gains privileges, as set-user-ID programs do."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def end_with_parent(parent: int | None = None) -> None:
    """Has the kernel kill this process when the thread that started it ends.

    Args:
        parent: The process number of the parent. If that has ended already, this process ends.
    """
    prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def protect_from_children() -> None:
    """Keeps other processes of this user out of this one's memory and files (in /proc and by ptrace)."""
    prctl(_PR_SET_DUMPABLE, 0)


def drop_capabilities() -> None:
    """Gives up what root may do beyond an ordinary user, also in programs executed later."""
    for capability in range(_CAPABILITIES):
        # Fails for capabilities that this kernel does not have, and for an ordinary user, who has
        # none of them and gets none after `no_new_privileges`.
        call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)  # since Linux 4.3
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    require("capset", ctypes.addressof(header), ctypes.addressof(nothing))
