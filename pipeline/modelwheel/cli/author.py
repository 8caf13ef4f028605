"""Commands of a model's author: from a SavedModel to a wheel for this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from .. import extras
from .app import app
from .options import (
    AsJson,
    BatchSizes,
    ChangedSince,
    Jobs,
    Platforms,
    Specs,
    Summary,
    Tag,
    Targets,
    load,
    make_requests,
    print_json,
    split,
)

if TYPE_CHECKING:
    from ..engine.steps import Goal
    from ..request import Request


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
    extras.require("build", "`modelwheel new`", advise="compile")
    from ..engine.new_spec import write_spec

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
    loaded = load(specs, changed_since, tag)
    if released_once:
        from ..release.selection import require_released_once

        require_released_once(loaded)
    if spec_only:
        typer.echo(f"{len(loaded)} spec{'s' * (len(loaded) != 1)} without mistakes")
        return
    extras.require("build", "checking models", advise="compile")
    from ..engine.check_models import check_models
    from ..store.store import Store
    from .display.tables import print_checked

    checked = check_models(loaded, Store())
    if as_json:
        print_json([model.as_json() for model in checked])
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
    loaded = load(specs, changed_since, tag)
    if github_matrix:
        from ..release.matrix import as_matrix, plan_jobs

        text = as_matrix(plan_jobs(loaded, split(platform) or (), musllinux=musllinux))
        typer.echo(text)
        if github_output is not None:
            with github_output.open("a", encoding="utf-8") as output:
                output.write(f"matrix={text}\n")
        return
    from dataclasses import asdict

    from ..engine.plan import plan as make_plan
    from ..store.store import Store

    store = Store()
    planned = [
        step
        for request in make_requests(loaded, target, batch_size, split(platform))
        for step in make_plan(request, store)
    ]
    if as_json:
        print_json([asdict(step) for step in planned])
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
    requests = make_requests(load(specs, changed_since, tag), target, batch_size)
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
    extras.require("build", "compiling models", advise="compile")
    from ..engine import scheduler as builder
    from ..store.store import Store
    from .display.tables import BuildDisplay, print_results

    options = builder.BuildOptions(out, goal, keep_work_dir, jobs)
    with BuildDisplay() as display:
        results = builder.build(requests, Store(), options, display)
    if as_json:
        print_json(builder.summarise(results))
    else:
        print_results(results)
    if summary is not None:
        from .display.markdown import append, show_builds

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
    loaded = load(specs, changed_since, tag)
    requests = make_requests(loaded, target, batch_size, split(platform) or ())
    _build(requests, out, "sdist", None, jobs, as_json)


@app.command()
def tune(specs: Specs) -> None:
    """Measure what each batch size costs here and write it to a lock file beside the spec."""
    extras.require("build", "`modelwheel tune`", advise="compile")
    from ..engine.tune import tune_spec
    from ..store.store import Store
    from .display.tables import BuildDisplay

    for request in make_requests(load(specs), None, None):
        with BuildDisplay() as display:
            path = tune_spec(request, Store(), display)
        typer.echo(f"wrote {path}")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Tell what this machine has of what modelwheel needs, and how to mend what is missing."""
    from dataclasses import asdict

    from ..engine.doctor import diagnose
    from .display.tables import print_diagnosis

    findings = diagnose()
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_diagnosis(findings)
    raise typer.Exit(any(finding.required and not finding.ok for finding in findings))


@app.command()
def cache(
    remove_unused: Annotated[
        int | None,
        typer.Option(metavar="DAYS", min=0, help="Remove results that nothing used for so long."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell where finished steps are kept and how much there is, and remove what is old.

    Files that are less than a day old stay: a build that runs now may need them.
    """
    from ..store.garbage import collect_garbage, disk_usage, list_entries
    from ..store.store import Store

    store = Store()
    if remove_unused is not None:
        collect_garbage(store, remove_unused * 24 * 3600)
    results, size = len(list_entries(store)), disk_usage(store)
    if as_json:
        print_json({"directory": str(store.root), "results": results, "bytes": size})
    else:
        typer.echo(f"{results} results of steps, {size / 1e6:.1f} MB in {store.root}")
