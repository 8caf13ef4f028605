"""The characters that a spec may contain: visible ones, shown in the order of the file."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and newline
    "\u2028\u2029"  # line and paragraph separators: some tools count them as lines, others do not
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # reorder what a reviewer sees (CVE-2021-42574)
    "\ud800-\udfff\ufeff\ufffe\uffff"  # halves of surrogate pairs, byte order mark, non-characters
    "]"
)


def find_unsafe_character(text: str) -> tuple[int, str] | None:
    """The index and the Unicode number (`U+202E`) of the first character not allowed, or None."""
    match = _UNSAFE.search(text)
    return (match.start(), f"U+{ord(match.group()):04X}") if match else None


def escape_unsafe(text: str) -> str:
    """The text with each character that a terminal must not receive written as `<U+202E>`."""
    return _UNSAFE.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)
