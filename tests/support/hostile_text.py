"""Text that tries to be more than text where it is shown, and what must not be left of it."""

from __future__ import annotations

import re

FRAGMENTS = {
    "escape sequence": "\x1b[2J\x1b]0;title\x07",
    "C1 control": "\x9b31m",
    "command on its own line": "\n::error::forged",
    "other line ends": "\r::add-mask::a\x85::add-mask::b\u2028::add-mask::c",
    "stops commands": "\n  ::stop-commands::x",
    "older command": "##[add-mask]x ##vso[task.setvariable]y",
    "reverses": "\u202egpj.exe\u2066",
    "hides": "a\u200bb\u2060c\U000e0041\u00ad",
    "backslash": "\\",
    "half of a pair": "\udcff-\ud800",
    "markup": "[red]x[/red] [link=https://evil.example]y[/link] ```|<img>",
}
"""What to put into names, by what it tries."""

EVERYTHING = "".join(FRAGMENTS.values())

ENCODABLE = EVERYTHING.encode(errors="ignore").decode()
"""The same without halves of surrogate pairs, for files in UTF-8."""

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\u00ad"
    "\ud800-\udfff\ufeff\U000e0000-\U000e0fff]"
)


def is_command(line: str) -> bool:
    """Whether a service could take a line of a log for a command (actions/runner, ActionCommand.cs)."""
    return line.lstrip().startswith("::") or re.search(r"##\w*\[", line) is not None


def require_harmless(shown: str) -> None:
    """Fails if printed text has a character or a line that must not reach a terminal or a log."""
    found = _UNSAFE.search(shown)
    assert found is None, f"{found.group()!r} in {shown[max(0, found.start() - 60) :][:120]!r}"
    commands = [line for line in shown.split("\n") if is_command(line)]
    assert not commands, commands
