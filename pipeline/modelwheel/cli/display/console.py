"""The consoles for standard output and standard error."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from ...util.text import one_line, safe_lines

_LOG_WIDTH = 120
"""Columns of tables that go into a file, where no terminal has a width."""


def plain(value: object) -> str:
    """A value in one line, for text with Rich's markup: safe to print, and without markup of its own."""
    return escape(one_line(value))


def plain_lines(value: object) -> str:
    """`plain` for text of several lines."""
    return escape(safe_lines(value))


def print_below(
    console: Console, head: str, text: str, indent: str = "  ", *, aligned: bool = False
) -> None:
    """Prints a line that belongs to the one above it.

    A terminal breaks it between words, and indents what follows; elsewhere it is one line, for grep.

    Args:
        console: Where it goes.
        head: The first words, with Rich's markup, as `[red]error[/]`.
        text: What follows, without markup.
        indent: What the line begins with.
        aligned: Whether further lines begin below the text, or a little to the right of the head.
    """
    if console.is_terminal and not console.is_dumb_terminal:
        # The head's width, without its markup.
        width = len(console.render_str(head)) + 1
        lines = textwrap.wrap(
            one_line(text),
            width=max(console.width, 40),
            initial_indent=" " * (len(indent) + width),
            subsequent_indent=" " * (len(indent) + width) if aligned else indent * 2,
            break_long_words=False,  # paths and names stay in one piece for copying
            break_on_hyphens=False,
        )
        text = "\n".join(lines).strip()
    console.print(f"{indent}{head} {plain_lines(text)}")


class SafeConsole(Console):
    """Shows what must not be printed as its number, wherever it comes from: text, cells, Markdown."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        segments = list(super().render(renderable, options))
        text = "".join(segment.text for segment in segments if not segment.control)
        safe = safe_lines(text)
        if safe == text:
            return segments
        # Without its colours: where `text` is unsafe need not be within one segment.
        return [*(segment for segment in segments if segment.control), Segment(safe)]


def make_console(*, stderr: bool) -> Console:
    """A console for standard output or standard error."""
    # Without wrapping: paths and names stay in one piece for grep and for copying.
    console = SafeConsole(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _LOG_WIDTH
    return console


OUT, ERR = make_console(stderr=False), make_console(stderr=True)
