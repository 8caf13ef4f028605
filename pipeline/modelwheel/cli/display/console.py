"""The consoles for standard output and standard error."""

from __future__ import annotations

from rich.console import Console

_LOG_WIDTH = 120
"""Columns of tables that go into a file, where no terminal has a width."""


def make_console(*, stderr: bool) -> Console:
    """A console for standard output or standard error."""
    # Without wrapping: paths and names stay in one piece for grep and for copying.
    console = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _LOG_WIDTH
    return console


OUT, ERR = make_console(stderr=False), make_console(stderr=True)
