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
    from ..adopt.environment import install_candidate, parse_candidate, this_installation
    from ..adopt.page import Outcome, verdict, write_page
    from ..adopt.trial import build_all, compare_all, read_schema
    from ..adopt.verdict import objections
    from ..bench.compare import Settings, describe_machine
    from ..compiler.schema import differences, unread_thunks
    from ..util.files import write_atomically
    from .display.progress import BuildDisplay
    from .models import load_any

    version = parse_candidate(requirement)
    load_any(specs, sandbox)  # mistakes in specs are found before anything is installed
    store, chosen = open_store(), open_sandbox(sandbox)
    options = [
        *("--store", store.address),
        *(("--sandbox", sandbox) if sandbox else ()),
    ]
    jobs_here = ("--jobs", str(jobs)) if jobs else ()
    place = ("--cluster", "off", *jobs_here) if cluster is None else ("--cluster", cluster)
    pinned = this_installation()
    with BuildDisplay(results=False) as display:
        candidate = install_candidate(version, out.absolute(), display)
        schemas = read_schema(pinned), read_schema(candidate)
        built = [
            build_all(one, specs, more, out.absolute() / f"wheels-{one.tensorflow}", display)
            for one, more in ((pinned, [*options, *jobs_here]), (candidate, [*options, *place]))
        ]
        settings = Settings(seconds=seconds)
        trials = compare_all(built[0], built[1], settings, chosen, store, display)
    changed, thunks = list(differences(*schemas)), unread_thunks(*schemas)
    against = list(objections(changed, thunks, trials))
    outcome = Outcome(
        pinned.tensorflow, version, changed, thunks, trials, against, describe_machine()
    )
    page = out / f"tensorflow-{version}.md"
    write_atomically(page, write_page(outcome).encode())
    if as_json:
        print_json(outcome)
    else:
        say("\n".join((verdict(outcome), *(f"  {one}" for one in against), f"wrote {page}")))
    raise typer.Exit(not outcome.ready)
