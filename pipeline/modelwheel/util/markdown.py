"""Markdown in which no text can become markup: what it shows comes from models and specs of anybody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .text import one_line

_PUNCTUATION = re.compile(
    r"[,;'\"?/=%()]"  # nothing by itself: links need brackets, which are escaped
    r"|[.:](?=\s|$)|(?<=\w)(?<!w)\.(?=\w)"  # no address, no :emoji:
    r"|(?<=\w)[-+](?=\w)"
    r"|([!-/:-@\[-`{-~])"
)
"""The group is what could be markup: numbers such as 2.4e-08, words such as x86-64 and sentences stay readable."""
_ITEM = re.compile(r"^(\d+)([.)])(?=\s|$)")
"""The number of a list."""

_LONGEST = 1000
"""Characters of a message; the log has the rest."""


def escape(text: str) -> str:
    """Text that Markdown shows unchanged, in one line: no markup, no HTML, no end of a table cell.

    Any ASCII punctuation may be escaped by a backslash (CommonMark 0.31, section 2.4).
    """
    line = one_line(" ".join(text.split()))
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
    return _ITEM.sub(r"\1\\\2", _PUNCTUATION.sub(lambda m: "\\" * bool(m[1]) + m[0], line))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; line ends in a cell are kept."""
    lines = [header, ["---"] * len(header)]
    lines += [["<br>".join(map(escape, cell.splitlines())) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
