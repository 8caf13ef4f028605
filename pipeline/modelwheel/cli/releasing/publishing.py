"""The command that publishes a release: on GitHub, on PyPI, or on any package index with a password."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import extras
from ...config import (
    FILE_NAME,
    Mode,
    choose_mode,
    find_address,
    require_address,
    require_repository,
)
from ...errors import UsageError
from ...util.text import one_line
from .. import completion
from ..app import RELEASE, app
from ..options import (
    AsJson,
    GithubOutput,
    GithubRepository,
    append_output,
    refuse_together,
    refuse_without,
    require_appendable,
)
from ..output import print_json, say, tell

if TYPE_CHECKING:
    from ...index.github.publish import GithubPublisher
    from ...index.plan import Plan, Release
    from ...index.publish import Publisher

AnyIndex = Annotated[
    bool,
    typer.Option(
        "--any-index",
        help="Also upload wheels with `linux_*` tags, which PyPI and most other indexes refuse.",
    ),
]
RepositoryUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"Where the index takes uploads; by default `upload` in {FILE_NAME}. Not for the mode `github`.",
    ),
]
SimpleApi = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The index's simple API; by default `simple/` below --repository-url, or `url` in "
        f"{FILE_NAME} if `upload` comes from there.",
    ),
]


ReleaseTag = Annotated[
    str | None,
    typer.Option(
        metavar="NAME-VERSION",
        help="Refuse everything but the files of this release, and if one of them is missing.",
    ),
]
ListOfRelease = Annotated[
    str | None,
    typer.Option(
        "--list",
        metavar="FILE|JSON",
        help="With --release: the list of `modelwheel plan --release-list`.",
    ),
]
GithubNeeds = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help="With --release: the `needs` of a workflow, where each job hands on the `sums` of its "
        "files. Refuse files that differ.",
    ),
]
LargestFile = Annotated[
    float | None,
    typer.Option(
        metavar="MB",
        min=0,
        help="Largest file that is accepted, in MB; by default PyPI's limit, or GitHub's.",
    ),
]
ReleaseMode = Annotated[
    Mode | None,
    typer.Option(
        help="A release on GitHub, PyPI, or `token`: any index with a password. By default `mode` in section [release] of "
        f"{FILE_NAME}, else an index if `upload` is there or --repository-url is given, else github."
    ),
]
TagOnGithub = Annotated[
    str | None,
    typer.Option(
        metavar="NAME-VERSION",
        help="With github: the tag of the release; by default that of the files.",
    ),
]


Measured = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="With github: put the measurements in this directory beside files that have none, for the catalogue; nothing "
        "else is taken from there.",
    ),
]


@app.command(
    rich_help_panel=RELEASE,
    examples=[
        "modelwheel publish --dry-run dist",
        "modelwheel publish --repository-url https://example.org/upload/ dist",
    ],
)
def publish(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIST",
            help="Wheels and source distributions, or directories of them.",
            autocompletion=completion.distributions,
        ),
    ],
    mode: ReleaseMode = None,
    github_repository: GithubRepository = None,
    tag: TagOnGithub = None,
    repository_url: RepositoryUrl = None,
    index_url: SimpleApi = None,
    max_size: LargestFile = None,
    any_index: AnyIndex = False,
    release: ReleaseTag = None,
    release_list: ListOfRelease = None,
    github_needs: GithubNeeds = None,
    measured: Measured = None,
    github_output: GithubOutput = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be uploaded.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish a release, then compare it with the files. Safe to repeat after a failure.

    On GitHub, a draft gets all files and is published when they are equal; the token comes from GITHUB_TOKEN. For indexes,
    credentials come from TWINE_USERNAME and TWINE_PASSWORD or from the keyring. With --github-output, `sums` are the
    SHA-256 of the files, if all are acceptable.
    """
    extras.require("publish", "`modelwheel publish`")
    from ...packaging.checksums import format_checksums
    from ...util import records
    from ...util.watching import step
    from ...wheelfile.collect import find_distributions
    from ..display.progress import BuildDisplay
    from ..display.tables import print_publication

    require_appendable(github_output)
    bound = _bind(release, release_list, github_needs)
    if choose_mode(mode, repository_url) == "github":
        others: dict[str, object] = {
            "--repository-url": repository_url,
            "--index-url": index_url,
        }
        refuse_together("--mode github", others, "they are addresses of a package index")
        _add_measured(measured, files)
        target: Publisher | GithubPublisher = _on_github(
            github_repository, tag, max_size, any_index=any_index
        )
    else:
        others = {"--github-repository": github_repository, "--tag": tag, "--measured": measured}
        refuse_without("--mode github", others)
        target = _on_index(mode, repository_url, index_url, max_size, any_index=any_index)
    with target as publisher:
        with BuildDisplay(results=False) as display, step("reading what is there", display):
            planned = publisher.plan(find_distributions(files), bound)
        if not as_json:
            print_publication(planned)
        stops = dry_run or bool(planned.refused)
        uploaded = [] if stops else publisher.publish(planned)
    if as_json:
        print_json({**records.as_json(planned), "uploaded": uploaded, "verified": not stops})
    planned.require_acceptable()
    if github_output is not None:
        sums = format_checksums({file.name: file.sha256 for file in planned.files})
        append_output(github_output, sums=sums)
    if not as_json and not stops:
        _say_published(planned, uploaded, target)


def _on_github(
    repository: str | None, tag: str | None, max_size: float | None, *, any_index: bool
) -> GithubPublisher:
    from ...index.github.publish import GithubPublisher
    from ...index.github.release import MAX_BYTES
    from ...index.plan import Rules

    return GithubPublisher(
        require_repository(repository),
        tag=tag or None,
        index_url=find_address("site", None) or find_address("url", None),
        rules=Rules(MAX_BYTES if max_size is None else round(max_size * 1e6), any_index=any_index),
        report=tell,
    )


def _add_measured(measured: Path | None, files: Sequence[Path]) -> None:
    from ...index.released import add_measured

    if measured is not None:
        for directory in {file if file.is_dir() else file.parent for file in files}:
            add_measured(measured, directory)


def _on_index(
    mode: Mode | None,
    repository_url: str | None,
    index_url: str | None,
    max_size: float | None,
    *,
    any_index: bool,
) -> Publisher:
    from ...index import pypi
    from ...index.plan import Rules
    from ...index.publish import Publisher

    if choose_mode(mode, repository_url) == "pypi":
        url = find_address("upload", repository_url) or pypi.UPLOAD_URL
    else:
        url = require_address("upload", repository_url, "--repository-url")
    return Publisher(
        url,
        index_url=_served_at(index_url, repository_url),
        rules=Rules(
            pypi.MAX_BYTES if max_size is None else round(max_size * 1e6),
            pypi.MAX_PROJECT_BYTES if pypi.is_pypi(url) else None,
            any_index,
        ),
        report=tell,
    )


def _say_published(planned: Plan, uploaded: list[str], target: Publisher | GithubPublisher) -> None:
    from ...index.github.publish import GithubPublisher

    where = "the index"
    if isinstance(target, GithubPublisher):
        where = f"the release {target.release.url}"
        if not target.release.immutable:
            tell(
                "note: this release can still be changed; turn on immutable releases in the settings of the repository"
            )
    say(f"{len(uploaded)} uploaded, {len(planned.files)} compared with {where}")


def _bind(tag: str | None, release_list: str | None, needs: str | None) -> Release | None:
    """The requirements that options put on the files."""
    from ...index.plan import Release
    from ...index.release_list import read_hashes, read_list

    # Empty is not "not given": a workflow that lost its tag must not publish whatever there is.
    if tag is None:
        refuse_without("--release", {"--list": release_list, "--github-needs": needs})
        return None
    if not release_list:
        raise UsageError(
            "--release needs --list: run `modelwheel plan SPEC --release-list` for it", code="MW202"
        )
    listed = read_list(release_list)
    if listed.tag != tag:
        raise UsageError(
            f"--list belongs to {one_line(listed.tag)}, but --release is {one_line(tag) or 'empty'}"
        )
    return Release(listed, None if needs is None else read_hashes(listed, needs))


def _served_at(index_url: str | None, repository_url: str | None) -> str | None:
    """The simple API to compare with; None if it is the one below the upload address."""
    # `url` belongs to `upload`: files must not be compared with another index than they go to.
    if not index_url and not repository_url:
        return find_address("url", None)
    return index_url or None
