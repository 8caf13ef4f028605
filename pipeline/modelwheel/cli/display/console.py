"""The consoles for standard output and standard error."""

from __future__ import annotations

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
    """The same for text of several lines."""
    return escape(safe_lines(value))


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
