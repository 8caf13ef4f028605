r"""Makes text that comes from outside safe to show: from models, file names, archives, indexes and other programs.

Such text must not move a terminal's cursor, start a line, hide itself, change the order in which its
neighbours are read, or be a command to the service that collects the log. What could do that is shown as
`\xNN`, `\uNNNN` or `\UNNNNNNNN`; all other characters stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection

_CONTROLS = (
    "\x00-\x1f\x7f-\x9f"  # C0 and C1 controls: ESC, line ends, CSI
    "\u2028\u2029"  # line and paragraph separators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # reorder what is read (CVE-2021-42574)
)
_INVISIBLE = (
    # Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, without what is a control.
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\ufff9-\ufffb"  # interlinear annotations
)
_NOT_TEXT = (
    "\ud800-\udfff"  # halves of surrogate pairs: bytes of file names that are not UTF-8
    "\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff"  # private use and non-characters
    "\U000e0000-\U0010ffff"  # tag characters, more variation selectors, private use
)
_UNSAFE = re.compile(f"[{_CONTROLS}{_INVISIBLE}{_NOT_TEXT}]")

JOINERS = frozenset("\u180b\u180c\u180d\u180f\u200c\u200d\ufe0e\ufe0f")
"""Invisible characters that the spelling of some languages and of emoji needs."""

_COMMAND = re.compile(
    # GitHub Actions takes `::command::` at the start of a line, after any white space, and
    # `##[command]` anywhere in it (actions/runner, src/Runner.Common/ActionCommand.cs). Azure Pipelines
    # takes `##vso[...]`, TeamCity `##teamcity[...]`.
    r"^(?P<space>[^\S\n]*):(?=:)|#(?=#\w*\[)",
    re.MULTILINE,
)


def _number(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else unicode_escape(code)


def unicode_escape(code: int) -> str:
    r"""`\uNNNN` or `\UNNNNNNNN`, as C, C++, Python and TOML write a code point."""
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape_unsafe(
    text: str, write: Callable[[int], str] = _number, allowed: Collection[str] = ""
) -> str:
    """The text with an escape for each character that must not be shown as it is.

    Every other function that writes text from outside, in whatever language, is made of this one.

    Args:
        text: Any text.
        write: Returns the escape for a code point, in the language of the text.
        allowed: Characters that stay.
    """
    return _UNSAFE.sub(lambda m: m[0] if m[0] in allowed else write(ord(m[0])), text)


def one_line(text: object) -> str:
    r"""Any text in one line that is safe for a terminal, a log and a sentence.

    >>> one_line("naïve name"), one_line("a\n::error::b\x1b[2J")
    ('naïve name', 'a\\x0a::error::b\\x1b[2J')
    >>> one_line("::stop-commands::x")
    '\\x3a:stop-commands::x'
    """
    return _defuse(escape_unsafe(str(text)))


def shorten_words(text: str, most: int = 200) -> str:
    """A text whose words have at most so many characters: names from files may have thousands.

    >>> shorten_words("the node 'aaaaaaaaaaaa' is wrong", 8)
    "the node 'aaaaaaa... is wrong"
    """
    return re.sub(rf"(\S{{{most}}})\S+", r"\1...", text)


def safe_lines(text: object) -> str:
    r"""`one_line` for text of several lines: line feeds and tabs stay, and no line is a command.

    What is one value must go through `one_line` before it becomes a part of such text, or it could
    pretend to be a line.

    >>> print(safe_lines("first\n  ::error::second\x07"))
    first
      \x3a:error::second\x07
    """
    kept = str(text).replace("\r\n", "\n")
    return _defuse(escape_unsafe(kept, allowed="\n\t"))


def json_text(text: str) -> str:
    r"""A JSON document with escapes for characters that must not be printed raw.

    >>> print(json_text('{"a": "\u202e##[error]"}'))
    {"a": "\u202e\u0023#[error]"}
    """
    # Outside strings, JSON has no other control characters than these.
    lines = text.replace("\r", "\n")
    kept = _UNSAFE.sub(lambda m: m[0] if m[0] in "\n\t" else json.dumps(m[0])[1:-1], lines)
    kept = kept.replace(
        "\x7f", r"\u007f"
    )  # JSON may have it as it is, and `json.dumps` writes it so
    return _COMMAND.sub(lambda m: r"\u0023" if m["space"] is None else rf"{m['space']}\u003a", kept)


def _json_escape(code: int) -> str:
    # JSON may have DEL as it is, and `json.dumps` writes it so.
    return r"\u007f" if code == 0x7F else json.dumps(chr(code))[1:-1]


def find_unsafe(text: str, allowed: Collection[str] = "") -> tuple[int, str] | None:
    """The first character that text written by people must not have: its index, and its number as `U+202E`.

    Joiners that some languages and emoji need are allowed, and so are the characters in `allowed`.
    """
    for match in _UNSAFE.finditer(text):
        if match[0] not in JOINERS and match[0] not in allowed:
            return match.start(), f"U+{ord(match[0]):04X}"
    return None


def _defuse(text: str) -> str:
    return _COMMAND.sub(
        lambda match: r"\x23" if match["space"] is None else rf"{match['space']}\x3a", text
    )
