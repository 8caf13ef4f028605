"""Commands before a release: which specs have none yet, and the tags that start one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ... import extras
from ...config import FILE_NAME, Mode, choose_mode, find_address, find_repository
from ..app import RELEASE, app
from ..options import (
    AsJson,
    ChangedSince,
    GithubOutput,
    GithubRepository,
    OptionalSpecs,
    Specs,
    append_output,
    load,
    require_appendable,
)
from ..output import print_json, say, tell

if TYPE_CHECKING:
    from ...release.due import Due
    from ...spec import Spec


@app.command(
    "release-plan", rich_help_panel=RELEASE, examples=["modelwheel release-plan model_specs"]
)
def release_plan(
    specs: OptionalSpecs = None,
    changed_since: ChangedSince = None,
    mode: Annotated[
        Mode | None, typer.Option(help="Where releases go; by default as for `publish`.")
    ] = None,
    github_repository: GithubRepository = None,
    github_output: GithubOutput = None,
    as_json: AsJson = False,
) -> None:
    """List the specs whose versions have no release yet; by default those in model_specs.

    Compares with the tags in git, and in the mode `github` with the releases. Fails if a released version has changed. With
    --github-output, `plan` is the list as JSON.
    """
    from ...release.due import list_due
    from ...util import records
    from ...util.words import count

    require_appendable(github_output)
    loaded = load(specs or ["model_specs"], changed_since)
    chosen = choose_mode(mode)
    tags = _released_tags(loaded, github_repository) if chosen == "github" else None
    due = list_due(loaded, tags, None if chosen == "github" else _asks_index())
    append_output(github_output, plan=json.dumps(records.as_json(due)))
    if as_json:
        print_json(due)
        return
    for release in due:
        say(f"{release.tag}  {release.spec}{'  new project' if release.new_project else ''}")
    _warn(due, chosen)
    never = sum(not spec.package.publish for spec in loaded)
    kept = f", {never} with `publish: false`" if never else ""
    say(f"{count(len(due), 'model')} to release, {len(loaded) - len(due) - never} released{kept}")


def _released_tags(specs: Sequence[Spec], option: str | None) -> list[str] | None:
    """The tags of the releases on GitHub; None if the repository is not known, so that tags alone count."""
    repository = find_repository(option)
    if repository is None:
        tell(
            "note: compared with the tags in git alone; set `repository` in section [release] of "
            f"{FILE_NAME} to compare with the releases on GitHub"
        )
        return None
    extras.require("publish", "`modelwheel release-plan` with releases on GitHub")
    from ...index.github.api import GitHub
    from ...index.github.released import list_published
    from ...util.watching import step
    from ..display.progress import BuildDisplay

    names = {spec.model.name for spec in specs}
    with (
        GitHub(repository, report=tell) as github,
        BuildDisplay(results=False) as display,
        step("reading the releases", display),
    ):
        return [release.tag for release in list_published(github, names)]


def _asks_index() -> Callable[[Spec], bool] | None:
    """Whether the index has no project for a spec; None if no index is configured."""
    url = find_address("url", None)
    if url is None:
        return None
    extras.require("publish", "`modelwheel release-plan` with a package index")
    from ...index.released import open_index

    def is_new(spec: Spec) -> bool:
        with open_index(url) as index:
            return index.files(spec.distribution) is None

    return is_new


def _warn(due: Sequence[Due], mode: Mode) -> None:
    if mode == "pypi":
        from ...index.pypi import warn_of_new_names

        for warning in warn_of_new_names([release.name for release in due if release.new_project]):
            say(f"warning: {warning}", err=True)


@app.command(
    rich_help_panel=RELEASE, examples=["modelwheel tag model_specs/digits.yaml --push origin"]
)
def tag(
    specs: Specs,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="REMOTE", help="Push the tags there, one at a time, such as `origin`."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tag the current commit as the release of each spec: NAME-VERSION.

    Tags that exist are kept. A spec that is not committed, differs from what its tag released, or has `publish: false` is an error. GitHub starts
    no workflow if more than three tags arrive together; and none for a tag that a workflow pushed with its own token.
    """
    from ...release.due import make_tags

    done = make_tags(load(specs), push)
    if as_json:
        print_json([{"tag": name, "done": what} for name, what in done])
        return
    for name, what in done:
        say(f"{name}  {what}")
