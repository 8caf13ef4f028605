"""Commands of a release: wheels of all platforms, their inspection, the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import extras
from ..errors import UsageError
from .app import RELEASE, app, say_error
from .options import AsJson, Specs, Summary, load, print_json

if TYPE_CHECKING:
    from ..release.outcome import Outcome


@app.command(rich_help_panel=RELEASE)
def wheel(
    sdists: Annotated[
        list[Path],
        typer.Argument(
            metavar="SDIST", help="Source distributions of `modelwheel compile`, or directories."
        ),
    ],
    system: Annotated[
        str | None,
        typer.Option(metavar="SYSTEM", help="linux, macos or windows; this machine's by default."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDENTIFIER",
            help="Only this wheel, as cibuildwheel calls it: cp312-manylinux_x86_64; may be repeated.",
        ),
    ] = None,
    github_job: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Only what this job of `plan --github-matrix` is for."),
    ] = None,
    cross: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG",
            help="Instead for this platform tag with zig: manylinux_2_17_aarch64; may be repeated.",
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="With --cross: for this Python, such as 3.12."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where wheels are put.")] = Path("wheelhouse"),
    as_json: AsJson = False,
) -> None:
    """Make the wheels of a release with cibuildwheel: built, repaired, audited and tested.

    CIBW_* environment variables (images, container engine, ...) are those of cibuildwheel.
    """
    from ..packaging.sdist import find_sdists

    sdists = find_sdists(sdists)
    if cross:
        if system or only or github_job:
            raise UsageError(
                "--cross is instead of cibuildwheel: leave out --system, --only, --github-job"
            )
        outcomes = _cross_build(sdists, cross, python, out)
    elif python:
        raise UsageError("--python goes with --cross; of cibuildwheel, --only names wheels")
    else:
        outcomes = _drive_cibuildwheel(sdists, system, only, github_job, out)
    finished = []
    for outcome in outcomes:
        finished.append(outcome)
        if outcome.error is not None:
            say_error(str(outcome.error))
        for path in outcome.wheels if not as_json else ():
            typer.echo(path)
    if as_json:
        print_json(finished)
    raise typer.Exit(next((o.error.exit_code for o in finished if o.error is not None), 0))


def _drive_cibuildwheel(
    sdists: list[Path],
    system: str | None,
    only: list[str] | None,
    github_job: str | None,
    out: Path,
) -> Iterator[Outcome]:
    extras.require("release", "`modelwheel wheel`")
    from ..engine.requirements import require_compiler
    from ..release.cibuildwheel import build_wheels, select

    if github_job is not None:
        from ..release.matrix import read_job

        job = read_job(github_job)
        sdists, only = job.pick(sdists), [job.build]
    selection = select(system, only or ())
    if selection.system != "linux":  # there it runs in containers that have a compiler
        require_compiler(headers=False)  # cibuildwheel brings Pythons with headers
    return build_wheels(sdists, selection, out, lambda line: typer.echo(line, err=True))


def _cross_build(
    sdists: list[Path], tags: list[str], python: str | None, out: Path
) -> Iterator[Outcome]:
    extras.require("cross", "`modelwheel wheel --cross`")
    from ..engine.requirements import require_disk
    from ..release.cross import build_wheels, find_target

    require_disk(out)  # zig is the compiler, and brings headers of its own
    for target in [find_target(tag) for tag in tags]:
        yield from build_wheels(sdists, target, python, out)


@app.command(rich_help_panel=RELEASE)
def verify(
    wheels: Annotated[list[Path], typer.Argument(metavar="WHEEL", help="Wheels to verify.")],
    as_json: AsJson = False,
) -> None:
    """Install wheels into an empty environment and compare them with TensorFlow's outputs."""
    from ..store.store import Store
    from ..verify.selftest import verify_wheels
    from ..wheelfile.collect import find_model_wheels
    from .display.tables import print_verified

    verified = verify_wheels(find_model_wheels(wheels), Store())
    if as_json:
        print_json(verified)
    else:
        print_verified(verified)
    errors = [result.error for result in verified if result.error is not None]
    for error in errors:
        say_error(str(error))
    raise typer.Exit(errors[0].exit_code if errors else 0)


@app.command(rich_help_panel=RELEASE)
def report(
    wheels: Annotated[
        list[Path], typer.Argument(metavar="WHEEL", help="Wheels, or directories of them.")
    ],
    index_url: Annotated[
        str | None,
        typer.Option(help="Compare with the newest version on this index (its simple API)."),
    ] = None,
    summary: Summary = None,
    as_json: AsJson = False,
) -> None:
    """Measure size, error and speed of wheels and write that beside them, for the catalogue.

    Each wheel is installed alone; those for other Pythons and platforms are left out.
    """
    extras.require("publish", "`modelwheel report`")
    from ..release.measure import measure_wheels
    from ..store.store import Store
    from ..wheelfile.collect import find_model_wheels
    from .display.tables import print_measurements

    measured = measure_wheels(find_model_wheels(wheels), Store(), index_url or None)
    if as_json:
        print_json(measured)
    else:
        print_measurements(measured)
    if summary is not None and measured:
        from .display.markdown import append, show_measurements

        append(summary, show_measurements(measured))
    errors = [measurement.error for measurement in measured if measurement.error is not None]
    for error in errors:
        say_error(str(error))
    raise typer.Exit(errors[0].exit_code if errors else 0)


@app.command(rich_help_panel=RELEASE)
def download(
    specs: Specs,
    index_url: Annotated[
        list[str],
        typer.Option(
            help="The simple API of an index; may be repeated, the first that has a wheel counts."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where wheels are put.")] = Path("dist"),
) -> None:
    """Copy the released wheels of some specs from package indexes, for a new static index."""
    extras.require("publish", "`modelwheel download`")
    from ..index.released import download_wheels
    from ..versions import RUNTIME

    loaded = load(specs)
    projects = {spec.distribution for spec in loaded}
    if any(spec.package.bindings == "shared" for spec in loaded):
        projects.add(RUNTIME)
    copied = download_wheels(projects, [url for url in index_url if url], out)
    for name in copied:
        typer.echo(out / name)
    typer.echo(f"{len(copied)} released wheel{'s' * (len(copied) != 1)} copied", err=True)


@app.command(rich_help_panel=RELEASE)
def inspect(
    file: Annotated[Path, typer.Argument(metavar="WHEEL", help="A wheel, or a model's .tar.gz.")],
    show_sbom: Annotated[
        bool, typer.Option("--sbom", help="Print the bill of materials as it lies there.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Trace every hash back to the commit of the model.")
    ] = False,
    spec: Annotated[
        Path | None, typer.Option(help="The spec; by default the one of model_specs/ that fits.")
    ] = None,
    recompile: Annotated[
        bool, typer.Option("--recompile", help="With --replay: take nothing from the store.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is in a wheel or source distribution: model card, manifest, SBOM, files, origin."""
    from ..wheelfile.contents import open_contents
    from .display.contents import print_contents, print_links

    contents = open_contents(file)
    if show_sbom:
        for text in contents.require_sboms().values():
            typer.echo(text.decode(errors="replace"), nl=False)
    elif replay or recompile:
        extras.require("build", "`modelwheel inspect --replay`", advise="compile")
        from ..provenance.replay import choose_store, require_whole, trace
        from .display.progress import BuildDisplay

        with choose_store(recompile=recompile) as store, BuildDisplay() as display:
            links = trace(contents, store, display, spec)
        if as_json:
            print_json({"file": str(file), "replay": links})
        else:
            print_links(links)
        require_whole(links, file.name)
    elif as_json:
        print_json(contents.summary())
    else:
        print_contents(contents)


@app.command(rich_help_panel=RELEASE)
def runtime(
    out: Annotated[Path, typer.Option(help="Where the files are put.")] = Path("dist"),
    wheel: Annotated[
        bool, typer.Option("--wheel", help="The wheel for this Python as well.")
    ] = False,
    tag: Annotated[
        str | None,
        typer.Option(
            metavar="modelwheel-runtime-VERSION", help="Refuse unless this is its version."
        ),
    ] = None,
) -> None:
    """Write the package that wheels without an extension of their own need."""
    extras.require("build", "`modelwheel runtime`")
    from ..engine.requirements import require_compiler
    from ..packaging.runtime import require_tag, write_runtime
    from ..store.store import Store

    if tag:
        require_tag(tag)
    if wheel:
        require_compiler(headers=True)
    for path in write_runtime(out, Store(), wheel=wheel):
        typer.echo(f"wrote {path}")


@app.command(rich_help_panel=RELEASE)
def audit(
    wheels: Annotated[list[Path], typer.Argument(metavar="WHEEL", help="Wheels of a release.")],
    as_json: AsJson = False,
) -> None:
    """Judge wheels of any platform before they are released: tags, symbols, instructions, contents."""
    extras.require("release", "`modelwheel audit`")
    from ..audit import audit_wheels, require_accepted
    from .display.tables import print_audited

    results = audit_wheels(wheels)
    if as_json:
        print_json(results)
    else:
        print_audited(results)
    require_accepted(results)


@app.command(rich_help_panel=RELEASE)
def index(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory of wheels.")],
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Where the site is served and the wheels lie; without it they are copied."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the site is put.")] = Path("site"),
) -> None:
    """Write a static package index and a catalogue page of the models in a directory."""
    extras.require("publish", "`modelwheel index`")
    from ..index.site import write_site

    site = write_site([directory], out, base_url)
    wheels = f"{site.wheels} wheel{'s' * (site.wheels != 1)}"
    where = "copied" if site.copied else "to be served beside it"
    models = f"{site.projects} model{'s' * (site.projects != 1)}"
    typer.echo(f"wrote {site.directory}: {models}, {wheels} {where}")


@app.command(rich_help_panel=RELEASE)
def publish(
    files: Annotated[list[Path], typer.Argument(metavar="DIST", help="The release's files.")],
    repository_url: Annotated[str, typer.Option(help="Where the index takes uploads.")],
    index_url: Annotated[
        str | None, typer.Option(help="The index's simple API, if not `simple/` below that.")
    ] = None,
    max_size: Annotated[float, typer.Option(help="MiB that the index takes in a file.")] = 100.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan, upload nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload wheels to a package index and prove that they arrived; run again, it goes on.

    Credentials come from TWINE_USERNAME and TWINE_PASSWORD or from the keyring.
    """
    extras.require("publish", "`modelwheel publish`")
    from ..index.publish import Publisher
    from .display.tables import print_publication

    with Publisher(
        repository_url,
        index_url=index_url,
        max_bytes=int(max_size * 2**20),
        report=lambda line: typer.echo(line, err=True),
    ) as publisher:
        planned = publisher.plan(files)
        if not as_json:
            print_publication(planned)
        stops = dry_run or any(file.action == "refuse" for file in planned.files)
        uploaded = [] if stops else publisher.publish(planned)
    if as_json:
        print_json({**planned.as_json(), "uploaded": uploaded, "verified": not stops})
    planned.require_acceptable()
    if not as_json and not stops:
        typer.echo(f"{len(uploaded)} uploaded, {len(planned.files)} compared with the index")
