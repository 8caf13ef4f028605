"""`modelwheel tune`: what batch sizes and flags of XLA cost on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import extras
from ...api.settings import open_store
from ...errors import UsageError
from ..app import AUTHOR, app
from ..options import AsJson, Specs, load, make_requests, refuse_together, refuse_without
from ..output import print_json, say
from ..sandboxes import SandboxMode, open_sandbox
from ..stores import with_store

if TYPE_CHECKING:
    from ...bench.tune import Tuner
    from ...request import Request
    from ..display.progress import BuildDisplay


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel tune model_specs/digits.yaml",
        "modelwheel tune --workload 1:70,16:25,100:5 model_specs/digits.yaml",
    ],
)
@with_store
def tune(
    specs: Specs,
    flags: Annotated[
        bool,
        typer.Option(
            "--flags",
            help="Also try flags of XLA at each level, and keep those that gain 3 %.",
        ),
    ] = False,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS:WEIGHT,...",
            help="Propose batch sizes for calls with these numbers of rows, such as 1:70,16:25,100:5.",
        ),
    ] = None,
    code_budget: Annotated[
        int | None,
        typer.Option(
            metavar="KB",
            min=1,
            help="With --workload: the most machine code of all batch sizes at one level.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --workload: time for a row against rows, as SVG."),
    ] = None,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each batch size costs here and write it to a lock file beside the spec.

    It repeats until the times are stable. With --workload, it measures more batch sizes, says which ones to put into the spec,
    and writes no lock file.
    """
    extras.require("build", "`modelwheel tune`", advise="compile")
    from ...config import load_config
    from ...engine.requirements import require_for_build

    if workload is None:
        refuse_without("--workload", {"--code-budget": code_budget, "--plot": plot})
    else:
        refuse_together("--workload", {"--flags": flags}, "it writes no lock file")
    if plot is not None:
        extras.require("plot", "--plot")
    store, requests = open_store(), make_requests(load(specs), None, None)
    if plot is not None and len(requests) > 1:
        raise UsageError(f"--plot is for one spec; {len(requests)} are named", code="MW208")
    chosen, limits = open_sandbox(sandbox), load_config().limits
    from ...bench.tune import Tuner
    from ..display.progress import BuildDisplay

    with store.scratch() as scratch:
        require_for_build(requests, store, "wheel", scratch)
        with BuildDisplay() as display:
            tuner = Tuner(store, chosen, display, limits, scratch)
            if workload is None:
                _tune(requests, tuner, display, flags=flags, as_json=as_json)
            else:
                budget = None if code_budget is None else code_budget * 1000
                _propose(requests, tuner, display, workload, budget, plot, as_json=as_json)


def _tune(
    requests: Sequence[Request], tuner: Tuner, display: BuildDisplay, *, flags: bool, as_json: bool
) -> None:
    from ...bench.tune import tune_spec
    from ..display.tune import print_tuned

    tuned = []
    for request in requests:
        tuned.append(tune_spec(request, tuner, flags=flags))
        if not as_json:
            with display.paused():
                print_tuned(tuned[-1])
                say(f"wrote {tuned[-1].lock}; commit it with {request.spec.path.name}")
    if as_json:
        print_json(tuned)


def _propose(
    requests: Sequence[Request],
    tuner: Tuner,
    display: BuildDisplay,
    text: str,
    budget: int | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    from ...bench.plots import write_splits
    from ...bench.tune import propose_sizes
    from ...bench.workload import parse_workload
    from ..display.tune import print_proposal

    workload, proposals = parse_workload(text), []
    for request in requests:
        proposals.append(propose_sizes(request, tuner, workload, budget))
        if plot is not None:
            write_splits(proposals[-1], workload, plot)
        if not as_json:
            with display.paused():
                print_proposal(proposals[-1])
                say(_advice(request, proposals[-1].proposed))
    if as_json:
        print_json(proposals)


def _advice(request: Request, proposed: Sequence[int]) -> str:
    if tuple(proposed) == request.batch_sizes:
        return f"{request.spec.path} has these batch sizes already"
    sizes = ", ".join(map(str, proposed))
    return f"to use them, write `batch_sizes: [{sizes}]` under `compilation` in {request.spec.path}"
