"""The plan of a build: its steps, their reasons, and their cost; and the list of what a release makes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..api.settings import open_store
from .app import AUTHOR, app
from .options import (
    AsJson,
    BatchSizes,
    ChangedSince,
    Levels,
    Platforms,
    Specs,
    Tag,
    append_output,
    build_rules,
    load,
    make_requests,
    refuse_together,
    refuse_without,
    require_appendable,
    split,
)
from .output import print_json, say, say_json
from .sandboxes import SandboxMode, open_sandbox
from .stores import with_store

if TYPE_CHECKING:
    from ..engine.planning.changes import Reason
    from ..engine.planning.plan import Survey
    from ..engine.planning.why import Explainer
    from ..engine.steps import Goal
    from ..request import Request
    from ..sandbox.policy import Policy
    from ..spec import Spec
    from ..store.store import Store


@app.command(
    rich_help_panel=AUTHOR,
    examples=[
        "modelwheel plan model_specs/digits.yaml",
        "modelwheel plan --platform linux-x86_64,linux-aarch64 model_specs",
        "modelwheel plan --why --cost --workers 8 model_specs",
        "modelwheel plan --since digits-1.0.0 model_specs/digits.yaml",
    ],
)
@with_store
def plan(
    specs: Specs,
    level: Levels = None,
    batch_size: BatchSizes = None,
    changed_since: ChangedSince = None,
    tag: Tag = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="Instead of the steps, say what changed since their last results, so that they must run.",
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TAG",
            help="Instead of the steps, say what must be built again since this tag (git), and why; also if it was, "
            "meanwhile.",
        ),
    ] = None,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost",
            help="Instead of the steps, say what those that must run will take, from what earlier ones took.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --cost: how many steps run at once; by default as many as this machine has cores.",
        ),
    ] = None,
    as_json: AsJson = False,
    release_list: Annotated[
        bool,
        typer.Option(
            "--release-list",
            help="Print the files of a release and the jobs that make them, as JSON.",
        ),
    ] = False,
    platform: Platforms = None,
    musllinux: Annotated[
        bool,
        typer.Option(
            "--musllinux",
            help="With --release-list: include musllinux wheels, unless [build] platforms of modelwheel.toml decides.",
        ),
    ] = False,
    github_output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --release-list: append `list=JSON` and `tag=NAME-VERSION` to this file too.",
        ),
    ] = None,
    sandbox: SandboxMode = None,
) -> None:
    """Show the build steps, which of them are cached, and the sandbox that models would run in.

    They are the steps of `modelwheel build` on this machine or, with --platform, of `modelwheel compile`.
    """
    asked = {"--why": why, "--since": since, "--cost": cost, "--workers": workers}
    ours = {"--level": level, "--batch-size": batch_size, "--json": as_json, "--sandbox": sandbox}
    theirs = {"--musllinux": musllinux, "--github-output": github_output}
    if release_list:
        reason = "it prints JSON, of the jobs for all levels and batch sizes"
        refuse_together("--release-list", {**ours, **asked}, reason)
        require_appendable(github_output)
        _print_list(load(specs, changed_since, tag), split(platform), musllinux, github_output)
        return
    refuse_without("--release-list", theirs)
    if since:
        refuse_together("--since", {"--why": why}, "it says why, too")
    if not cost:
        refuse_without("--cost", {"--workers": workers})
    loaded = load(specs, changed_since, tag)
    platforms = split(platform)
    requests = make_requests(loaded, level, batch_size, platforms)
    goal: Goal = "wheel" if platforms is None else "sdist"
    if why or since or cost:
        slots = (workers or os.cpu_count() or 1) if cost else None
        _print_answers(requests, goal, sandbox, why, since, slots, as_json)
    else:
        _print_plan(requests, goal, sandbox, as_json)


def _print_list(
    specs: Sequence[Spec], platforms: Sequence[str] | None, musllinux: bool, output: Path | None
) -> None:
    from ..release.listing import list_release

    rules = build_rules()
    listed = list_release(
        specs,
        platforms or (),
        musllinux=musllinux,
        allowed=rules.platforms,
        pythons=rules.pythons,
    )
    text = listed.to_json().decode().strip()
    say_json(f"{text}\n")
    append_output(output, list=text, tag=listed.tag)


def _print_plan(
    requests: Sequence[Request], goal: Goal, mode: Policy | None, as_json: bool
) -> None:
    from ..engine.planning.plan import survey_all
    from .display.plans import total

    store = open_store()
    planned = [step for survey in survey_all(requests, store, goal) for step in survey.planned]
    if as_json:
        if mode is not None:
            open_sandbox(mode)  # an error if it is required and none works
        print_json(planned)
        return
    # At once: hundreds of specs have thousands of lines, each of which would be flushed.
    say("\n".join(f"{step.state:6}  {step.name}" for step in planned))
    say(total(planned))
    say(f"sandbox: {open_sandbox(mode).name}")


def _print_answers(
    requests: Sequence[Request],
    goal: Goal,
    mode: Policy | None,
    why: bool,
    since: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    from ..engine.planning.cost import estimate
    from ..engine.planning.plan import survey_all
    from ..engine.planning.why import Explainer
    from .display.plans import answer_json, cost_lines, reason_lines, total

    store = open_store()
    surveys = survey_all(requests, store, goal)
    explainer = Explainer(store)
    reasons: Mapping[str, Sequence[Reason]] | None = None
    if since:
        reasons = _since(surveys, goal, store, explainer, since)
    elif why:
        reasons = {
            name: causes for survey in surveys for name, causes in explainer.why(survey).items()
        }
    cost = None if workers is None else estimate(surveys, explainer.history, workers)
    if as_json:
        if mode is not None:
            open_sandbox(mode)  # an error if it is required and none works
        print_json(answer_json(surveys, reasons, cost))
        return
    planned = [step for survey in surveys for step in survey.planned]
    for line in reason_lines(surveys, reasons or {}):
        say(line)
    if since:
        say(f"{len(reasons or {})} of {len(planned)} steps differ from {since}")
    say(total(planned))
    for line in () if cost is None else cost_lines(cost):
        say(line)
    say(f"sandbox: {open_sandbox(mode).name}")


def _since(
    surveys: Sequence[Survey], goal: Goal, store: Store, explainer: Explainer, revision: str
) -> dict[str, Sequence[Reason]]:
    """The steps that must run since a revision, and why, by their names."""
    from ..engine.planning.since import surveys_at

    with store.scratch() as scratch:
        reasons: dict[str, Sequence[Reason]] = {}
        for now, then in zip(
            surveys, surveys_at(revision, surveys, store, goal, scratch), strict=True
        ):
            reasons |= explainer.since(now, then.survey, then.time)
        return reasons
