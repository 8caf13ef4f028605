"""Commands that build: wheels, source distributions and bundles, with their progress on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from .. import extras
from ..api.settings import open_store
from .app import AUTHOR, RELEASE, app
from .clusters import Cluster, find_cluster
from .models import load_any
from .options import (
    NOBODY_ELSE,
    AsJson,
    AsTable,
    BatchSizes,
    ChangedSince,
    Comment,
    GithubOutput,
    Jobs,
    JsonEvents,
    Levels,
    MetricsPort,
    Observed,
    Platforms,
    Shard,
    Specs,
    SpecsOrModels,
    Summary,
    Tag,
    hand_on,
    load,
    make_requests,
    refuse_table_as_json,
    require_appendable,
    require_only,
    require_writable,
    split,
)
from .output import print_json, tell
from .sandboxes import SandboxMode, open_sandbox
from .stores import with_store

if TYPE_CHECKING:
    from ..engine.build import BuildResult
    from ..engine.cluster.address import OnCluster
    from ..engine.steps import Goal
    from ..request import Request
    from ..sandbox.policy import Policy


def run_build(
    requests: Sequence[Request],
    out: Path,
    goal: Goal,
    *,
    keep_work_dir: Path | None = None,
    jobs: int | None = None,
    sandbox: Policy | None = None,
    keep_unverified: bool = False,
    cluster: OnCluster | None = None,
    observed: Observed = NOBODY_ELSE,
) -> list[BuildResult]:
    """Builds every request as far as possible; the results name what failed.

    Raises:
        EnvironmentProblemError: Something that the build needs is not installed, or `out` cannot be written.
    """
    extras.require("build", "compiling models", advise="compile")
    from ..config import load_config
    from ..engine import build as builder
    from ..engine.finished import find_all_finished
    from ..engine.planning.forecast import Forecast
    from ..engine.reporting import Several
    from ..engine.requirements import require_for_build
    from ..sandbox.choose import UNUSED
    from ..telemetry.observing import observe
    from .display.annotations import annotate, of_builds
    from .display.progress import BuildDisplay

    if keep_work_dir is not None:
        # Now, so that a directory that cannot be made is refused before anything slow.
        keep_work_dir.mkdir(parents=True, exist_ok=True)
    store = open_store()
    options = builder.BuildOptions(
        out,
        # Workers of a cluster have their own; this machine may have none.
        UNUSED if cluster is not None else open_sandbox(sandbox),
        goal,
        keep_work_dir,
        jobs,
        limits=load_config().limits,
        keep_unverified=keep_unverified,
        cluster=cluster,
    )
    finished = find_all_finished(requests, store, goal)
    left = [request for request in requests if request.name not in finished]
    require_for_build(left, store, goal, out, elsewhere=cluster is not None)
    with (
        BuildDisplay() as display,
        observe(
            display, observed.command, observed.events, observed.metrics_port, tell
        ) as reporter,
    ):
        results = builder.build(
            requests, store, options, Several(reporter, Forecast(display, store)), finished
        )
    annotate(of_builds(results))
    return results


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel build model_specs/digits.yaml",
        "modelwheel build --level x86-64-v3 --batch-size 1 --out dist model_specs/digits.yaml",
    ],
)
@with_store
def build(
    specs: SpecsOrModels,
    level: Levels = None,
    batch_size: BatchSizes = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to put wheels.")] = Path("dist"),
    keep_work_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep each step's working files under this directory."),
    ] = None,
    keep_unverified: Annotated[
        bool,
        typer.Option(
            "--keep-unverified",
            help="Put a wheel that does not pass verification into --out too, for inspection: its version ends with "
            "+unverified, and nothing publishes it.",
        ),
    ] = False,
    jobs: Jobs = None,
    cluster: Cluster = None,
    json_events: JsonEvents = None,
    metrics_port: MetricsPort = None,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    shard: Shard = None,
    summary: Summary = None,
    comment: Comment = None,
    sandbox: SandboxMode = None,
    table: AsTable = False,
    as_json: AsJson = False,
) -> None:
    """Build and verify wheels for this machine.

    A model that has no spec yet is built as `modelwheel new` would describe it.
    """
    refuse_table_as_json(table, as_json)
    require_appendable(summary)
    require_writable(comment, None)
    where = find_cluster(cluster, sandbox, {"--jobs": jobs, "--keep-work-dir": keep_work_dir})
    loaded = load_any(specs, sandbox, changed_since, tag, shard)
    requests = make_requests(loaded, level, batch_size)
    _build(
        requests,
        out,
        "wheel",
        keep_work_dir,
        jobs,
        sandbox,
        as_json,
        summary,
        comment=comment,
        keep_unverified=keep_unverified,
        table=table,
        cluster=where,
        observed=Observed("modelwheel build", json_events, metrics_port),
    )


@app.command(
    "compile",
    rich_help_panel=RELEASE,
    examples=[
        "modelwheel compile model_specs/digits.yaml",
        "modelwheel compile --platform linux-aarch64 --out sdists model_specs",
    ],
)
@with_store
def compile_(
    specs: Specs,
    platform: Platforms = None,
    level: Levels = None,
    batch_size: BatchSizes = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to put source distributions.")
    ] = Path("dist"),
    jobs: Jobs = None,
    cluster: Cluster = None,
    json_events: JsonEvents = None,
    metrics_port: MetricsPort = None,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    sandbox: SandboxMode = None,
    github_output: GithubOutput = None,
    as_json: AsJson = False,
) -> None:
    """Cross-compile into source distributions that build anywhere, without TensorFlow.

    By default for every platform of [build] in modelwheel.toml for which a spec has CPU levels. With --github-output, `sums` are the
    SHA-256 of the files, and nothing else may be in the directory.
    """
    require_appendable(github_output)
    where = find_cluster(cluster, sandbox, {"--jobs": jobs})
    loaded = load(specs, changed_since, tag)
    requests = make_requests(loaded, level, batch_size, split(platform) or ())
    if github_output is not None:
        require_only((), out)
    _build(
        *(requests, out, "sdist", None, jobs, sandbox, as_json),
        github_output=github_output,
        cluster=where,
        observed=Observed("modelwheel compile", json_events, metrics_port),
    )


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel bundle model_specs/digits.yaml",
        "modelwheel bundle --platform linux-aarch64 --static-arena model_specs/digits.yaml",
    ],
)
@with_store
def bundle(
    specs: SpecsOrModels,
    platform: Platforms = None,
    level: Levels = None,
    batch_size: BatchSizes = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="Where to put a directory for each model."),
    ] = Path("bundles"),
    static_arena: Annotated[
        bool,
        typer.Option(
            "--static-arena",
            help="Libraries without malloc: instances are in memory of the program, whose size is a macro.",
        ),
    ] = False,
    versioned: Annotated[
        bool,
        typer.Option(
            "--versioned",
            help="All names have the version, such as model_digits_1_1: then several versions can be linked into one program.",
        ),
    ] = False,
    jobs: Jobs = None,
    cluster: Cluster = None,
    json_events: JsonEvents = None,
    metrics_port: MetricsPort = None,
    sandbox: SandboxMode = None,
    as_json: AsJson = False,
) -> None:
    """Build static libraries for programs in C and C++, without Python.

    Each comes in a directory with headers, sources, a test, a benchmark, and files for make, CMake, pkg-config and Bazel.
    By default for this machine; others are cross-compiled.
    """
    where = find_cluster(cluster, sandbox, {"--jobs": jobs})
    loaded = load_any(specs, sandbox)
    if versioned:
        loaded = [spec.named_by_version() for spec in loaded]
    requests = make_requests(loaded, level, batch_size, split(platform))
    goal: Goal = "static-bundle" if static_arena else "bundle"
    _build(
        *(requests, out, goal, None, jobs, sandbox, as_json),
        cluster=where,
        observed=Observed("modelwheel bundle", json_events, metrics_port),
    )


def _build(
    requests: Sequence[Request],
    out: Path,
    goal: Goal,
    keep_work_dir: Path | None,
    jobs: int | None,
    sandbox: Policy | None,
    as_json: bool,
    summary: Path | None = None,
    github_output: Path | None = None,
    *,
    comment: Path | None = None,
    keep_unverified: bool = False,
    table: bool = False,
    cluster: OnCluster | None = None,
    observed: Observed = NOBODY_ELSE,
) -> NoReturn:
    from ..engine import build as builder
    from .display.tables import print_failures, print_results, print_totals

    results = run_build(
        requests,
        out,
        goal,
        keep_work_dir=keep_work_dir,
        jobs=jobs,
        sandbox=sandbox,
        keep_unverified=keep_unverified,
        cluster=cluster,
        observed=observed,
    )
    if as_json:
        print_json(builder.summarise(results))
    else:
        print_results(results, table=table)
    if summary is not None:
        from .display.markdown import append, show_builds

        append(summary, show_builds(results))
    if comment is not None:
        from .display.markdown import show_builds
        from .display.pull_request import write_comment

        write_comment(comment, [show_builds(results)])
    if keep_work_dir is not None and not any(result.run for result in results):
        tell(f"nothing was kept in {keep_work_dir}: no step ran")
    print_failures(results)
    if not as_json:
        names = {result.request.name: not result.errors for result in results}
        print_totals("spec", names, ("built", "failed"))
    code = builder.exit_code(results)
    if github_output is not None and not code:
        hand_on([result.sdist for result in results if result.sdist], out, github_output)
    raise typer.Exit(code)
