"""Commands that check, measure and show wheels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import extras
from ...api.settings import open_store
from ...config import FILE_NAME, find_address, load_config
from ...errors import ModelwheelError, UsageError
from .. import completion
from ..app import RELEASE, app
from ..options import (
    AsJson,
    AsTable,
    Comment,
    Summary,
    Wheels,
    refuse_table_as_json,
    refuse_together,
    refuse_without,
    require_appendable,
    require_writable,
)
from ..output import print_json, say, say_json
from ..sandboxes import SandboxMode, open_sandbox
from ..stores import with_store

if TYPE_CHECKING:
    from ...release.measure import Measurement
    from ...sandbox.choose import Sandbox
    from ...wheelfile.contents import Contents


@app.command(
    rich_help_panel=RELEASE,
    examples=[
        "modelwheel verify dist",
        "modelwheel verify --emulate wheels/model_digits-1.0.0-cp312-cp312-manylinux_2_17_aarch64.whl",
    ],
)
@with_store
def verify(
    wheels: Wheels,
    provenance: Annotated[
        bool,
        typer.Option(
            "--provenance",
            help="Before anything is installed, check the signed provenance beside each wheel.",
        ),
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --provenance: which builders, keys and sources are trusted."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="REFERENCE.npz",
            help="Compare with these numbers instead, such as another runtime's: arrays in/NAME and out/NAME.",
        ),
    ] = None,
    emulate: Annotated[
        bool,
        typer.Option(
            "--emulate",
            help="Run with qemu-user what this machine cannot: levels up to x86-64-v3, and wheels for linux-aarch64.",
        ),
    ] = False,
    sandbox: SandboxMode = None,
    table: AsTable = False,
    as_json: AsJson = False,
) -> None:
    """Install wheels into an empty environment and compare them with TensorFlow's outputs."""
    refuse_table_as_json(table, as_json)
    if provenance:
        from .provenance import require_trusted

        if policy is None:
            raise UsageError(
                "--provenance needs --policy FILE; docs/provenance.md has an example", code="MW202"
            )
        require_trusted(wheels, policy)
    else:
        refuse_without("--provenance", {"--policy": policy})
    if against is not None and not against.is_file():
        raise UsageError(f"--against: there is no file {str(against)!r}", code="MW209")
    from ...verify.selftest import verify_wheels
    from ...wheelfile.collect import find_model_wheels
    from ..display.progress import BuildDisplay
    from ..display.tables import print_verified

    paths = find_model_wheels(wheels)
    store, chosen = open_store(), open_sandbox(sandbox)
    with BuildDisplay(results=False) as display:
        verified = verify_wheels(paths, store, chosen, against, emulate=emulate, watcher=display)
    if as_json:
        print_json(verified)
    else:
        print_verified(verified, table=table)
    totals = {result.wheel.name: result.error is None for result in verified}
    _exit_with([result.error for result in verified], totals, as_json=as_json)


@app.command(
    rich_help_panel=RELEASE,
    examples=["modelwheel report dist", "modelwheel report --summary summary.md dist"],
)
@with_store
def report(
    wheels: Wheels,
    index_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Compare with the newest version on this index (its simple API); by default "
            f"`url` in {FILE_NAME}.",
        ),
    ] = None,
    summary: Summary = None,
    comment: Comment = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a picture of the times of each wheel to this directory, as SVG.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw the errors of TensorFlow, of XLA and of the wheels against float64.",
        ),
    ] = None,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Measure size, error and speed of wheels; the results are stored beside each wheel.

    Each wheel is installed alone. Wheels for other Pythons and platforms are skipped.
    """
    extras.require("publish", "`modelwheel report`")
    if plot is not None:
        extras.require("plot", "--plot")
        if plot.suffix != ".svg" or not plot.parent.is_dir():
            raise UsageError(f"--plot: {str(plot)!r} is not an .svg file in an existing directory")
    from ...release.measure import measure_wheels, notes_on_releases
    from ...wheelfile.collect import find_model_wheels
    from ..display.progress import BuildDisplay
    from ..display.tables import print_measurements

    require_appendable(summary)
    require_writable(comment, pictures)
    paths = find_model_wheels(wheels, may_be_empty=True)
    address = find_address("url", index_url)
    store, chosen = open_store(), open_sandbox(sandbox)
    with BuildDisplay(results=False) as display:
        measured = measure_wheels(paths, store, chosen, address, display)
    reasons = "; ".join(notes_on_releases(measured))
    if as_json:
        print_json(measured)
    else:
        print_measurements(measured)
        if reasons:
            say(reasons)
    if plot is not None:
        _plot(measured, plot, as_json=as_json)
    _answer(measured, reasons, summary, comment)
    if pictures is not None:
        _draw(measured, pictures)
    totals = {measurement.wheel.name: measurement.error is None for measurement in measured}
    _exit_with([measurement.error for measurement in measured], totals, as_json=as_json)


def _answer(
    measured: Sequence[Measurement], note: str, summary: Path | None, comment: Path | None
) -> None:
    """Appends to the summary of a check, and writes the comment on a pull request."""
    from ..display.markdown import append
    from ..display.pull_request import show_report, write_comment

    parts = list(show_report(measured, note))
    if summary is not None and measured:
        append(summary, "\n".join(parts))
    if comment is not None:
        write_comment(comment, parts)


def _draw(measured: Sequence[Measurement], directory: Path) -> None:
    from ...release.pictures import draw_times
    from ...util.files import write_atomically

    for measurement in measured:
        if picture := draw_times(measurement):
            path = directory / f"{measurement.wheel.name}.svg"
            write_atomically(path, picture.encode())


def _plot(measured: Sequence[Measurement], plot: Path, *, as_json: bool) -> None:
    """Draws whose errors they are, and prints the table of the same numbers."""
    from ...release.parts import parts_of, plot_parts
    from ..display.tables import print_parts

    parts = [p for m in measured if m.report for p in parts_of(m.manifest.model.name, m.report)]
    plot_parts(parts, plot)
    if not as_json:
        print_parts(parts)


Replay = Annotated[
    bool,
    typer.Option("--replay", help="Trace every hash back to the commit of the model."),
]
Recompile = Annotated[
    bool,
    typer.Option(
        "--recompile",
        help="With --replay: rebuild everything, ignoring the cache.",
    ),
]


@app.command(
    rich_help_panel=RELEASE,
    examples=[
        "modelwheel inspect dist",
        "modelwheel inspect --replay dist/model_digits-1.0.0.tar.gz",
    ],
)
@with_store
def inspect(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Wheels, source distributions (.tar.gz) of models, or directories of them.",
            autocompletion=completion.distributions,
        ),
    ],
    show_sbom: Annotated[
        bool, typer.Option("--sbom", help="Print the embedded SBOM unchanged.")
    ] = False,
    program: Annotated[
        bool,
        typer.Option(
            "--program",
            help="Print the compiled steps, which the store has if the wheel was built here.",
        ),
    ] = False,
    replay: Replay = False,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="SPEC",
            autocompletion=completion.specs,
            help="With --replay: the spec; by default the one in model_specs/ with the same digest.",
        ),
    ] = None,
    recompile: Recompile = False,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Show the contents of wheels and source distributions: model card, manifest, SBOM, files, origin.

    With --json, one file is an object, and several files are a list of objects.
    """
    from ...wheelfile.collect import find_distributions
    from ...wheelfile.contents import open_contents

    if show_sbom:
        others = {
            "--replay": replay,
            "--spec": spec,
            "--recompile": recompile,
            "--sandbox": sandbox,
            "--json": as_json,
        }
        refuse_together("--sbom", others, "it prints the SBOM and nothing else")
    if program:
        others = {"--sbom": show_sbom, "--replay": replay, "--json": as_json}
        refuse_together("--program", others, "it prints the steps of the program and nothing else")
    if not replay:
        others = {"--spec": spec, "--recompile": recompile, "--sandbox": sandbox}
        refuse_without("--replay", others)
    paths = find_distributions(files)
    if show_sbom:
        _print_sbom(paths)
        return
    if program:
        _print_programs(paths)
        return
    from ...util.watching import each
    from ..display.progress import BuildDisplay

    with BuildDisplay(results=False) as display:
        opened = [open_contents(path) for path in each(paths, lambda path: path.name, display)]
    if replay:
        _replay(opened, open_sandbox(sandbox), spec, recompile=recompile, as_json=as_json)
    elif as_json:
        _print_one_or_all([contents.summary() for contents in opened])
    else:
        from ..display.contents import print_contents

        for contents in opened:
            print_contents(contents)


def _print_sbom(files: Sequence[Path]) -> None:
    from ...wheelfile.contents import open_contents

    if len(files) > 1:
        raise UsageError(
            f"--sbom prints the SBOM of one file, but there are {len(files)}", code="MW208"
        )
    for text in open_contents(files[0]).require_sboms().values():
        say_json(text.decode(errors="replace"))


def _print_programs(files: Sequence[Path]) -> None:
    from ...engine.programs import program_texts
    from ...wheelfile.contents import open_contents

    store = open_store()
    for path in files:
        for manifest in open_contents(path).manifests:
            for variant, text in program_texts(manifest, store):
                length = "" if variant.length is None else f", length {variant.length}"
                name = (
                    f"{manifest.platform}, {variant.level}, batch size {variant.batch_size}{length}"
                )
                if text is None:
                    raise UsageError(
                        f"{path.name}: the store at {store.address} has no program for {name}; build the wheel here, "
                        "with this version of modelwheel"
                    )
                say(f"# {name}\n\n{text}")


def _replay(
    opened: list[Contents],
    sandbox: Sandbox,
    spec: Path | None,
    *,
    recompile: bool,
    as_json: bool,
) -> None:
    extras.require("build", "`modelwheel inspect --replay`", advise="compile")
    from ...provenance.replay import choose_store, require_whole, trace
    from ..display.contents import print_links
    from ..display.progress import BuildDisplay

    results = []
    for contents in opened:
        with choose_store(open_store(), recompile=recompile) as store, BuildDisplay() as display:
            links = trace(contents, store, sandbox, display, spec, load_config().limits)
        results.append((contents.path, links))
        if not as_json:
            if len(opened) > 1:
                say(contents.path)
            print_links(links)
    if as_json:
        _print_one_or_all([{"file": path, "replay": links} for path, links in results])
    require_whole(results)


def _print_one_or_all(values: Sequence[object]) -> None:
    print_json(values[0] if len(values) == 1 else values)


@app.command(rich_help_panel=RELEASE, examples=["modelwheel audit wheels"])
def audit(wheels: Wheels, as_json: AsJson = False) -> None:
    """Check wheels against the release rules: tags, symbols, instructions, contents."""
    extras.require("release", "`modelwheel audit`")
    from ...audit import audit_wheels, require_accepted
    from ...wheelfile.collect import find_wheels
    from ..display.progress import BuildDisplay
    from ..display.tables import print_audited, print_totals

    with BuildDisplay(results=False) as display:
        results = audit_wheels(find_wheels(wheels), display)
    if as_json:
        print_json(results)
    else:
        print_audited(results)
        accepted = {result.wheel.name: result.accepted for result in results}
        print_totals("wheel", accepted, ("accepted", "refused"))
    require_accepted(results)


def _exit_with(
    errors: Sequence[ModelwheelError | None], totals: Mapping[str, bool], *, as_json: bool
) -> None:
    """Prints all errors, then how many wheels have none, and ends with the exit code of the first."""
    from ..display.annotations import report_error

    failures = [error for error in errors if error is not None]
    for error in failures:
        report_error(error)
    if not as_json:
        from ..display.tables import print_totals

        print_totals("wheel", totals, ("ok", "failed"))
    raise typer.Exit(failures[0].exit_code if failures else 0)
