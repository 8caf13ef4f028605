"""Dispatch tables read from the bytes of a library, laid out as program.h says."""

from __future__ import annotations

import re
import struct

import pytest

from modelwheel.audit.formats.binary import Image, Section
from modelwheel.audit.machine_code.levels import LAYOUT, Entry, find_entries
from modelwheel.packaging.template import template_directory

CODE, DATA = 0x1000, 0x2000
NAME, LEVEL, VARIANTS = DATA, DATA + 0x10, DATA + 0x40
SIZES = (1, 4)


def test_the_layout_is_that_of_the_static_assertions() -> None:
    text = (template_directory() / "model" / "src" / "program.h").read_text()
    asserted = re.findall(r"static_assert\((\w+\([\w, ]+\)) == (\d+),", text)
    assert {expression: int(value) for expression, value in asserted} == LAYOUT


def library(name: bytes = b"x86-64-v3", sizes: tuple[int, ...] = SIZES) -> Image:
    """One level with a variant for each size; the functions are at 0x1000, 0x1010, ..."""
    data = bytearray(0x200)
    data[: len(name)] = name
    pointers = {LEVEL: NAME, LEVEL + 8: VARIANTS}
    for index, size in enumerate(sizes):
        offset = VARIANTS - DATA + index * 80
        data[offset : offset + 8] = struct.pack("<Q", size)
        pointers[VARIANTS + index * 80 + 40] = CODE + 0x10 * index
    sections = (
        Section(CODE, bytes(0x100), executable=True),
        Section(DATA, bytes(data), executable=False),
    )
    return Image(sections, {}, pointers, (), {}, {})


def test_every_variant_is_found() -> None:
    assert find_entries(library(), ["x86-64", "x86-64-v3"], SIZES) == [
        Entry("x86-64-v3", 1, VARIANTS + 40, CODE),
        Entry("x86-64-v3", 4, VARIANTS + 120, CODE + 0x10),
    ]


def test_batch_sizes_are_repeated_for_each_length() -> None:
    sizes = (1, 4, 1, 4)
    found = find_entries(library(sizes=sizes), ["x86-64-v3"], sizes)
    assert sorted(entry.address for entry in found) == [CODE, CODE + 0x10, CODE + 0x20, CODE + 0x30]


@pytest.mark.parametrize("image", [library(sizes=(1, 5)), library(b"x86-64-v9")])
def test_a_table_that_is_not_the_manifests_is_not_taken_for_it(image: Image) -> None:
    assert find_entries(image, ["x86-64", "x86-64-v3"], SIZES) == []
