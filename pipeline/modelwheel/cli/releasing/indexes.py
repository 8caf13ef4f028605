"""Commands that read, write and fill package indexes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ... import extras
from ...config import (
    FILE_NAME,
    Mode,
    choose_mode,
    find_address,
    find_catalogue_path,
    find_repository,
    load_config,
    require_address,
    require_repository,
)
from .. import completion
from ..app import RELEASE, app
from ..options import AsJson, GithubRepository, Out, Specs, load, refuse_together, refuse_without
from ..output import print_json, say, tell


@app.command(rich_help_panel=RELEASE, examples=["modelwheel download --out dist model_specs"])
def download(
    specs: Specs,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="Where the releases are; by default an index if --index-url is given, else as for `publish`."
        ),
    ] = None,
    github_repository: GithubRepository = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="With github: download the files themselves, not only what a site shows of them.",
        ),
    ] = False,
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
    """Download the releases of specs, for a new static index.

    From GitHub these are small files that describe the releases; from package indexes, wheels and source distributions.
    """
    extras.require("publish", "`modelwheel download`")
    from ...util.words import count
    from ...versions import RUNTIME

    loaded = load(specs)
    shared = any(spec.package.bindings == "shared" for spec in loaded)
    projects = {spec.distribution for spec in loaded} | ({RUNTIME} if shared else set())
    urls = [url for url in index_url or () if url]  # workflows pass empty ones
    if choose_mode(mode, "".join(urls)) == "github":
        others: dict[str, object] = {"--index-url": urls, "--measured": measured}
        refuse_together("--mode github", others, "releases on GitHub have their measurements")
        names = {spec.model.name for spec in loaded} | ({RUNTIME} if shared else set())
        copied = _download_from_github(github_repository, names, out, whole=whole)
    else:
        others = {"--github-repository": github_repository, "--whole": whole}
        refuse_without("--mode github", others)
        copied = _download_from_indexes(projects, urls, measured, out)
    if as_json:
        print_json({"projects": projects, "downloaded": [out / name for name in copied]})
        return
    for name in copied:
        say(out / name)
    new = count(len(copied), "file")
    tell(f"{new} downloaded" if any(out.iterdir()) else "no release yet: nothing to download")


def _download_from_github(
    repository: str | None, names: Collection[str], out: Path, *, whole: bool
) -> list[str]:
    from ...index.github.api import GitHub
    from ...index.github.released import download_releases
    from ..display.progress import BuildDisplay

    with (
        GitHub(require_repository(repository), report=tell) as github,
        BuildDisplay(results=False) as display,
    ):
        return download_releases(github, names, out, whole=whole, watcher=display)


def _download_from_indexes(
    projects: Collection[str], urls: Sequence[str], measured: Path | None, out: Path
) -> list[str]:
    from ...index.released import add_measured, download_files
    from ..display.progress import BuildDisplay

    with BuildDisplay(results=False) as display:
        copied = download_files(projects, _index_urls(urls), out, display)
    if measured is not None:
        add_measured(measured, out)
    return copied


def _index_urls(urls: Sequence[str]) -> Sequence[str]:
    """The indexes to read."""
    known = (find_address("site", None), find_address("url", None))
    return urls or [url for url in known if url] or [require_address("url", None, "--index-url")]


@app.command(rich_help_panel=RELEASE, examples=["modelwheel index dist --out site"])
def index(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIST",
            help="Wheels, source distributions, what `modelwheel download` writes, or directories of them.",
            autocompletion=completion.distributions,
        ),
    ],
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the site and the files will be served. Without it the files are copied into the "
            "site, and all links are relative.",
        ),
    ] = None,
    file_url_template: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Link to the files where they are, and copy none: their address with the words tag, name, version "
            "and file in braces. By default, for releases that `download` found on GitHub, their addresses there.",
        ),
    ] = None,
    site_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The site's simple API in the install lines of the page, without --base-url; "
            f"by default `site` in {FILE_NAME}.",
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help=f"Above the pages; by default `title` in section [catalogue] of {FILE_NAME}.",
        ),
    ] = None,
    logo: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"A picture beside the title; by default `logo` in section [catalogue] of {FILE_NAME}.",
        ),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Pictures of what models do, for their pages: NAME.svg or NAME.png; by default `pictures` in "
            f"section [catalogue] of {FILE_NAME}.",
        ),
    ] = None,
    out: Annotated[Path, Out] = Path("site"),
    as_json: AsJson = False,
) -> None:
    """Write a static package index with a catalogue: an overview, and a page for each model."""
    extras.require("publish", "`modelwheel index`")
    from ...index.site import write_site
    from ...index.site.catalogue import PLAIN, Branding
    from ...util.words import count
    from ..display.progress import BuildDisplay

    if base_url:
        others = {"--site-url": site_url, "--file-url-template": file_url_template}
        refuse_together("--base-url", others, "the site's API and the files are below it")
    address = find_address("site", site_url)
    template = file_url_template or (None if base_url else _where_released(files))
    name = title or load_config().catalogue.title or PLAIN.title
    branding = Branding(
        name,
        find_catalogue_path("logo", logo),
        find_repository(None),
        find_catalogue_path("pictures", pictures),
    )
    with BuildDisplay(results=False) as display:
        site = write_site(files, out, base_url or None, address, display, template, branding)
    if as_json:
        print_json(site)
        return
    where = "copied" if site.copied else "to be served at the same address"
    where = where if template is None else "linked where they are"
    numbers = [count(site.projects, "model"), count(site.wheels, "wheel")]
    numbers += [count(site.sdists, "source distribution")] if site.sdists else []
    what = f"{', '.join(numbers)} {where}" if site.wheels or site.sdists else "no models yet"
    say(f"wrote {site.directory}: {what}")


def _where_released(files: Sequence[Path]) -> str | None:
    """The template for releases on GitHub, if there are entries of them and the repository is known."""
    from ...index.github.api import web_url
    from ...wheelfile.collect import ENTRIES

    entries = f"*{ENTRIES}"
    there = any(path.match(entries) or any(path.glob(entries)) for path in files)
    repository = find_repository(None) if there else None
    if repository is None:
        return None
    return f"{web_url()}/{repository}/releases/download/{{tag}}/{{file}}"
