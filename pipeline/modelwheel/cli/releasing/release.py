"""Commands that build the wheels of a release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import extras
from ...api.settings import open_store
from ...util.watching import NOBODY, Watcher
from .. import completion
from ..app import RELEASE, app
from ..options import (
    AsJson,
    GithubOutput,
    OnBranch,
    Out,
    append_output,
    build_rules,
    hand_on,
    refuse_together,
    refuse_without,
    require_appendable,
    require_only,
)
from ..output import print_json, say, tell
from ..stores import with_store

if TYPE_CHECKING:
    from ...release.outcome import Outcome
    from ..display.progress import BuildDisplay


BuildIdentifiers = Annotated[
    list[str] | None,
    typer.Option(
        metavar="IDENTIFIER",
        help="Only this build identifier of cibuildwheel, such as cp312-manylinux_x86_64; "
        "may be repeated.",
    ),
]
HandedOnSums = Annotated[
    str | None,
    typer.Option(
        metavar="SHA256SUMS",
        help="With --github-job: what `modelwheel compile --github-output` has handed on. Fail if the "
        "source distribution is another file.",
    ),
]
CrossTags = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TAG",
        autocompletion=completion.cross_tags,
        help="Cross-build for this platform tag with zig instead of cibuildwheel, such as "
        "manylinux_2_17_aarch64; may be repeated.",
    ),
]


@app.command(
    rich_help_panel=RELEASE,
    examples=[
        "modelwheel wheel dist",
        "modelwheel wheel --cross manylinux_2_17_aarch64 --out wheels dist",
    ],
)
def wheel(
    sdists: Annotated[
        list[Path],
        typer.Argument(
            metavar="SDIST",
            help="Source distributions of `modelwheel compile`, or directories.",
            autocompletion=completion.source_distributions,
        ),
    ],
    system: Annotated[
        str | None,
        typer.Option(metavar="SYSTEM", help="linux, macos or windows; this machine's by default."),
    ] = None,
    only: BuildIdentifiers = None,
    github_job: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Only this job of `modelwheel plan --release-list`."),
    ] = None,
    sums: HandedOnSums = None,
    github_output: GithubOutput = None,
    cross: CrossTags = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="With --cross: the Python to build for, as 3.12."),
    ] = None,
    out: Annotated[Path, Out] = Path("wheelhouse"),
    as_json: AsJson = False,
) -> None:
    """Build the wheels of a release with cibuildwheel: build, repair, audit and test.

    By default those of [build] in modelwheel.toml. cibuildwheel reads its CIBW_* environment variables (images, container engine, ...). With --github-job
    and --github-output, `sums` are the SHA-256 of the wheels, and nothing else may be in the directory.
    """
    from ...wheelfile.collect import SDIST, find_distributions

    if cross:
        others = {"--system": system, "--only": only, "--github-job": github_job}
        refuse_together("--cross", others, "they select builds of cibuildwheel")
    else:
        refuse_without("--cross", {"--python": python})
    if github_job:
        others = {"--system": system, "--only": only}
        refuse_together("--github-job", others, "the job names the wheels to build")
    else:
        refuse_without("--github-job", {"--sums": sums, "--github-output": github_output})
    require_appendable(github_output)
    distributions = find_distributions(sdists, (SDIST,))
    from ..display.progress import BuildDisplay

    # cibuildwheel prints lines of its own.
    with BuildDisplay(results=False) if cross else nullcontext() as display:
        if cross:
            outcomes = _cross_build(distributions, cross, python, out, display or NOBODY)
        elif github_job:
            outcomes = _build_job(distributions, github_job, sums, out, github_output)
        else:
            outcomes = _drive_cibuildwheel(distributions, system, only, out)
        finished = [_shown(outcome, display, as_json=as_json) for outcome in outcomes]
    if as_json:
        print_json(finished)
    else:
        from ..display.tables import print_totals

        failed = {outcome.sdist.name for outcome in finished if outcome.error is not None}
        names = {outcome.sdist.name: outcome.sdist.name not in failed for outcome in finished}
        print_totals("source distribution", names, ("built", "failed"))
    raise typer.Exit(next((o.error.exit_code for o in finished if o.error is not None), 0))


def _build_job(
    sdists: list[Path], text: str, sums: str | None, out: Path, github_output: Path | None
) -> Iterator[Outcome]:
    """Builds the wheels of one job of a release, and hands on their hashes."""
    from ...index.release_list import read_job
    from ...release.listing import pick, require_wheels

    job = read_job(text)
    sdist = pick(job, sdists, sums)
    if github_output is not None:
        require_only((), out)
    for outcome in _drive_cibuildwheel([sdist], None, [job.build], out):
        if outcome.error is None:
            require_wheels(job, [wheel.name for wheel in outcome.wheels])
            hand_on(outcome.wheels, out, github_output)
        yield outcome


def _shown(outcome: Outcome, display: BuildDisplay | None, *, as_json: bool) -> Outcome:
    """The outcome, which was printed: a person need not wait for the last one."""
    with nullcontext() if display is None else display.paused():
        if outcome.error is not None:
            from ..display.annotations import report_error

            report_error(outcome.error)
        for path in outcome.wheels if not as_json else ():
            say(path)
    return outcome


def _drive_cibuildwheel(
    sdists: list[Path],
    system: str | None,
    only: list[str] | None,
    out: Path,
) -> Iterator[Outcome]:
    extras.require("release", "`modelwheel wheel`")
    from ...engine.requirements import require_compiler
    from ...release.cibuildwheel import build_wheels, select

    rules = build_rules()
    selection = select(system, only or (), rules.platforms, rules.pythons)
    if selection.system != "linux":  # there it runs in containers that have a compiler
        require_compiler(headers=False)  # cibuildwheel brings Pythons with headers
    return build_wheels(sdists, selection, out, tell)


def _cross_build(
    sdists: list[Path], tags: list[str], python: str | None, out: Path, watcher: Watcher
) -> Iterator[Outcome]:
    extras.require("cross", "`modelwheel wheel --cross`")
    from ...engine.requirements import require_disk
    from ...release.cross import build_wheels, find_target

    require_disk(out)  # zig is the compiler, and brings headers of its own
    targets = [find_target(tag) for tag in tags]
    for tag, target in zip(tags, targets, strict=True):
        if tag != target.cross_tag:
            tell(f"wheels for {tag} get the tag {target.cross_tag}: they install there too")
    for target in dict.fromkeys(targets):
        yield from build_wheels(sdists, target, python, out, watcher)


@app.command(rich_help_panel=RELEASE, examples=["modelwheel runtime --wheel"])
@with_store
def runtime(
    out: Annotated[Path, Out] = Path("dist"),
    wheel: Annotated[
        bool, typer.Option("--wheel", help="Build the wheel for this Python, too.")
    ] = False,
    tag: Annotated[
        str | None,
        typer.Option(
            metavar="modelwheel-runtime-VERSION", help="Fail unless this tag names its version."
        ),
    ] = None,
    on_branch: OnBranch = None,
    github_output: GithubOutput = None,
    as_json: AsJson = False,
) -> None:
    """Build modelwheel-runtime, which wheels with `bindings: shared` depend on.

    With --github-output, `list` is that of its release, and `sums` are the SHA-256 of the files.
    """
    extras.require("build", "`modelwheel runtime`")
    from ...engine.requirements import require_compiler
    from ...packaging.runtime import require_tag, write_runtime

    if tag:
        require_tag(tag)
    if on_branch:
        from ...release.selection import require_on_branch

        require_on_branch((), on_branch, tag)
    require_appendable(github_output)
    if github_output is not None:
        require_only((), out)
    if wheel:
        require_compiler(headers=True)
    from ...util.watching import step
    from ..display.progress import BuildDisplay

    with BuildDisplay(results=False) as display, step("modelwheel-runtime", display):
        written = write_runtime(out, open_store(), wheel=wheel)
    for path in written if not as_json else ():
        say(f"wrote {path}")
    if github_output is not None:
        from ...release.listing import list_runtime

        listed = list_runtime()
        append_output(github_output, list=listed.to_json().decode().strip(), tag=listed.tag)
        hand_on(written, out, github_output)
    if as_json:
        print_json({"files": written})
