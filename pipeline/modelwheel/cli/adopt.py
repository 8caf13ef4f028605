"""`modelwheel adopt`: tries another TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import extras
from ..api.settings import open_store
from .app import MAINTENANCE, app
from .options import AsJson, Jobs, Specs
from .output import print_json, say
from .sandboxes import SandboxMode, open_sandbox
from .stores import with_store


@app.command(
    rich_help_panel=MAINTENANCE, examples=["modelwheel adopt tensorflow==2.22.0 model_specs"]
)
@with_store
def adopt(
    requirement: Annotated[
        str,
        typer.Argument(metavar="tensorflow==VERSION", help="The TensorFlow to try."),
    ],
    specs: Specs,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Where to write the page, the wheels of both, and the environment, which the next trial uses again.",
        ),
    ] = Path("adopt"),
    seconds: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.01, help="Time for each wheel and number of rows."),
    ] = 1.0,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Compile with the candidate on a Dask cluster whose workers have it: tcp://HOST:PORT, tls://HOST:PORT, or "
            "local:N for N worker processes here. By default on this machine.",
        ),
    ] = None,
    jobs: Jobs = None,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Try another TensorFlow: what changed in XLA's formats, which models build, their errors, sizes and speed.

    It is installed into an environment of its own, and nothing is switched by it. The exit code is 1 unless it is ready.
    """
    extras.require("compile", "`modelwheel adopt`")
    from ..adopt.environment import parse_candidate
    from ..adopt.page import verdict, write_page
    from ..adopt.run import Plan, try_candidate
    from ..bench.compare import Settings
    from ..util.files import write_atomically
    from .display.progress import BuildDisplay
    from .models import load_any

    version = parse_candidate(requirement)
    load_any(specs, sandbox)  # mistakes in specs are found before anything is installed
    store = open_store()
    jobs_here = ("--jobs", str(jobs)) if jobs else ()
    plan = Plan(
        version=version,
        specs=specs,
        out=out.absolute(),
        options=("--store", store.address, *(("--sandbox", sandbox) if sandbox else ())),
        pinned_options=jobs_here,
        candidate_options=("--cluster", cluster) if cluster else ("--cluster", "off", *jobs_here),
        settings=Settings(seconds=seconds),
    )
    with BuildDisplay(results=False) as display:
        outcome = try_candidate(plan, store, open_sandbox(sandbox), display)
    page = out / f"tensorflow-{version}.md"
    write_atomically(page, write_page(outcome).encode())
    if as_json:
        print_json(outcome)
    else:
        lines = (verdict(outcome), *(f"  {text}" for text in outcome.objections), f"wrote {page}")
        say("\n".join(lines))
    raise typer.Exit(not outcome.ready)
