"""The first place where two files differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.provenance.difference import compare_content, first_difference
from modelwheel.wheelfile.contents import open_contents
from tests.support.described import describe, sdist_files, wheel_files, write_sdist, write_wheel


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (b"a\nb\nc", b"a\nB\nc", "f, line 2: 'b' instead of 'B'"),
        (b"a\n\x1b[1m", b"a\nb", r"f, line 2: '\x1b[1m' instead of 'b'"),
        (b"x" * 70, b"y", "f, line 1: '" + "x" * 60 + "...' instead of 'y'"),
        (b"a\n", b"a", "f: 2 bytes instead of 1"),
        (b"a\r\n", b"a\n", "f, byte 0x1: 0x0d instead of 0x0a"),
        (b"\xff\x00\x01", b"\xff\x02\x01", "f, byte 0x1: 0x00 instead of 0x02"),
        (b"\xff\x00", b"\xff", "f: 2 bytes instead of 1"),
    ],
)
def test_contents(theirs: bytes, ours: bytes, said: str) -> None:
    assert compare_content("f", theirs, ours) == said


def test_a_byte_of_a_library_is_named_with_its_section() -> None:
    import lief
    from pydantic_core import _pydantic_core

    library = Path(_pydantic_core.__file__).read_bytes()
    parsed = lief.parse(library)
    assert parsed is not None
    section = next(each for each in parsed.sections if each.name in (".text", "__text"))
    changed = bytearray(library)
    changed[section.offset + 5] ^= 0xFF
    said = compare_content("lib.so", bytes(changed), library)
    assert said.startswith(f"lib.so, byte {section.offset + 5:#x} ({section.name!s}): ")


def test_the_first_file_that_differs(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    files = wheel_files(describe())
    ours = open_contents(write_wheel(tmp_path, files))
    name = "model_a/_reference.npz"
    theirs = open_contents(write_wheel(tmp_path / "again", {**files, name: b"Rows"}))
    assert (
        first_difference(theirs, ours, [name, "z"]) == f"{name}, line 1: 'Rows' instead of 'rows'"
    )
    assert first_difference(theirs, ours, ["absent"]) == "absent is missing"


def test_files_of_source_distributions_are_read(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    ours = open_contents(write_sdist(tmp_path, sdist_files()))
    changed = {**sdist_files(), "PKG-INFO": b"Metadata-Version: 2.1\n"}
    theirs = open_contents(write_sdist(tmp_path / "again", changed))
    said = first_difference(theirs, ours, ["PKG-INFO"])
    assert said == "PKG-INFO, line 1: 'Metadata-Version: 2.1' instead of 'Metadata-Version: 2.4'"
