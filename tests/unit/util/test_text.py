"""Text from outside: what a terminal, a log or a log's collector could take for more than text."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.util.text import one_line, safe_lines

ANY_TEXT = st.lists(
    st.sampled_from(["::", "##[", "\n", " ", "\x1b"]) | st.characters(exclude_categories=())
).map("".join)


def is_command(line: str) -> bool:
    """Whether GitHub's runner could take a line for a command (actions/runner, ActionCommand.cs)."""
    return line.lstrip().startswith("::") or "##[" in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x9b", r"\x1b[31mred\x9b"),
        ("a\r\nb\x85c\u2028d\u2029e\tf\0", r"a\x0d\x0ab\x85c\u2028d\u2029e\x09f\x00"),
        ("if (admin\u202e\u2066) {", r"if (admin\u202e\u2066) {"),
        ("user\u200bname\u2060\ufeff\u00ad", r"user\u200bname\u2060\ufeff\xad"),
        ("x\U000e0041\U000e0100\ufe0f", r"x\U000e0041\U000e0100\ufe0f"),
        ("\ud800\udcff\uffff\ue000\U0010ffff", r"\ud800\udcff\uffff\ue000\U0010ffff"),
        ("::error file=a::b", r"\x3a:error file=a::b"),
        (" \u3000::add-mask::x", " \u3000\\x3a:add-mask::x"),
        ("a ##[stop-commands]b", r"a \x23#[stop-commands]b"),
        ("###[error]##vso[task.x]##teamcity[x]", r"#\x23#[error]\x23#vso[task.x]\x23#teamcity[x]"),
    ],
)
def test_shows_what_could_act_or_hide_as_its_number(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert safe_lines(text.replace("\t", "").replace("\n", "")) == one_line(
        text.replace("\t", "").replace("\n", "")
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "StatefulPartitionedCall/model/dense_1/Relu:0",
        "std::vector::size of a::b, C:\\models\\new, 100 %",
        "Zoë Żółć Ελένη Юрий 渡辺 김 עברית عربي हिन्दी ไทย 😀 µ²",
        "e\u0301 non-breaking\u00a0space ideographic\u3000space",
    ],
)
def test_leaves_ordinary_text_alone(text: str) -> None:
    assert one_line(text) == text == safe_lines(text)


def test_lines_stay_lines_and_none_is_a_command() -> None:
    text = "one\r\n\ttwo\n\n  ::error::x\n::warning::\ny ::z\r::k"
    assert safe_lines(text) == ("one\n\ttwo\n\n  \\x3a:error::x\n\\x3a:warning::\ny ::z\\x0d::k")


@given(ANY_TEXT)
def test_any_text_is_one_harmless_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert not is_command(line)
    assert not re.search("[\x00-\x1f\x7f-\x9f]", line)
    line.encode()  # no half of a surrogate pair
    assert not any(unicodedata.category(c) in {"Cc", "Cs", "Co", "Zl", "Zp"} for c in line)
    assert not any(unicodedata.bidirectional(c) in _REORDERING for c in line)
    assert one_line(line) == line


_REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.lists(ANY_TEXT))
def test_any_lines_are_harmless(texts: list[str]) -> None:
    for line in safe_lines("\n".join(texts)).split("\n"):
        assert not is_command(line)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", line)
        line.encode()
