"""How deep and how large modules of MLIR become, found before they are read."""

from __future__ import annotations

import base64
import re

import pytest

from modelwheel.compiler.stablehlo.mlir_bounds import MAX_BRACKETS, MAX_DEPTH, measure, refuse_bomb
from modelwheel.compiler.stablehlo.mlir_bytecode import Part, read_parts
from modelwheel.errors import UnsupportedModelError
from tests.models.hostile_reading import doubled

_MAIN = b"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"

_ATTRIBUTES = """
TUzvUgNNTElSMjMuMC4wZ2l0AAEVBQEFAQMFAwUDBwOBbQkBbQsTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMT
ExMTExMTCxMPDxMbCwsLCxMTEwEJEw8XBwJmAwUJAQUFBQEFBwcBBQkJAQULCwEFDQ0BBQ8PAQUREQEFExMBBRUVAQUXFwEF
GRkBBRsbAQUdHQEFHx8BBSEhAQUjIwEFJSUBBScnAQUpKQEFKysBBS0tAQUvLwEFMTEBBTMzAQU1NQEFNzcBBTk5AQU7OwEF
PT0BBT8/AQVBQQEFQ0MBBUVFAQVHRwEFSUkBBUtLAQVNTQEFT08BBVdZAwNTVQULAQUDAxEDAREDBRcBUwMDBV9hY2UFDQ0F
BQ8FERcBVQMXAVUjFwFXBxsDEQcBAgQFAwEDAQsEMwUBEVtRBwMBBQMRZ10HAwMHAwFpBQRrAwEGAwEFAQCbEwsTHRUFDw8L
EWJ1aWx0aW4AZnVuYwBtb2R1bGUAcmV0dXJuAC0AbWhsby5ldmlsAGZ1bmN0aW9uX3R5cGUAc3ltX25hbWUAbWFpbgA=
"""
"""Forty attributes, each a list that has the one before twice, as TensorFlow's MLIR writes them."""
_TYPES = """
TUzvUg1TdGFibGVITE9fdjEuMC4wAAEXBQEFBwEDCwMFDxMDSxUnAQ0LExMTExMDCQsLCwsDJxMHExMTExMTExMTExMTExMT
ExsC0wULFwEBARcBIwMXASMjFwEjSRcBJQcDASMlHQ0dDykDEQMJLwUHBy8FCQkvBQsLLwUNDS8FDw8vBRERLwUTEy8FFRUv
BRcXLwUZGS8FGxsvBR0dLwUfHy8FISEvBSMjLwUDAxEFAQUDAQRBBQFQAwEHBDEDAQUDUAUDBwQdAwUHBQMHCwkABQQLAwEG
AwEFAQBvEQMLBRURDwsRYnVpbHRpbgB2aGxvAG1vZHVsZQBmdW5jX3YxAHJldHVybl92MQAtAG1haW4AAAgVBQUBAQsNDw0R
Ew==
"""
"""Sixteen types, each a tuple that has the one before twice, in StableHLO 1.0.0's portable form."""


def _bytes(text: str) -> bytes:
    return base64.b64decode("".join(text.split()))


@pytest.mark.parametrize("mark", ["#a", "!t"])
@pytest.mark.parametrize("end", ["\n", " // it goes on\n", "\n  "])
def test_aliases_are_followed(mark: str, end: str) -> None:
    step = "[{0},\n{0}]" if mark == "#a" else "tuple<{0}, {0}>"
    for levels, refused in ((10, False), (30, True)):
        content = doubled(mark, f"{step}{end}", "[0]" if mark == "#a" else "f32", levels)
        if refused:
            with pytest.raises(UnsupportedModelError, match=r"^evil has .* more than 64 MiB"):
                refuse_bomb(content, "evil")
        else:
            refuse_bomb(content, "evil")


def test_bytecode_is_followed() -> None:
    sizes, depth = measure(read_parts(_bytes(_ATTRIBUTES)))
    assert max(sizes) > 2**39
    assert depth >= 40
    with pytest.raises(UnsupportedModelError, match="more than 64 MiB"):
        refuse_bomb(_bytes(_ATTRIBUTES), "evil")
    sizes, depth = measure(read_parts(_bytes(_TYPES)))
    assert 2**16 < max(sizes) < 2**21
    assert depth >= 16
    refuse_bomb(_bytes(_TYPES), "fine")


def test_damaged_bytecode_is_for_its_reader() -> None:
    content = _bytes(_ATTRIBUTES)
    for end in range(4, len(content), 3):
        assert isinstance(read_parts(content[:end]), list)
    for place in range(4, len(content)):
        assert isinstance(read_parts(content[:place] + b"\xff" + content[place + 1 :]), list)
    refuse_bomb(content[:40], "damaged")


@pytest.mark.parametrize("brackets", ["[]", "()", "{}", "<>"])
def test_brackets_are_counted(brackets: str) -> None:
    for depth in (MAX_BRACKETS - 2, MAX_BRACKETS + 1):
        nested = (brackets[0] * depth + brackets[1] * depth).encode()
        hidden = b"// >>>>\n#set = affine_set<(d0) : (d0 >= 0)>\n" * 400
        for text in (nested, hidden + nested):
            if depth <= MAX_BRACKETS:
                refuse_bomb(_MAIN + text, "fine")
                continue
            with pytest.raises(UnsupportedModelError, match=r"^evil nests brackets more than 500"):
                refuse_bomb(_MAIN + text, "evil")


def test_brackets_in_texts_and_comments_do_not_count() -> None:
    many = b"[" * 10_000
    refuse_bomb(_MAIN + b'#a = "' + many + b' \\" "\n// ' + many, "fine")


def test_places_in_sources_may_be_shared_but_not_too_deep() -> None:
    shared = "".join(f"#l{n} = loc(fused[#l{n - 1}, #l{n - 1}])\n" for n in range(1, 60))
    refuse_bomb(_MAIN + f'#l0 = loc("a")\n{shared}'.encode(), "fine")
    chain = "".join(f'#l{n} = loc("a"(#l{n - 1}))\n' for n in range(1, MAX_DEPTH + 2))
    with pytest.raises(UnsupportedModelError, match=re.escape("more than 2000 deep")):
        refuse_bomb(_MAIN + f'#l0 = loc("a")\n{chain}'.encode(), "evil")


def test_parts_that_contain_themselves_count_once() -> None:
    sizes, depth = measure([Part(1, [1, 1]), Part(1, [0]), Part(5, [0, 9])])
    assert sizes == [3, 1, 8]
    assert depth == 3


def test_a_large_module_passes() -> None:
    weights = b'dense<"0x' + b"3F" * 5_000_000 + b'">'
    line = b"  %y = stablehlo.constant " + weights + b" : tensor<1250000xf32>\n"
    refuse_bomb(_MAIN.replace(b"  return", line + b"  return"), "fine")
