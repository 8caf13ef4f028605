"""Parses shared libraries that somebody else wrote: one sentence for a damaged one, and no crash.

LIEF is C++: what overruns its parser would end this process. So a library is parsed in a fork of it
first, with limits of time and memory, and here only if that came to its end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import lief

from ...errors import WheelError
from ...util.processes.probing import survives
from ...util.text import one_line
from . import elf, macho, pe
from .binary import Binary, Image

_T = TypeVar("_T")

MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
"""The first bytes of ELF, of Mach-O (64 and 32 bits, several architectures), and of PE."""

_SECONDS = 120.0
_MEMORY_BYTES = 8 << 30


def read_binaries(member: str, content: bytes) -> list[Binary]:
    """A library as one binary for each architecture in it.

    Args:
        member: Its path in the wheel.
        content: Begins with one of `MAGIC`.

    Raises:
        WheelError: It cannot be parsed.
    """
    if not survives(lambda: _try(content), _SECONDS, _MEMORY_BYTES):
        raise _refusal(member)
    return parse(member, content)


def _try(content: bytes) -> None:
    """Parses everything that `read_binaries` and its images would."""
    for binary in parse("", content):
        _ = binary.image


def parse(member: str, content: bytes) -> list[Binary]:
    """As `read_binaries`, but a library may crash this process."""
    lief.logging.disable()  # LIEF logs to standard output
    binaries = _guarded(member, lambda: _parse(member, content))
    if not binaries:
        raise _refusal(member)
    return [_with_guarded_image(binary) for binary in binaries]


def _parse(member: str, content: bytes) -> list[Binary]:
    # LIEF's general parser would guess the format, and reads no .pdata of PE unless it is asked to.
    if content.startswith(b"\x7fELF"):
        parsed = lief.ELF.parse(content)
        return [] if parsed is None else [elf.read(member, parsed)]
    if content.startswith(b"MZ"):
        options = lief.PE.ParserConfig()
        options.parse_exceptions = True
        image = lief.PE.parse(content, options)
        return [] if image is None else [pe.read(member, image)]
    file = lief.MachO.parse(content)
    return [] if file is None else macho.read(member, file)


def _with_guarded_image(binary: Binary) -> Binary:
    load = binary.load_image

    def load_guarded() -> Image:
        return _guarded(binary.member, load)

    return replace(binary, load_image=load_guarded)


def _guarded(member: str, make: Callable[[], _T]) -> _T:
    try:
        with warnings.catch_warnings():
            # Of values that its enumerations do not have.
            warnings.simplefilter("ignore")
            return make()
    # LIEF raises what its bindings happen to: UnicodeDecodeError of names, TypeError of unknown values.
    except Exception:  # noqa: BLE001
        raise _refusal(member) from None


def _refusal(member: str) -> WheelError:
    return WheelError(f"{one_line(member)} cannot be parsed; build the wheel again", code="MW602")
