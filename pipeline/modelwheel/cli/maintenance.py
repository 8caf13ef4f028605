"""Commands for this machine: its tools and its cache."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import MAINTENANCE, app
from .options import AsJson
from .output import print_json, say
from .stores import open_store


@app.command(rich_help_panel=MAINTENANCE)
def doctor(as_json: AsJson = False) -> None:
    """Check this machine for everything modelwheel needs, and suggest fixes."""
    from ..engine.doctor import check_store, diagnose
    from .display.tables import print_diagnosis

    findings = [*diagnose(), check_store(open_store())]
    if as_json:
        print_json(findings)
    else:
        print_diagnosis(findings)
    raise typer.Exit(any(finding.required and not finding.ok for finding in findings))


@app.command(rich_help_panel=MAINTENANCE)
def cache(
    remove_unused: Annotated[
        int | None,
        typer.Option(metavar="DAYS", min=0, help="Remove entries not used for DAYS days."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the build cache and the caches that it reads, and remove old entries.

    Files that are less than a day old are kept because a running build may need them.
    """
    from ..store.garbage import collect_garbage
    from ..store.summary import describe, summarise

    store = open_store()
    if remove_unused is not None:
        collect_garbage(store, remove_unused * 24 * 3600)
    summary = summarise(store)
    if as_json:
        print_json(summary)
    else:
        say("\n".join(describe(summary)))
