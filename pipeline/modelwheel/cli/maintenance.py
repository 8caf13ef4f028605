"""The command that checks this machine."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, NoReturn

import typer

from ..api.settings import open_store
from .app import MAINTENANCE, app
from .options import AsJson, GithubRepository, refuse_together, refuse_without
from .output import print_json, tell
from .stores import with_store


class Role(str, Enum):
    """See `modelwheel.engine.doctor.Role`."""

    AUTHOR = "author"
    RELEASE = "release"


@app.command(
    rich_help_panel=MAINTENANCE,
    examples=[
        "modelwheel doctor",
        "modelwheel doctor --for release",
        "modelwheel doctor --github --github-repository org/models",
    ],
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
    github: Annotated[
        bool,
        typer.Option(
            "--github",
            help="Check the settings of the repository on GitHub instead: what releases and their pages need there. "
            "GITHUB_TOKEN is a token that may read them.",
        ),
    ] = False,
    github_repository: GithubRepository = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine for everything modelwheel needs, and suggest fixes."""
    if github:
        refuse_together(
            "--github", {"--for": role}, "it looks at a repository, not at this machine"
        )
        _check_github(github_repository, as_json=as_json)
    refuse_without("--github", {"--github-repository": github_repository})
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


def _check_github(option: str | None, *, as_json: bool) -> NoReturn:
    """Shows the settings of a repository, and ends the command."""
    from .. import extras
    from ..config import load_config, require_repository
    from ..util.watching import step
    from .display.progress import BuildDisplay
    from .display.tables import print_diagnosis

    repository = require_repository(option)
    extras.require("publish", "`modelwheel doctor --github`")
    from ..index.github.api import GitHub
    from ..index.github.settings import examine

    with (
        GitHub(repository, report=tell) as github,
        BuildDisplay(results=False) as display,
        step(f"asking GitHub about {repository}", display),
    ):
        settings = list(examine(github, load_config().release.mode))
    if as_json:
        print_json(settings)
    else:
        print_diagnosis(settings, "github")
    raise typer.Exit(any(setting.required and not setting.ok for setting in settings))
