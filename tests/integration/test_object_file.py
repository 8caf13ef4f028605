"""Sections and symbols of object files of every platform, as LIEF reads them too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lief
import pytest

from modelwheel.compiler.object_file import ObjectFile, loaded_bytes, read_object
from modelwheel.errors import UnsupportedProgramError

_SOURCE = """\
extern int elsewhere(int);
__attribute__((noinline)) static int below(int x) { return elsewhere(x) + 3; }
int function_with_a_long_name(int x) { return below(x) - 1; }
const char constants_with_a_long_name[] = "read only";
int variable = 3, zeros[5];
"""

TARGETS = (
    *("x86_64-linux-gnu", "aarch64-linux-gnu", "x86_64-macos", "aarch64-macos"),
    *("x86_64-windows-gnu", "aarch64-windows-gnu"),
)


@pytest.fixture(scope="module", params=TARGETS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object file of a platform."""
    directory = tmp_path_factory.mktemp(request.param)
    (directory / "source.c").write_text(_SOURCE, encoding="utf-8")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", request.param, "-O1", "-g0"]
    subprocess.run(
        [*command, "-ffunction-sections", "-c", "source.c", "-o", "object.o"],
        cwd=directory,
        check=True,
    )
    return directory / "object.o"


def _by_name(file: ObjectFile) -> dict[str, tuple[int, str, int, bool]]:
    return {
        s.name: (s.number, file.sections[s.section].name, s.value, s.is_function)
        for s in file.symbols
        if s.section is not None and "_name" in s.name
    }


def test_sections_are_those_that_lief_reads(path: Path) -> None:
    file = read_object(path)
    binary = lief.COFF.parse(str(path)) if file.format == "coff" else lief.parse(str(path))
    assert binary is not None
    others = list(binary.sections)
    assert len(file.sections) == len(others)
    for section, other in zip(file.sections, others, strict=True):
        if isinstance(other, lief.COFF.Section):
            place, size = other.pointerto_raw_data, other.sizeof_raw_data
        else:
            place, size = other.offset, other.size
        assert (section.place, section.size) == (place, size)
        # LIEF leaves the long names of COFF in their table.
        assert section.name == other.name or str(other.name).startswith("/")
        if "text" in section.name:
            assert file.content_of(section) == bytes(other.content)


def test_symbols_are_those_of_the_source(path: Path) -> None:
    file = read_object(path)
    prefix = "_" if file.format == "macho" else ""
    symbols = _by_name(file)
    function = symbols[f"{prefix}function_with_a_long_name"]
    constants = symbols[f"{prefix}constants_with_a_long_name"]
    assert "text" in function[1]
    assert function[3] == (file.format != "macho")
    place = next(s for s in file.sections if s.name == constants[1]).place + constants[2]
    assert file.content[place : place + 10] == b"read only\0"


def test_relocations_name_the_symbol_that_is_called(path: Path) -> None:
    file = read_object(path)
    if file.format == "macho":  # whose relocations nobody reads
        return
    found = set()
    for section in file.sections:
        for row in range(section.relocation_count):
            size = 24 if file.format == "elf" else 10
            place = section.relocations + row * size + (12 if file.format == "elf" else 4)
            index = int.from_bytes(file.content[place : place + 4], "little")
            found |= {symbol.name for symbol in file.symbols if symbol.number == index}
    assert "elsewhere" in found


def test_what_is_loaded_is_counted(path: Path) -> None:
    assert loaded_bytes(path) >= 10 + 4  # the constants and the variable
    assert loaded_bytes(path) < path.stat().st_size


def test_a_damaged_file_is_refused(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    broken = tmp_path / "object.o"
    for length in range(0, len(content), 29):
        broken.write_bytes(content[:length])
        try:
            _ = read_object(broken).symbols
        except UnsupportedProgramError:
            continue
    for place in range(0, min(len(content), 700), 3):
        broken.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        try:
            _ = read_object(broken).symbols
        except UnsupportedProgramError:
            continue


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF\x01\x01" + bytes(99)])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "object.o").write_bytes(content)
    with pytest.raises(UnsupportedProgramError, match="is not an object file"):
        read_object(tmp_path / "object.o")
