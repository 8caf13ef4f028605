"""The call graph, with a decoder for a toy machine: every byte is an instruction."""

from __future__ import annotations

from modelwheel.audit.formats.binary import Image, Section
from modelwheel.audit.machine_code.code import Block, Code
from modelwheel.audit.machine_code.levels import Entry, assign

RETURN, NOTHING = 0x00, 0xFF
BASE = 0x1000


def decode(content: bytes, _address: int) -> Block:
    """0 returns, 0xFF does nothing, any other number calls the function at that offset."""
    block = Block()
    block.references = {BASE + byte for byte in content if byte not in (RETURN, NOTHING)}
    block.falls_through = not content.endswith(bytes([RETURN]))
    return block


def make_code(content: bytes, starts: list[int], pointers: dict[int, int] | None = None) -> Code:
    functions = {
        BASE + start: end - start
        for start, end in zip(starts, [*starts[1:], len(content)], strict=True)
    }
    image = Image((Section(BASE, content, executable=True),), functions, pointers or {}, (), {}, {})
    image.entries[BASE] = "model_run"
    return Code(image, decode, alignment=1)


CHAIN = bytes([0x04, NOTHING, NOTHING, RETURN, 0x08, NOTHING, NOTHING, RETURN, *[NOTHING] * 3, 0])
"""Three functions of four bytes; the first calls the second, which calls the third."""


def test_calls_are_followed() -> None:
    code = make_code(CHAIN, [0, 4, 8])
    assert code.reach([BASE]) == {BASE: None, BASE + 4: BASE, BASE + 8: BASE + 4}
    assert code.reach([BASE + 6]) == {BASE + 4: None, BASE + 8: BASE + 4}
    assert code.reach([0]) == {}


def test_code_without_a_return_continues_in_the_next_function() -> None:
    code = make_code(bytes([NOTHING] * 4 + [RETURN] * 4), [0, 4])
    assert code.reach([BASE]) == {BASE: None, BASE + 4: BASE}


def test_calls_inside_of_unsized_code_divide_it() -> None:
    content = bytes([0x04, NOTHING, NOTHING, RETURN, NOTHING, NOTHING, NOTHING, RETURN])
    image = Image((Section(BASE, content, executable=True),), {}, {}, (), {}, {})
    functions = Code(image, decode, alignment=1).functions
    assert [(function.address, function.end) for function in functions] == [
        (BASE, BASE + 4),
        (BASE + 4, BASE + 8),
    ]


def test_what_a_lower_level_reaches_belongs_to_it() -> None:
    content = bytes([NOTHING, RETURN, 0x06, RETURN, 0x06, RETURN, NOTHING, RETURN, NOTHING, RETURN])
    slots = {0x5000: BASE + 2, 0x5008: BASE + 4}
    code = make_code(content, [0, 2, 4, 6, 8], slots)
    entries = [Entry("low", 1, 0x5000, BASE + 2), Entry("high", 1, 0x5008, BASE + 4)]
    places = assign(code, entries, ["low", "high"], "model_")
    assert {address - BASE: place.level for address, place in places.items()} == {
        0: "", 2: "low", 4: "high", 6: "low",
    }  # fmt: skip
    assert places[BASE + 6].route == (BASE + 2, BASE + 6)
    assert BASE + 8 not in places  # nothing reaches it
