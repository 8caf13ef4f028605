"""Job objects of Windows: limits, and the end together with the client.

This is not a sandbox: files and the network are open to the program, which runs as the same user. So
a policy that requires a sandbox refuses to run on Windows. By ctypes, because pywin32 would be a large
dependency for five calls.

Source: https://learn.microsoft.com/windows/win32/procthread/job-objects
"""

from __future__ import annotations

import ctypes
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..util.processes.groups import CREATION_FLAGS
from .policy import Access, Limits, SandboxError, with_home

_EXTENDED_LIMITS = 9
_CREATE_SUSPENDED = 0x00000004

_PROCESS_TIME = 0x00000002
_ACTIVE_PROCESSES = 0x00000008
_PROCESS_MEMORY = 0x00000100
_DIE_ON_UNHANDLED_EXCEPTION = 0x00000400
_KILL_ON_JOB_CLOSE = 0x00002000

_TICKS = 10_000_000
"""Units of 100 ns in a second."""


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("basic", BasicLimits),
        ("io", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


def job_limits(limits: Limits) -> ExtendedLimits:
    """The limits of a job; there is none for the size of files."""
    extended = ExtendedLimits()
    flags = _KILL_ON_JOB_CLOSE | _DIE_ON_UNHANDLED_EXCEPTION
    if limits.memory_bytes is not None:
        flags |= _PROCESS_MEMORY
        extended.process_memory = limits.memory_bytes
    if limits.cpu_seconds is not None:
        flags |= _PROCESS_TIME
        extended.basic.per_process_user_time = limits.cpu_seconds * _TICKS
    if limits.processes is not None:
        flags |= _ACTIVE_PROCESSES
        extended.basic.active_processes = limits.processes
    extended.basic.flags = flags
    return extended


def start_in_job(
    argv: Sequence[str | Path],
    access: Access,
    limits: Limits,
    variables: Mapping[str, str],
    streams: Mapping[str, Any],
) -> subprocess.Popen[bytes]:
    """Starts a program in a job of its own, which ends when this process does.

    Raises:
        SandboxError: It cannot be started.
    """
    api: Any = vars(ctypes)["WinDLL"]("kernel32", use_last_error=True)
    for name in ("CreateJobObjectW", "OpenProcess"):
        getattr(api, name).restype = ctypes.c_void_p
    job = ctypes.c_void_p(api.CreateJobObjectW(None, None))
    information = job_limits(limits)
    size = ctypes.sizeof(information)
    if not api.SetInformationJobObject(
        job, _EXTENDED_LIMITS, ctypes.byref(information), ctypes.c_uint32(size)
    ):
        raise SandboxError("Windows refuses the limits of a job object")
    try:
        process = subprocess.Popen(
            [str(part) for part in argv],
            cwd=access.write,
            env=with_home(variables, access.write),
            creationflags=CREATION_FLAGS | _CREATE_SUSPENDED,
            **streams,
        )
    except OSError as error:
        raise SandboxError(f"cannot start {argv[0]}: {error.strerror or error}") from error
    handle = ctypes.c_void_p(int(vars(process)["_handle"]))
    if not api.AssignProcessToJobObject(job, handle):
        process.kill()
        raise SandboxError("Windows does not put the process into a job object")
    # Closing the last handle kills what is left in the job.
    weakref.finalize(process, api.CloseHandle, job)
    vars(ctypes)["WinDLL"]("ntdll").NtResumeProcess(handle)
    return process
