"""The memory of a loaded library."""

from __future__ import annotations

import pytest

from modelwheel.audit.formats.binary import Image, Section

TEXT = Section(0x1000, b"\x90" * 16, executable=True)
DATA = Section(0x2000, b"name\0\xff\xfe\0rest", executable=False)
IMAGE = Image((TEXT, DATA), {}, {}, (range(0x2000, 0x2008),), {}, {})


@pytest.mark.parametrize(
    ("address", "section"),
    [(0xFFF, None), (0x1000, TEXT), (0x100F, TEXT), (0x1010, None), (0x200B, DATA), (0x200C, None)],
)
def test_sections_end_before_their_last_address(address: int, section: Section | None) -> None:
    assert IMAGE.section_of(address) == section
    assert IMAGE.is_code(address) == (section is TEXT)


def test_reading_stops_at_the_end_of_a_section() -> None:
    assert IMAGE.read(0x100C, 100) == b"\x90" * 4
    assert IMAGE.read(0x3000, 1) == b""


def test_text_is_ascii_and_ends_with_zero() -> None:
    assert IMAGE.text(0x2000) == "name"
    assert IMAGE.text(0x2004) == ""
    assert IMAGE.text(0x2005) is None
    assert IMAGE.text(0x2008) is None
    assert IMAGE.text(0x5000) is None


def test_linkage() -> None:
    assert IMAGE.is_linkage(0x2007)
    assert not IMAGE.is_linkage(0x2008)
