"""Commands that print what modelwheel itself defines: the codes of its messages and the schema of specs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from .app import AUTHOR, MAINTENANCE, app
from .options import AsJson
from .output import print_json, say, say_json


def _codes(incomplete: str) -> Iterator[str]:
    from ..codes import all_codes

    return (code for code in all_codes() if code.startswith(incomplete.upper()))


@app.command(
    rich_help_panel=MAINTENANCE, examples=["modelwheel explain MW302", "modelwheel explain"]
)
def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="The code of a message, such as MW302. Without it, all codes are listed.",
            autocompletion=_codes,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain the code of a message: what it means, why, and how to fix it."""
    from ..codes import all_codes, find_code

    if code is None:
        codes = list(all_codes().values())
        if as_json:
            print_json(codes)
            return
        for entry in codes:
            say(f"{entry.code}  {entry.title}")
        return
    entry = find_code(code)
    if as_json:
        print_json(entry)
        return
    from rich.markdown import Markdown

    from .display.console import OUT

    say(f"{entry.code}: {entry.title} (exit code {entry.exit_code})\n")
    if OUT.is_terminal:
        OUT.print(Markdown(entry.text, code_theme="ansi_light"), soft_wrap=False)
    else:
        say(entry.text)


@app.command(
    rich_help_panel=AUTHOR,
    examples=["modelwheel schema", "modelwheel schema --out model_specs/schema.json"],
)
def schema(
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it to this file instead of printing it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of specs, with which editors complete and check them.

    The first line of a spec names it: `# yaml-language-server: $schema=FILE|URL`.
    """
    from ..engine.delivery import writing_to
    from ..spec.schema import schema_text, write_schema

    if out is None:
        say_json(schema_text())
        return
    with writing_to(out):
        write_schema(out)
    if as_json:
        print_json({"schema": out})
    else:
        say(f"wrote {out}")
