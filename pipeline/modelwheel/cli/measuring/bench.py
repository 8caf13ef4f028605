"""`modelwheel bench`: a wheel beside the other runtimes that are installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import extras
from ...api.settings import open_store
from ...errors import UsageError
from .. import completion
from ..app import AUTHOR, app
from ..models import load_any
from ..options import AsJson, BatchSizes, Levels, make_requests
from ..output import print_json
from ..sandboxes import SandboxMode, open_sandbox
from ..stores import with_store

if TYPE_CHECKING:
    from ...bench.compare import Contender, Settings
    from ...sandbox.choose import Sandbox
    from ...spec import Spec
    from ...store.store import Store
    from ..display.progress import BuildDisplay


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel bench model_specs/digits.yaml",
        "modelwheel bench dist/model_digits-1.0.0-cp312-cp312-linux_x86_64.whl --peer onnx=digits.onnx",
    ],
)
@with_store
def bench(
    model: Annotated[
        str,
        typer.Argument(
            metavar="SPEC|MODEL|WHEEL",
            help="A spec or a model, which is built, or a wheel.",
            autocompletion=completion.specs_and_wheels,
        ),
    ],
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT=PATH",
            help="The same model for other runtimes: onnx=FILE, tflite=FILE, saved_model=DIR; may be repeated.",
        ),
    ] = None,
    batch_size: BatchSizes = None,
    level: Levels = None,
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads that each runtime may use.")
    ] = 1,
    seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.01,
            help="Time for each side, number of rows and kind of calls.",
        ),
    ] = 1.0,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write plots as SVG files to this directory.")
    ] = None,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Time a wheel and other runtimes in turn: ONNX Runtime, OpenVINO, LiteRT, TensorFlow, XLA's jit.

    Those that are installed and read a file of the model take part. A spec's own SavedModel or ONNX file needs no --peer; models of TensorFlow's
    and Keras's are exported, as far as TensorFlow's converter and tf2onnx can.
    With --batch-size, the numbers of rows; by default every compiled batch size.
    """
    extras.require("build", "`modelwheel bench`", advise="compile")
    if plots is not None:
        extras.require("plot", "--plots")
    from ...bench.compare import Settings, compare, describe_machine
    from ...bench.results import Benchmark
    from ..display.bench import print_compared, print_machine, print_mean
    from ..display.console import OUT
    from ..display.progress import BuildDisplay

    files = _peers(peer or ())
    settings = Settings(rows=batch_size or (), levels=level or (), threads=threads, seconds=seconds)
    store, chosen = open_store(), open_sandbox(sandbox)
    specs = [] if model.endswith(".whl") else load_any([model], sandbox)
    with store.scratch() as scratch, BuildDisplay() as display:
        contender = _contender(model, settings, specs, store, chosen, scratch, display)
        contender = replace(contender, files={**contender.files, **files})
        machine = describe_machine()
        compared = compare(contender, settings, chosen, scratch, watcher=display)
    benchmark = Benchmark(machine=machine, models=tuple(compared))
    if plots is not None:
        from ...bench.plots import write_plots

        write_plots(benchmark, plots)
    if as_json:
        print_json(benchmark)
        return
    print_machine(OUT, machine, compared)
    for result in compared:
        print_compared(OUT, result)
    print_mean(OUT, benchmark)


def _peers(peers: Sequence[str]) -> Mapping[str, Path]:
    from ...bench.compare import FORMATS

    files = {}
    for text in peers:
        name, _, path = text.partition("=")
        if name not in FORMATS or not path:
            raise UsageError(
                f"--peer {text!r} is not FORMAT=PATH; formats are {', '.join(FORMATS)}"
            )
        if not Path(path).exists():
            raise UsageError(f"--peer: there is no {path!r}", code="MW209")
        files[name] = Path(path)
    return files


def _contender(
    model: str,
    settings: Settings,
    specs: Sequence[Spec],
    store: Store,
    sandbox: Sandbox,
    scratch: Path,
    display: BuildDisplay,
) -> Contender:
    """A wheel as it is, or what a spec becomes."""
    from ...bench.compare import Contender
    from ...packaging.runtime import needed_wheels
    from ...wheelfile.wheel import open_wheel

    if model.endswith(".whl"):
        manifest = open_wheel(Path(model)).manifest
        return Contender(Path(model), needed_wheels(manifest, store, scratch / "needed"))
    from ...bench.build import build_contenders
    from ...config import load_config
    from ...engine.build import BuildOptions
    from ...engine.requirements import require_for_build

    if len(specs) != 1:
        raise UsageError(f"one model at a time: {model!r} names {len(specs)} specs", code="MW208")
    requests = make_requests(specs, settings.levels or None, None)
    out = scratch / "dist"
    require_for_build(requests, store, "wheel", scratch)
    options = BuildOptions(out, sandbox, limits=load_config().limits)
    ((result, contender),) = build_contenders(
        requests, store, options, display, scratch / "exported"
    )
    for _, error in result.errors:
        raise error
    assert contender is not None
    return contender
