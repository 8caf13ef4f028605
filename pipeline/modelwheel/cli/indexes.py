"""Commands that read, write and fill package indexes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import extras
from ..config import FILE_NAME, find_address, require_address
from ..errors import UsageError
from ..util.text import one_line
from . import completion
from .app import RELEASE, app
from .options import (
    AsJson,
    GithubOutput,
    Out,
    Specs,
    Wheels,
    append_output,
    load,
    refuse_together,
    refuse_without,
    require_appendable,
)
from .output import print_json, say, tell

if TYPE_CHECKING:
    from ..index.plan import Release

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
        help=f"Where the index takes uploads; by default `upload` in {FILE_NAME}.",
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


@app.command(rich_help_panel=RELEASE)
def download(
    specs: Specs,
    index_url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="The simple API of an index; may be repeated: the first that has a wheel is used. "
            f"By default `site`, then `url` in {FILE_NAME}.",
        ),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Add the measurements and signed statements in this directory to wheels that have none; "
            "nothing else is copied.",
        ),
    ] = None,
    out: Annotated[Path, Out] = Path("dist"),
    as_json: AsJson = False,
) -> None:
    """Download the released wheels of specs from package indexes, for a new static index."""
    extras.require("publish", "`modelwheel download`")
    from ..index.released import add_measured, download_wheels
    from ..util.words import count
    from ..versions import RUNTIME
    from .display.progress import BuildDisplay

    loaded = load(specs)
    projects = {spec.distribution for spec in loaded}
    if any(spec.package.bindings == "shared" for spec in loaded):
        projects.add(RUNTIME)
    with BuildDisplay(results=False) as display:
        copied = download_wheels(projects, _index_urls(index_url or ()), out, display)
    if measured is not None:
        add_measured(measured, out)
    if as_json:
        print_json({"projects": projects, "downloaded": [out / name for name in copied]})
        return
    for name in copied:
        say(out / name)
    tell(f"{count(len(copied), 'released wheel')} downloaded")


def _index_urls(given: Sequence[str]) -> list[str]:
    """The indexes to read; an empty URL, as workflows pass it, means "not given"."""
    urls = [url for url in given if url]
    if not urls:
        urls = [url for url in (find_address("site", None), find_address("url", None)) if url]
    return urls or [require_address("url", None, "--index-url")]


@app.command(rich_help_panel=RELEASE)
def index(
    wheels: Wheels,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the site and the wheels will be served. Without it the wheels are copied into the "
            "site, and all links are relative.",
        ),
    ] = None,
    site_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The site's simple API in the install lines of the page, if the wheels are copied; "
            f"by default `site` in {FILE_NAME}.",
        ),
    ] = None,
    out: Annotated[Path, Out] = Path("site"),
    as_json: AsJson = False,
) -> None:
    """Write a static package index with a catalogue page of the models."""
    extras.require("publish", "`modelwheel index`")
    from ..index.site import write_site
    from ..util.words import count
    from .display.progress import BuildDisplay

    if base_url:
        refuse_together("--base-url", {"--site-url": site_url}, "the site's API is below it")
    address = find_address("site", site_url)
    with BuildDisplay(results=False) as display:
        site = write_site(wheels, out, base_url or None, address, display)
    if as_json:
        print_json(site)
        return
    where = "copied" if site.copied else "to be served at the same address"
    numbers = f"{count(site.projects, 'model')}, {count(site.wheels, 'wheel')}"
    say(f"wrote {site.directory}: {numbers} {where}")


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
PYPI_LARGEST = 100 << 20
LargestFile = Annotated[
    float,
    typer.Option(
        metavar="MB", min=0, help="Largest file the index accepts, in MB; by default as PyPI."
    ),
]


@app.command(rich_help_panel=RELEASE)
def publish(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIST",
            help="Wheels and source distributions, or directories of them.",
            autocompletion=completion.distributions,
        ),
    ],
    repository_url: RepositoryUrl = None,
    index_url: SimpleApi = None,
    max_size: LargestFile = PYPI_LARGEST / 1e6,
    any_index: AnyIndex = False,
    release: ReleaseTag = None,
    release_list: ListOfRelease = None,
    github_needs: GithubNeeds = None,
    github_output: GithubOutput = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be uploaded.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload to a package index, then download and compare. Safe to repeat after a failure.

    Credentials come from TWINE_USERNAME and TWINE_PASSWORD or from the keyring. With --github-output,
    `sums` are the SHA-256 of the files, if all are acceptable.
    """
    extras.require("publish", "`modelwheel publish`")
    from ..index.plan import Rules
    from ..index.publish import Publisher
    from ..packaging.checksums import format_checksums
    from ..util import records
    from ..util.watching import step
    from ..wheelfile.collect import find_distributions
    from .display.progress import BuildDisplay
    from .display.tables import print_publication

    require_appendable(github_output)
    bound = _bind(release, release_list, github_needs)
    with Publisher(
        require_address("upload", repository_url, "--repository-url"),
        index_url=_served_at(index_url, repository_url),
        rules=Rules(round(max_size * 1e6), any_index),
        report=tell,
    ) as publisher:
        with BuildDisplay(results=False) as display, step("reading the index", display):
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
        say(f"{len(uploaded)} uploaded, {len(planned.files)} compared with the index")


def _bind(tag: str | None, release_list: str | None, needs: str | None) -> Release | None:
    """What the files must be, from the options that say so."""
    from ..index.plan import Release
    from ..index.release_list import read_hashes, read_list

    # Empty is not "not given": a workflow that lost its tag must not publish whatever there is.
    if tag is None:
        refuse_without("--release", {"--list": release_list, "--github-needs": needs})
        return None
    if not release_list:
        raise UsageError("--release needs --list: run `modelwheel plan SPEC --release-list` for it")
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
