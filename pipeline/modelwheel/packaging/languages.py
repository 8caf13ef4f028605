"""Writes text from models and specs into the languages of the files that `wheel_template/` becomes.

`modelwheel.codegen.sources.quote` writes C and C++ strings; the pages of an index are escaped by Jinja2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..util.text import escape_unsafe, one_line, unicode_escape


def quote(text: str) -> str:
    """A TOML basic string, which is also a Python string."""
    # TOML 1.0.0: control characters and surrogates are not allowed in strings as they are.
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape_unsafe(plain, unicode_escape)}"'


def comment(text: str) -> str:
    """Text that stays inside a comment of one line, in C, C++ or Python, whatever follows it."""
    line = one_line(text)
    # A trigraph may be a backslash, and a backslash at the end of a line continues the comment: in GCC
    # also with white space behind it.
    line = line.replace("*/", "* /").replace("/*", "/ *")
    line = re.sub(r"\?(?=\?)", "? ", line)
    return re.sub(r"\\(?=\s*$)", r"\\x5c", line)


def code_cell(text: str) -> str:
    """A code span in a cell of a table in GitHub Flavored Markdown.

    A pipe ends the cell even inside a code span, unless a backslash is before it (GFM 0.29, section 4.10).
    """
    line = one_line(text).replace("|", r"\|")
    # A run of backticks as long as the one that begins the span would end it (CommonMark 0.31, section 6.1).
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    # One space on each side is removed; without anything between them, backticks are no code span.
    padded = not line.strip(" ") or line[0] in "` " or line[-1] in "` "
    return f"{fence} {line} {fence}" if padded else f"{fence}{line}{fence}"


FILTERS: Mapping[str, Callable[[str], str]] = {
    "toml": quote,
    "comment": comment,
    "code_cell": code_cell,
}
"""The filters of the templates, by name."""
