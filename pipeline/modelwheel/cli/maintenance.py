"""Commands for this machine: its tools and its cache."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from ..api.settings import open_store
from .app import MAINTENANCE, app
from .options import AsJson
from .output import print_json, say
from .stores import with_store


class Role(str, Enum):
    """See `modelwheel.engine.doctor.Role`."""

    AUTHOR = "author"
    RELEASE = "release"


@app.command(
    rich_help_panel=MAINTENANCE, examples=["modelwheel doctor", "modelwheel doctor --for release"]
)
@with_store
def doctor(
    role: Annotated[
        Role | None,
        typer.Option(
            "--for",
            metavar="author|release",
            help="Check what an author of models needs, or who builds wheels of releases and publishes them: "
            "then the package index is asked too.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine for everything modelwheel needs, and suggest fixes."""
    from ..config import find_address
    from ..engine.doctor import check_address, check_store, diagnose, for_role
    from ..util.watching import step
    from .display.progress import BuildDisplay
    from .display.tables import print_diagnosis

    with BuildDisplay(results=False) as display:
        with step("looking at this machine", display):
            findings = [*diagnose(), check_store(open_store())]
        if role is Role.RELEASE:
            with step("asking the package index", display):
                findings.append(check_address("index", find_address("url", None), "url"))
                findings.append(check_address("uploads", find_address("upload", None), "upload"))
    if role is not None:
        findings = for_role(findings, role.value)
    if as_json:
        print_json(findings)
    else:
        print_diagnosis(findings, None if role is None else role.value)
    raise typer.Exit(any(finding.required and not finding.ok for finding in findings))


@app.command(
    rich_help_panel=MAINTENANCE,
    examples=["modelwheel cache", "modelwheel cache --remove-unused 30"],
)
@with_store
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
    from ..util.watching import step
    from .display.progress import BuildDisplay

    store = open_store()
    with BuildDisplay(results=False) as display:
        if remove_unused is not None:
            with step("removing old entries", display):
                collect_garbage(store, remove_unused * 24 * 3600)
        with step("reading the store", display):
            summary = summarise(store)
    if as_json:
        print_json(summary)
    else:
        say("\n".join(describe(summary)))
