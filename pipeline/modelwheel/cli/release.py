"""Commands of a release: wheels of all platforms, their checks, and package indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import extras
from ..config import FILE_NAME, find_address, require_address
from ..errors import ModelwheelError, UsageError
from .app import RELEASE, app, say_error
from .options import (
    AsJson,
    Specs,
    Summary,
    load,
    print_json,
    refuse_together,
    refuse_without,
    require_appendable,
)

if TYPE_CHECKING:
    from ..release.outcome import Outcome
    from ..wheelfile.contents import Contents

Wheels = Annotated[
    list[Path], typer.Argument(metavar="WHEEL", help="Wheels, or directories of them.")
]
Out = typer.Option(metavar="DIR", help="Where to write the files.")


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
            help="Only this build identifier of cibuildwheel, such as cp312-manylinux_x86_64; "
            "may be repeated.",
        ),
    ] = None,
    github_job: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Only this job of `modelwheel plan --github-matrix`."),
    ] = None,
    cross: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG",
            help="Cross-build for this platform tag with zig instead of cibuildwheel, such as "
            "manylinux_2_17_aarch64; may be repeated.",
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="With --cross: the Python to build for, as 3.12."),
    ] = None,
    out: Annotated[Path, Out] = Path("wheelhouse"),
    as_json: AsJson = False,
) -> None:
    """Build the wheels of a release with cibuildwheel: build, repair, audit and test.

    cibuildwheel reads its CIBW_* environment variables (images, container engine, ...).
    """
    from ..wheelfile.collect import SDIST, find_distributions

    if cross:
        others = {"--system": system, "--only": only, "--github-job": github_job}
        refuse_together("--cross", others, "they select builds of cibuildwheel")
    else:
        refuse_without("--cross", {"--python": python})
    if github_job:
        others = {"--system": system, "--only": only}
        refuse_together("--github-job", others, "the job names the wheels to build")
    found = find_distributions(sdists, (SDIST,))
    if cross:
        outcomes = _cross_build(found, cross, python, out)
    else:
        outcomes = _drive_cibuildwheel(found, system, only, github_job, out)
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

    if github_job:
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
def verify(wheels: Wheels, as_json: AsJson = False) -> None:
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
    _exit_with(result.error for result in verified)


@app.command(rich_help_panel=RELEASE)
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
    as_json: AsJson = False,
) -> None:
    """Measure size, error and speed of wheels; the results are stored beside each wheel.

    Each wheel is installed alone. Wheels for other Pythons and platforms are skipped.
    """
    extras.require("publish", "`modelwheel report`")
    from ..release.measure import measure_wheels
    from ..store.store import Store
    from ..wheelfile.collect import find_model_wheels
    from .display.tables import print_measurements

    require_appendable(summary)
    found = find_model_wheels(wheels, may_be_empty=True)
    measured = measure_wheels(found, Store(), find_address("url", index_url))
    reasons = "; ".join(dict.fromkeys(m.not_compared for m in measured if m.not_compared))
    if as_json:
        print_json(measured)
    else:
        print_measurements(measured)
        if reasons:
            typer.echo(reasons)
    if summary is not None and measured:
        from .display.markdown import append, show_measurements

        append(summary, show_measurements(measured, reasons))
    _exit_with(measurement.error for measurement in measured)


@app.command(rich_help_panel=RELEASE)
def download(
    specs: Specs,
    index_url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="The simple API of an index; may be repeated: the first that has a wheel is used. "
            f"By default `site`, then `url` in {FILE_NAME}.",
        ),
    ] = None,
    out: Annotated[Path, Out] = Path("dist"),
) -> None:
    """Download the released wheels of specs from package indexes, for a new static index."""
    extras.require("publish", "`modelwheel download`")
    from ..index.released import download_wheels
    from ..util.words import count
    from ..versions import RUNTIME

    loaded = load(specs)
    projects = {spec.distribution for spec in loaded}
    if any(spec.package.bindings == "shared" for spec in loaded):
        projects.add(RUNTIME)
    copied = download_wheels(projects, _index_urls(index_url or ()), out)
    for name in copied:
        typer.echo(out / name)
    typer.echo(f"{count(len(copied), 'released wheel')} downloaded", err=True)


def _index_urls(given: Sequence[str]) -> list[str]:
    """The indexes to read; an empty URL, as workflows pass it, means "not given"."""
    urls = [url for url in given if url]
    if not urls:
        urls = [url for url in (find_address("site", None), find_address("url", None)) if url]
    return urls or [require_address("url", None, "--index-url")]


@app.command(rich_help_panel=RELEASE)
def inspect(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Wheels, source distributions (.tar.gz) of models, or directories of them.",
        ),
    ],
    show_sbom: Annotated[
        bool, typer.Option("--sbom", metavar="", help="Print the embedded SBOM unchanged.")
    ] = False,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", metavar="", help="Trace every hash back to the commit of the model."
        ),
    ] = False,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="SPEC",
            help="With --replay: the spec; by default the one in model_specs/ with the same digest.",
        ),
    ] = None,
    recompile: Annotated[
        bool,
        typer.Option(
            "--recompile",
            metavar="",
            help="With --replay: rebuild everything, ignoring the cache.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the contents of wheels and source distributions: model card, manifest, SBOM, files, origin.

    With --json, one file is an object, and several files are a list of objects.
    """
    from ..wheelfile.collect import find_distributions
    from ..wheelfile.contents import open_contents

    if show_sbom:
        others = {"--replay": replay, "--spec": spec, "--recompile": recompile, "--json": as_json}
        refuse_together("--sbom", others, "it prints the SBOM and nothing else")
    if not replay:
        refuse_without("--replay", {"--spec": spec, "--recompile": recompile})
    found = find_distributions(files)
    if show_sbom and len(found) > 1:
        raise UsageError(f"--sbom prints the SBOM of one file, but there are {len(found)}")
    opened = [open_contents(path) for path in found]
    if show_sbom:
        for text in opened[0].require_sboms().values():
            typer.echo(text.decode(errors="replace"), nl=False)
    elif replay:
        _replay(opened, spec, recompile=recompile, as_json=as_json)
    elif as_json:
        _print_one_or_all([contents.summary() for contents in opened])
    else:
        from .display.contents import print_contents

        for contents in opened:
            print_contents(contents)


def _replay(opened: list[Contents], spec: Path | None, *, recompile: bool, as_json: bool) -> None:
    extras.require("build", "`modelwheel inspect --replay`", advise="compile")
    from ..provenance.replay import choose_store, require_whole, trace
    from .display.contents import print_links
    from .display.progress import BuildDisplay

    results = []
    for contents in opened:
        with choose_store(recompile=recompile) as store, BuildDisplay() as display:
            links = trace(contents, store, display, spec)
        results.append((contents.path, links))
        if not as_json:
            if len(opened) > 1:
                typer.echo(contents.path)
            print_links(links)
    if as_json:
        _print_one_or_all([{"file": path, "replay": links} for path, links in results])
    require_whole(results)


def _print_one_or_all(values: Sequence[object]) -> None:
    print_json(values[0] if len(values) == 1 else values)


@app.command(rich_help_panel=RELEASE)
def runtime(
    out: Annotated[Path, Out] = Path("dist"),
    wheel: Annotated[
        bool, typer.Option("--wheel", metavar="", help="Build the wheel for this Python, too.")
    ] = False,
    tag: Annotated[
        str | None,
        typer.Option(
            metavar="modelwheel-runtime-VERSION", help="Fail unless this tag names its version."
        ),
    ] = None,
) -> None:
    """Build modelwheel-runtime, which wheels with `bindings: shared` depend on."""
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
def audit(wheels: Wheels, as_json: AsJson = False) -> None:
    """Check wheels against the release rules: tags, symbols, instructions, contents."""
    extras.require("release", "`modelwheel audit`")
    from ..audit import audit_wheels, require_accepted
    from ..wheelfile.collect import find_wheels
    from .display.tables import print_audited

    results = audit_wheels(find_wheels(wheels))
    if as_json:
        print_json(results)
    else:
        print_audited(results)
    require_accepted(results)


@app.command(rich_help_panel=RELEASE)
def index(
    wheels: Wheels,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the site and the wheels will be served. Without it the wheels are copied into the "
            "site, and all links are relative.",
        ),
    ] = None,
    site_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The site's simple API in the install lines of the page, if the wheels are copied; "
            f"by default `site` in {FILE_NAME}.",
        ),
    ] = None,
    out: Annotated[Path, Out] = Path("site"),
) -> None:
    """Write a static package index with a catalogue page of the models."""
    extras.require("publish", "`modelwheel index`")
    from ..index.site import write_site
    from ..util.words import count

    if base_url:
        refuse_together("--base-url", {"--site-url": site_url}, "the site's API is below it")
    site = write_site(wheels, out, base_url or None, find_address("site", site_url))
    where = "copied" if site.copied else "to be served at the same address"
    numbers = f"{count(site.projects, 'model')}, {count(site.wheels, 'wheel')}"
    typer.echo(f"wrote {site.directory}: {numbers} {where}")


@app.command(rich_help_panel=RELEASE)
def publish(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIST", help="Wheels and source distributions, or directories of them."
        ),
    ],
    repository_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"Where the index takes uploads; by default `upload` in {FILE_NAME}.",
        ),
    ] = None,
    index_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The index's simple API; by default `simple/` below --repository-url, or `url` in "
            f"{FILE_NAME} if `upload` comes from there.",
        ),
    ] = None,
    max_size: Annotated[
        float,
        typer.Option(metavar="MIB", min=0, help="Largest file the index accepts, in MiB."),
    ] = 100.0,
    any_index: Annotated[
        bool,
        typer.Option(
            "--any-index",
            metavar="",
            help="Also upload wheels with `linux_*` tags, which PyPI and most other indexes refuse.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Show what would be uploaded.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload to a package index, then download and compare. Safe to repeat after a failure.

    Credentials come from TWINE_USERNAME and TWINE_PASSWORD or from the keyring.
    """
    extras.require("publish", "`modelwheel publish`")
    from ..index.plan import Rules
    from ..index.publish import Publisher
    from ..util import records
    from ..wheelfile.collect import find_distributions
    from .display.tables import print_publication

    # `url` belongs to `upload`: files must not be compared with another index than they go to.
    if not index_url and not repository_url:
        index_url = find_address("url", None)
    with Publisher(
        require_address("upload", repository_url, "--repository-url"),
        index_url=index_url or None,
        rules=Rules(int(max_size * 2**20), any_index),
        report=lambda line: typer.echo(line, err=True),
    ) as publisher:
        planned = publisher.plan(find_distributions(files))
        if not as_json:
            print_publication(planned)
        stops = dry_run or any(file.action == "refuse" for file in planned.files)
        uploaded = [] if stops else publisher.publish(planned)
    if as_json:
        print_json({**records.as_json(planned), "uploaded": uploaded, "verified": not stops})
    planned.require_acceptable()
    if not as_json and not stops:
        typer.echo(f"{len(uploaded)} uploaded, {len(planned.files)} compared with the index")


def _exit_with(errors: Iterator[ModelwheelError | None]) -> None:
    """Prints all errors and ends with the exit code of the first."""
    found = [error for error in errors if error is not None]
    for error in found:
        say_error(str(error))
    raise typer.Exit(found[0].exit_code if found else 0)
