"""Tries work that may crash the process in a copy of it first."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import warnings
from collections.abc import Callable


def survives(work: Callable[[], object], seconds: float, memory_bytes: int) -> bool:
    """Whether `work` comes to its end in a fork of this process, within limits.

    Windows cannot fork: there, the answer is always yes, and the work that follows is not protected.

    Args:
        work: What is tried; it must not write anything.
        seconds: Of wall clock.
        memory_bytes: What it may allocate in addition to what this process has.
    """
    if not hasattr(os, "fork"):
        return True
    with warnings.catch_warnings():
        # Python 3.12 warns if there are threads: the copy has none of them, and needs none of their locks.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        _end_with(work, memory_bytes)
    deadline, pause = time.monotonic() + seconds, 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _end_with(work: Callable[[], object], memory_bytes: int) -> None:
    """Ends this process, with 0 only if the work comes to its end."""
    code = 1
    try:
        import resource

        # What a crash leaves is no use to anybody: neither a core file nor a traceback.
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # A lower limit that there is cannot be raised.
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        work()
        code = 0
    finally:
        # Without the caller's handlers, and without its buffers, which would be written twice.
        os._exit(code)
