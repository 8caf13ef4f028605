"""The command that shows where releases go by `modelwheel.toml`, for people and for workflows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import extras
from ..util.urls import redact
from .app import MAINTENANCE, app
from .options import AsJson, append_output
from .output import print_json, say


@app.command(rich_help_panel=MAINTENANCE, examples=["modelwheel config"])
def config(
    index_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Use this instead of `index.url`.")
    ] = None,
    repository_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Use this instead of `index.upload`.")
    ] = None,
    site_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Use this instead of `index.site`.")
    ] = None,
    github_output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append them as `NAME=VALUE` to this file.")
    ] = None,
    require_upload: Annotated[
        bool,
        typer.Option(
            "--require-upload",
            help="Fail if releases go to an index, by their mode, and it has no address.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show from modelwheel.toml where releases go, and the addresses of the package index and the site."""
    from ..config import find_address, load_config, require_address

    addresses = {
        "url": find_address("url", index_url),
        "upload": find_address("upload", repository_url),
        "site": find_address("site", site_url),
    }
    mode = load_config().release.mode
    if require_upload and mode == "token":
        require_address("upload", repository_url, "--repository-url")
    if mode == "pypi" and not addresses["upload"] and not extras.missing("publish"):
        from ..index import pypi

        addresses["upload"] = pypi.UPLOAD_URL  # twine knows it
    outputs = {name: url or "" for name, url in addresses.items()}
    append_output(github_output, mode=mode, **outputs)
    # A password in an address is for the program that asks there, not for a log.
    shown = {name: redact(url) if url else None for name, url in addresses.items()}
    if as_json:
        print_json({"mode": mode, **shown})
        return
    say(f"mode    {mode}")
    for name, url in shown.items():
        say(f"{name:6}  {url or 'not set'}")
