"""The command that shows the last builds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import extras
from ..errors import UsageError
from .app import MAINTENANCE, app
from .options import AsJson, Out
from .output import print_json, say


@app.command(rich_help_panel=MAINTENANCE, examples=["modelwheel runs events.jsonl --out builds"])
def runs(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Files that `--json-events` of a command wrote."),
    ],
    out: Annotated[Path, Out] = Path("builds"),
    last: Annotated[int, typer.Option(metavar="N", min=1, help="Show the last N builds.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Write a static page of the last builds: what ran, what was in the store, what failed, and how long it took."""
    extras.require("metrics", "`modelwheel runs`")
    from ..telemetry.events import read_events
    from ..telemetry.history import collect
    from ..telemetry.page import write_pages
    from ..util.words import count

    builds = collect((event for path in files for event in read_events(path)), last)
    try:
        written = write_pages(builds, out, len(files))
    except OSError as error:
        raise UsageError(
            f"cannot write to {error.filename or out}: {error.strerror or error}", code="MW203"
        ) from None
    if as_json:
        print_json({"out": out, "builds": [build.id for build in builds], "files": written})
        return
    say(f"wrote {out / 'index.html'}: {count(len(builds), 'build')}")
