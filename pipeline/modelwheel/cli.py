"""The command `modelwheel`: the one module that talks to a terminal and leaves the process.

Heavy modules are imported inside the commands that need them, so that `--help` stays quick.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from . import __version__
from .errors import EnvironmentProblemError, ModelwheelError

if TYPE_CHECKING:
    from .request import Request
    from .spec import Spec
    from .steps import Goal

app = typer.Typer(
    name="modelwheel",
    help="Turn trained TensorFlow models into wheels of machine code.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Specs = Annotated[
    list[str], typer.Argument(metavar="SPEC...", help="Spec files, directories of them, or globs.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Targets = Annotated[
    list[str] | None, typer.Option("--target", help="Only this CPU level; may be repeated.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes at most.")]
BatchSizes = Annotated[
    list[int] | None, typer.Option("--batch-size", help="Only this batch size; may be repeated.")
]
Platforms = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        help="For this platform, such as linux-aarch64; several by commas or repeated.",
    ),
]
Summary = Annotated[Path | None, typer.Option(help="Append a summary in Markdown to this file.")]
ChangedSince = Annotated[
    str | None,
    typer.Option(
        metavar="REF", help="Only specs that this branch changed since it left REF (git)."
    ),
]
Tag = Annotated[
    str | None, typer.Option(metavar="NAME-VERSION", help="Only the spec that this tag releases.")
]


class _InterruptedBuildError(BaseException):
    """Ctrl-C or SIGTERM. Not a KeyboardInterrupt, which Typer would answer without a word."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


def main() -> None:
    """Runs the command line; the mistakes of its user end in a sentence and an exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        app(prog_name="modelwheel")
    except ModelwheelError as error:
        _say_error(str(error))
        sys.exit(error.exit_code)
    except _InterruptedBuildError as interruption:
        typer.echo("interrupted; finished steps are kept, run the command again to go on", err=True)
        sys.exit(interruption.exit_code)
    except OSError as error:
        _say_error(f"{error.filename or 'input or output'}: {error.strerror or error}")
        sys.exit(EnvironmentProblemError.exit_code)
    except Exception as error:
        if logging.getLogger().isEnabledFor(logging.DEBUG):
            raise
        _say_error(
            f"a fault of modelwheel: {type(error).__name__}: {error}; please report what "
            "`modelwheel --verbose ...` says"
        )
        sys.exit(1)


def _interrupt(number: int, _: object) -> None:
    for again in (signal.SIGINT, signal.SIGTERM):  # tidying up takes a moment and is done once
        signal.signal(again, signal.SIG_IGN)
    raise _InterruptedBuildError(number)


def _say_error(sentence: str) -> None:
    typer.echo(f"{typer.style('error', fg='red', bold=True)}: {sentence}", err=True)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"modelwheel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is run.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    level = logging.DEBUG if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(name)s: %(message)s", stream=sys.stderr)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the model, e.g. `my-model`.")],
    saved_model: Annotated[Path, typer.Option(help="The SavedModel's directory.")],
    signature: Annotated[str, typer.Option(help="The signature to compile.")] = "serving_default",
    directory: Annotated[Path, typer.Option("--out", help="Where to write NAME.yaml.")] = Path(
        "model_specs"
    ),
) -> None:
    """Look at a SavedModel and write a commented spec for it."""
    from .scaffolding import write_spec

    path = write_spec(name, saved_model, signature, directory)
    typer.echo(f"wrote {path}; next: modelwheel check {path}")


@app.command()
def check(
    specs: Specs,
    spec_only: Annotated[
        bool, typer.Option("--spec-only", help="Check the files, not their models.")
    ] = False,
    released_once: Annotated[
        bool,
        typer.Option(
            "--released-once",
            help="Refuse specs that are not what the git tag NAME-VERSION of their version released.",
        ),
    ] = False,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    as_json: AsJson = False,
) -> None:
    """Check specs and, before anything is compiled, the models behind them."""
    loaded = _load(specs, changed_since, tag)
    if released_once:
        from .selection import require_released_once

        require_released_once(loaded)
    if spec_only:
        typer.echo(f"{len(loaded)} spec{'s' * (len(loaded) != 1)} without mistakes")
        return
    from .checking import check_models
    from .display import print_checked
    from .store import Store

    checked = check_models(loaded, Store())
    if as_json:
        _print_json([model.as_json() for model in checked])
    else:
        print_checked(checked)
    raise typer.Exit(next((model.exit_code for model in checked if model.exit_code), 0))


@app.command()
def plan(
    specs: Specs,
    target: Targets = None,
    batch_size: BatchSizes = None,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    as_json: AsJson = False,
    github_matrix: Annotated[
        bool,
        typer.Option("--github-matrix", help="Print the jobs that build the wheels, for Actions."),
    ] = False,
    platform: Platforms = None,
    musllinux: Annotated[
        bool, typer.Option("--musllinux", help="With wheels for musl in the matrix.")
    ] = False,
    github_output: Annotated[
        Path | None, typer.Option(help="Append the matrix, as `matrix=JSON`, to this file too.")
    ] = None,
) -> None:
    """List every step by name: what is cached, what would run."""
    loaded = _load(specs, changed_since, tag)
    if github_matrix:
        from .github_matrix import as_matrix, plan_jobs

        text = as_matrix(plan_jobs(loaded, _split(platform) or (), musllinux=musllinux))
        typer.echo(text)
        if github_output is not None:
            with github_output.open("a", encoding="utf-8") as output:
                output.write(f"matrix={text}\n")
        return
    from dataclasses import asdict

    from .plan import plan as make_plan
    from .store import Store

    store = Store()
    planned = [
        step
        for request in _requests(loaded, target, batch_size, _split(platform))
        for step in make_plan(request, store)
    ]
    if as_json:
        _print_json([asdict(step) for step in planned])
        return
    for step in planned:
        typer.echo(f"{step.state:6}  {step.name}")
    missing = sum(step.state == "run" for step in planned)
    typer.echo(f"{len(planned)} steps, {len(planned) - missing} cached, {missing} to run")


@app.command()
def build(
    specs: Specs,
    target: Targets = None,
    batch_size: BatchSizes = None,
    out: Annotated[Path, typer.Option(help="Where wheels are put.")] = Path("dist"),
    keep_work_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the files of every step that runs below this directory."),
    ] = None,
    jobs: Jobs = None,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    summary: Summary = None,
    as_json: AsJson = False,
) -> None:
    """Build and verify the wheels of some specs for this machine."""
    requests = _requests(_load(specs, changed_since, tag), target, batch_size)
    _build(requests, out, "wheel", keep_work_dir, jobs, as_json, summary)


def _build(
    requests: Sequence[Request],
    out: Path,
    goal: Goal,
    keep_work_dir: Path | None,
    jobs: int | None,
    as_json: bool,
    summary: Path | None = None,
) -> NoReturn:
    from . import build as builder
    from .display import BuildDisplay, print_results
    from .store import Store

    options = builder.BuildOptions(out, goal, keep_work_dir, jobs)
    with BuildDisplay() as display:
        results = builder.build(requests, Store(), options, display)
    if as_json:
        _print_json(builder.summarise(results))
    else:
        print_results(results)
    if summary is not None:
        from .summary import append, show_builds

        append(summary, show_builds(results))
    raise typer.Exit(builder.exit_code(results))


@app.command("compile")
def compile_(
    specs: Specs,
    platform: Platforms = None,
    target: Targets = None,
    batch_size: BatchSizes = None,
    out: Annotated[Path, typer.Option(help="Where source distributions are put.")] = Path("dist"),
    jobs: Jobs = None,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    as_json: AsJson = False,
) -> None:
    """Compile for many platforms into source distributions, from which wheels are made anywhere.

    By default for all platforms for which a spec has CPU levels.
    """
    loaded = _load(specs, changed_since, tag)
    requests = _requests(loaded, target, batch_size, _split(platform) or ())
    _build(requests, out, "sdist", None, jobs, as_json)


@app.command()
def wheel(
    sdists: Annotated[
        list[Path],
        typer.Argument(metavar="SDIST...", help="Source distributions of `modelwheel compile`."),
    ],
    platform: Annotated[
        str | None, typer.Option(help="linux, macos or windows; this machine's by default.")
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
    out: Annotated[Path, typer.Option(help="Where wheels are put.")] = Path("wheelhouse"),
    as_json: AsJson = False,
) -> None:
    """Make the wheels of a release with cibuildwheel: built, repaired, audited and tested.

    CIBW_* environment variables (images, container engine, ...) are those of cibuildwheel.
    """
    from .wheelhouse import build_wheels, select

    if github_job is not None:
        from .github_matrix import read_job

        job = read_job(github_job)
        sdists, only = job.pick(sdists), [job.build]
    selection = select(platform, only or ())
    outcomes = []
    for outcome in build_wheels(sdists, selection, out, lambda line: typer.echo(line, err=True)):
        outcomes.append(outcome)
        if outcome.error is not None:
            _say_error(str(outcome.error))
        for path in outcome.wheels if not as_json else ():
            typer.echo(path)
    if as_json:
        _print_json([outcome.as_json() for outcome in outcomes])
    raise typer.Exit(next((o.error.exit_code for o in outcomes if o.error is not None), 0))


@app.command()
def verify(
    wheels: Annotated[list[Path], typer.Argument(metavar="WHEEL...", help="Wheels to verify.")],
    as_json: AsJson = False,
) -> None:
    """Install wheels into an empty environment and compare them with TensorFlow's outputs."""
    from .display import print_verified
    from .store import Store
    from .verify import verify_wheels

    verified = verify_wheels(wheels, Store())
    if as_json:
        _print_json([result.as_json() for result in verified])
    else:
        print_verified(verified)
    errors = [result.error for result in verified if result.error is not None]
    for error in errors:
        _say_error(str(error))
    raise typer.Exit(errors[0].exit_code if errors else 0)


@app.command()
def report(
    wheels: Annotated[
        list[Path], typer.Argument(metavar="WHEEL...", help="Wheels, or directories of them.")
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
    from .display import print_measurements
    from .measurement import find_wheels, measure_wheels
    from .store import Store

    measured = measure_wheels(find_wheels(wheels), Store(), index_url or None)
    if as_json:
        _print_json([measurement.as_json() for measurement in measured])
    else:
        print_measurements(measured)
    if summary is not None and measured:
        from .summary import append, show_measurements

        append(summary, show_measurements(measured))
    errors = [measurement.error for measurement in measured if measurement.error is not None]
    for error in errors:
        _say_error(str(error))
    raise typer.Exit(errors[0].exit_code if errors else 0)


@app.command()
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
    from .released import download_wheels
    from .versions import RUNTIME

    loaded = _load(specs)
    projects = {spec.distribution for spec in loaded}
    if any(spec.package.bindings == "shared" for spec in loaded):
        projects.add(RUNTIME)
    copied = download_wheels(projects, [url for url in index_url if url], out)
    for name in copied:
        typer.echo(out / name)
    typer.echo(f"{len(copied)} released wheel{'s' * (len(copied) != 1)} copied", err=True)


@app.command()
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
    from .contents_display import print_contents, print_links
    from .wheel_contents import open_contents

    contents = open_contents(file)
    if show_sbom:
        for text in contents.require_sboms().values():
            typer.echo(text.decode(errors="replace"), nl=False)
    elif replay or recompile:
        from .display import BuildDisplay
        from .replay import choose_store, require_whole, trace

        with choose_store(recompile=recompile) as store, BuildDisplay() as display:
            links = trace(contents, store, display, spec)
        if as_json:
            _print_json({"file": str(file), "replay": [link.as_json() for link in links]})
        else:
            print_links(links)
        require_whole(links, file.name)
    elif as_json:
        _print_json(contents.as_json())
    else:
        print_contents(contents)


@app.command()
def runtime(
    out: Annotated[Path, typer.Option(help="Where the files are put.")] = Path("dist"),
    wheel: Annotated[
        bool, typer.Option("--wheel", help="The wheel for this Python as well.")
    ] = False,
) -> None:
    """Write the package that wheels without an extension of their own need."""
    from .runtime_package import write_runtime
    from .store import Store

    for path in write_runtime(out, Store(), wheel=wheel):
        typer.echo(f"wrote {path}")


@app.command()
def audit(
    wheels: Annotated[list[Path], typer.Argument(metavar="WHEEL...", help="Wheels of a release.")],
    as_json: AsJson = False,
) -> None:
    """Judge wheels of any platform before they are released: tags, symbols, instructions, contents."""
    from .audit import audit_wheels, require_accepted
    from .display import print_audited

    results = audit_wheels(wheels)
    if as_json:
        _print_json([result.as_json() for result in results])
    else:
        print_audited(results)
    require_accepted(results)


@app.command()
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
    from .index import write_site

    site = write_site(directory, out, base_url)
    wheels = f"{site.wheels} wheel{'s' * (site.wheels != 1)}"
    where = "copied" if site.copied else "to be served beside it"
    models = f"{site.projects} model{'s' * (site.projects != 1)}"
    typer.echo(f"wrote {site.directory}: {models}, {wheels} {where}")


@app.command()
def tune(specs: Specs) -> None:
    """Measure what each batch size costs here and write it to a lock file beside the spec."""
    from .display import BuildDisplay
    from .store import Store
    from .tune import tune_spec

    for request in _requests(_load(specs), None, None):
        with BuildDisplay() as display:
            path = tune_spec(request, Store(), display)
        typer.echo(f"wrote {path}")


@app.command()
def publish(
    files: Annotated[list[Path], typer.Argument(metavar="DIST...", help="The release's files.")],
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
    from .display import print_publication
    from .publish import Publisher

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
        _print_json({**planned.as_json(), "uploaded": uploaded, "verified": not stops})
    planned.require_acceptable()
    if not as_json and not stops:
        typer.echo(f"{len(uploaded)} uploaded, {len(planned.files)} compared with the index")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Tell what this machine has of what modelwheel needs, and how to mend what is missing."""
    from dataclasses import asdict

    from .display import print_diagnosis
    from .doctor import diagnose

    findings = diagnose()
    if as_json:
        _print_json([asdict(finding) for finding in findings])
    else:
        print_diagnosis(findings)
    raise typer.Exit(any(finding.required and not finding.ok for finding in findings))


def _requests(
    specs: Sequence[Spec],
    targets: Sequence[str] | None,
    batch_sizes: Sequence[int] | None,
    platforms: Sequence[str] | None = None,
) -> list[Request]:
    from .request import make_request

    return [make_request(spec, targets or (), batch_sizes or (), platforms) for spec in specs]


def _load(
    patterns: Sequence[str], changed_since: str | None = None, tag: str | None = None
) -> list[Spec]:
    """The specs that are meant; an empty REF or tag, as workflows pass it, is none."""
    from .spec import find_specs, load_specs

    specs = load_specs(find_specs(patterns))
    if tag:
        from .selection import select_tagged

        specs = [select_tagged(specs, tag)]
    if changed_since:
        from .selection import select_changed

        specs = select_changed(specs, changed_since)
        names = ", ".join(str(spec.path) for spec in specs) or "no spec"
        typer.echo(f"changed since {changed_since}: {names}", err=True)
    return specs


def _split(names: Sequence[str] | None) -> list[str] | None:
    """What an option named, by commas or repeatedly; None where it was not given."""
    if names is None:
        return None
    return [part.strip() for name in names for part in name.split(",") if part.strip()]


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))
