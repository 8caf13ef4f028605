"""The command that checks this machine."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from ..api.settings import open_store
from .app import MAINTENANCE, app
from .options import AsJson
from .output import print_json
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
