"""What the attacks of `tests.support.attacker` have in common: the system's calls, by name and by number."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)

Target = dict[str, Any]
"""What `tests.support.prison` prepared outside."""


def call(name: str, *arguments: Any) -> int:
    """Calls a function of C's library."""
    result: int = getattr(_LIBC, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def system_call(x86_64: int, aarch64: int, *arguments: Any) -> int:
    """Calls the system by the number that it has on this processor."""
    number = {"x86_64": x86_64, "aarch64": aarch64}[os.uname().machine]
    return call("syscall", number, *arguments)


def status(name: str) -> str:
    """A line of what the kernel says about this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split()[1]
    raise LookupError(name)


def fail() -> str:
    """For attacks that find nothing."""
    raise PermissionError("nothing there")


def attacks_of(module: Mapping[str, Any]) -> dict[str, Callable[[Target], str]]:
    """The functions of a module, in their order."""
    return {
        name: value
        for name, value in list(module.items())
        if not name.startswith("_")
        and getattr(value, "__code__", None)
        and value.__module__ == module["__name__"]
    }
