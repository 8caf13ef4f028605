"""Renders the pages of the site with Jinja2: everything is escaped, and undefined values are errors."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache
from pathlib import Path

import jinja2

from ...util.text import JOINERS, escape_unsafe
from ...util.words import size_text


def render(template: str, **values: object) -> bytes:
    """Renders one of the templates beside this module.

    Raises:
        jinja2.UndefinedError: The template uses a value that is missing.
    """
    return _environment(escape=True).get_template(template).render(values).encode()


def render_text(template: str, **values: object) -> str:
    """Renders a template of a program: nothing is escaped, so a page that shows it must do that."""
    return _environment(escape=False).get_template(template).render(values)


@cache
def _environment(*, escape: bool) -> jinja2.Environment:
    # Kept, because it has the compiled templates.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        # Names, model cards and URLs are from wheels: nothing in them may become markup.
        autoescape=escape,
        finalize=_show,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(bytes=size_text, significant=format_significant)
    return environment


def _show(value: object) -> object:
    """A value as the page shows it: nothing that reorders or hides its neighbours."""
    if type(value) is not str:  # not of `Markup`, which templates have made
        return value
    if value.isascii() and value.isprintable():  # most are, and this is quick
        return value
    return escape_unsafe(value, allowed=JOINERS | {"\n", "\t"})


def format_significant(value: float) -> str:
    """A number with three significant digits (`0.00123`, `1.23e-07`)."""
    return f"{value:.3g}"


def stamp(time: datetime) -> str:
    """A time in UTC as Atom (RFC 4287) and the simple API (PEP 700) write it."""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
