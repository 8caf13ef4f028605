"""Commands for a repository of models: its first files, and their renewal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import RepositoryError, UsageError
from .app import AUTHOR, MAINTENANCE, app
from .options import AsJson, refuse_together
from .output import print_json, say, tell

if TYPE_CHECKING:
    from ..repository.renew import Change

_SERVICES: dict[str, tuple[Literal["github", "gitlab"], ...]] = {
    "github": ("github",),
    "gitlab": ("gitlab",),
    "both": ("github", "gitlab"),
}

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The repository; by default the current directory.")
]


@app.command(rich_help_panel=AUTHOR, examples=["modelwheel init models"])
def init(
    directory: Directory = Path(),
    ci: Annotated[
        Literal["github", "gitlab", "both"],
        typer.Option(
            "--ci",
            metavar="SERVICE",
            help="Whose pipelines check and release: github, gitlab or both.",
        ),
    ] = "github",
    mode: Annotated[
        Literal["github", "pypi", "token"] | None,
        typer.Option(
            metavar="MODE",
            help="Where releases go: github (releases of the repository), pypi, or token (an index with a password).",
        ),
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/REPOSITORY",
            help="The repository on GitHub; by default that of the remote `origin`.",
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            "--site-url",
            metavar="URL",
            help="The simple API of the static site; by default on GitHub Pages.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that have other content.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start a repository of models: an example spec, modelwheel.toml, README and workflows.

    No file that has other content is overwritten without --force.
    """
    from ..repository.begin import answer, begin
    from ..util.words import count

    services = _SERVICES[ci]
    if mode == "github" and "github" not in services:
        refuse_together("--mode github", {"--ci gitlab": True}, "GitLab has no releases of GitHub")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; name the directory of the repository")
    chosen = mode or ("github" if "github" in services else "token")
    answers = answer(directory, services, chosen, repository, site)
    begun = begin(directory, answers, force=force)
    if as_json:
        print_json(begun)
        return
    for word, paths in (
        ("wrote", begun.written),
        ("overwrote", begun.overwritten),
        ("is there", begun.unchanged),
    ):
        for path in paths:
            say(f"{word}  {path}")
    say(f"{count(len(begun.written) + len(begun.overwritten), 'file')} in {directory}")
    say("next: read README.md, then `modelwheel check model_specs`")


@app.command(rich_help_panel=MAINTENANCE, examples=["modelwheel update"])
def update(
    directory: Directory = Path(),
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; fail if a file would change."),
    ] = False,
    on_conflict: Annotated[
        Literal["stop", "mine", "new"],
        typer.Option(
            metavar="CHOICE",
            help="For files whose lines both you and the new version have changed: stop (leave them and fail), "
            "mine (keep your text) or new (take the new version's).",
        ),
    ] = "stop",
    as_json: AsJson = False,
) -> None:
    """Renew the files that `modelwheel init` wrote, keep your changes, and show the difference.

    Workflows, .pre-commit-config.yaml and schema.json are renewed, and the mode of releases is that of modelwheel.toml.
    """
    from ..repository import renew

    record, changes = renew.plan(directory, on_conflict)
    if not check:
        renew.apply(directory, record, changes)
    if as_json:
        print_json([change.model_dump(exclude={"text"}) for change in changes])
    else:
        _show(changes, check=check)
    conflicts = [change.path for change in changes if change.state == "conflict"]
    if conflicts:
        raise RepositoryError("\n".join(map(_conflict, conflicts)))
    if check and any(change.state in renew.CHANGES for change in changes):
        raise RepositoryError(
            "files are behind this version of modelwheel; run `modelwheel update`"
        )


def _show(changes: list[Change], *, check: bool) -> None:
    from .. import __version__
    from ..repository.renew import CHANGES
    from ..util.words import count

    for change in changes:
        if change.difference and change.state != "same":
            say(change.difference.rstrip("\n"))
    for change in changes:
        if change.state == "kept":
            tell(f"{change.path} was removed here, and is not written again")
    changed = sum(change.state in CHANGES for change in changes)
    verb = "would change" if check else "changed"
    say(f"{count(changed, 'file')} {verb} for modelwheel {__version__}")


def _conflict(path: str) -> str:
    return (
        f"{path}: you and the new version of modelwheel changed the same lines, so it was left as it is; edit it by the "
        "difference above and run this again, or pass --on-conflict mine or --on-conflict new"
    )
