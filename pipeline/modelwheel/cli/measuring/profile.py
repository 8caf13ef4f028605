"""`modelwheel profile`: what each step of a model takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ... import extras
from ...api.settings import open_store
from ...errors import UsageError
from .. import completion
from ..app import AUTHOR, app
from ..models import load_any
from ..options import AsJson, make_requests
from ..output import print_json
from ..sandboxes import SandboxMode, open_sandbox
from ..stores import with_store


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel profile model_specs/digits.yaml",
        "modelwheel profile --batch-size 16 --flames flames.svg model_specs/digits.yaml",
    ],
)
@with_store
def profile(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC|MODEL",
            help="A spec file, or a model itself.",
            autocompletion=completion.specs_and_models,
        ),
    ],
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", help="By default the smallest one of the spec.")
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="By default the highest one that this CPU has.",
            autocompletion=completion.levels,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.01, help="How long the model runs.")
    ] = 1.0,
    threads: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=16, help="Also time the steps with this many threads."
        ),
    ] = 1,
    flames: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a flame graph as SVG to this file.")
    ] = None,
    roofline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a roofline plot as SVG: products, and what the machine could reach.",
        ),
    ] = None,
    dump: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the program there as text, and what it was after each pass of the compiler.",
        ),
    ] = None,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Show what each step of a model takes here, the layer that it comes from, and its part of the CPU's peak.

    The steps are those of the wheel, in a program of their own whose code reads a clock after each of them.
    """
    extras.require("build", "`modelwheel profile`", advise="compile")
    for option, path in (("--flames", flames), ("--roofline", roofline)):
        if path is not None:
            extras.require("plot", option)
    if spec.endswith(".whl"):
        raise UsageError(f"{spec} is a wheel, whose code reads no clock; name the spec instead")
    from ...bench.profile import narrow
    from ...bench.profile import profile as measure
    from ...config import load_config
    from ...engine import build as builder
    from ...engine.requirements import require_for_build
    from ...util.watching import step
    from ..display.console import OUT
    from ..display.profile import print_profile
    from ..display.progress import BuildDisplay

    specs = load_any([spec], sandbox)
    if len(specs) != 1:
        raise UsageError(f"one model at a time: {spec!r} names {len(specs)} specs", code="MW208")
    (request,) = make_requests(
        specs, [level] if level else None, [batch_size] if batch_size else None
    )
    request = narrow(request)
    store, chosen = open_store(), open_sandbox(sandbox)
    with store.scratch() as scratch:
        require_for_build([request], store, "profile", scratch)
        options = builder.BuildOptions(
            scratch / "out", chosen, "profile", limits=load_config().limits
        )
        with BuildDisplay() as display:
            (result,) = builder.build([request], store, options, display)
            for _, error in result.errors:
                raise error
            with step(f"{request.name}/measure", display):
                measured = measure(request, store, chosen, scratch, seconds, threads)
    if dump is not None:
        from ...engine.passes import write_passes

        write_passes(request, store, chosen, dump)
    if flames is not None:
        from ...bench.profile_plots import write_flames

        write_flames(measured, flames)
    if roofline is not None:
        from ...bench.profile_plots import write_roofline

        write_roofline(measured, roofline)
    if as_json:
        print_json(measured)
    else:
        print_profile(OUT, measured)
