"""Damaged libraries: one sentence, never a crash."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import lief
import pytest

from modelwheel.audit.formats import elf, read
from modelwheel.audit.formats.binary import Binary
from modelwheel.errors import WheelError

LIBRARY = (Path(__file__).parents[3] / "fuzz" / "seeds" / "elf.so").read_bytes()


def test_a_library_is_parsed() -> None:
    (binary,) = read.read_binaries("a.so", LIBRARY)
    assert (binary.format, binary.machine) == ("ELF", "x86_64")
    assert "f" in binary.exports
    assert binary.image.sections


@pytest.mark.parametrize("start", read.MAGIC)
def test_a_file_that_is_only_a_beginning(start: bytes) -> None:
    with pytest.raises(WheelError, match=r"a\.so cannot be parsed; build the wheel again"):
        read.read_binaries("a.so", start + b"\xff" * 10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_library_that_crashes_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(member: str, binary: lief.ELF.Binary) -> Binary:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError(member, binary)

    monkeypatch.setattr(elf, "read", crash)
    with pytest.raises(WheelError, match="cannot be parsed"):
        read.read_binaries("a.so", LIBRARY)


def test_what_the_parser_raises_for_names_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(member: str, binary: lief.ELF.Binary) -> Binary:
        b"\xff".decode()
        raise AssertionError(member, binary)

    monkeypatch.setattr(elf, "read", fail)
    with pytest.raises(WheelError, match="cannot be parsed"):
        read.parse("a.so", LIBRARY)
