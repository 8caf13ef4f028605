"""The page of the command line, from the commands themselves."""

from __future__ import annotations

import typer
from typer.cli import get_docs_for_click

from modelwheel.cli.app import app


def page() -> str:
    """Every command with its options, as Typer writes them."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="modelwheel")
    text = get_docs_for_click(obj=command, ctx=context, name="modelwheel", title="Commands")
    return f"{text.strip()}\n"
