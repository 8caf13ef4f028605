"""Runs a build with its progress on the terminal: what every command that compiles shares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import extras
from .sandboxes import open_sandbox
from .stores import open_store

if TYPE_CHECKING:
    from ..engine.build import BuildResult
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
) -> list[BuildResult]:
    """Builds every request as far as possible; the results name what failed.

    Raises:
        EnvironmentProblemError: Something that the build needs is not installed, or `out` cannot be written.
    """
    extras.require("build", "compiling models", advise="compile")
    from ..config import load_config
    from ..engine import build as builder
    from ..engine.requirements import require_for_build
    from .display.annotations import annotate, of_builds
    from .display.progress import BuildDisplay

    if keep_work_dir is not None:
        # Now, so that a directory that cannot be made is refused before anything slow.
        keep_work_dir.mkdir(parents=True, exist_ok=True)
    store = open_store()
    options = builder.BuildOptions(
        out,
        open_sandbox(sandbox),
        goal,
        keep_work_dir,
        jobs,
        limits=load_config().limits,
        keep_unverified=keep_unverified,
    )
    require_for_build(requests, store, goal, out)
    with BuildDisplay() as display:
        results = builder.build(requests, store, options, display)
    annotate(of_builds(results))
    return results
