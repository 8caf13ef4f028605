"""The tools that the steps of a build need on this machine: checked before anything slow."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from .. import extras, prerequisites
from ..errors import EnvironmentProblemError, ModelwheelError
from ..platforms import host_platform
from ..prerequisites import Missing
from ..request import Request
from ..store.store import Store
from .planning.plan import PlannedStep, plan
from .steps import Goal


def require_for_build(
    requests: Sequence[Request], store: Store, goal: Goal, out: Path, *, elsewhere: bool = False
) -> None:
    """Checks that this machine has what the steps of a build that would run need.

    Whatever is in the store already needs nothing: a cached build works on any machine.

    Args:
        requests: What is built.
        store: Where results are.
        goal: What is built of each.
        out: Where it goes.
        elsewhere: Whether steps run on other machines.

    Raises:
        EnvironmentProblemError: Something is missing; one sentence says what to install.
    """
    others = {platform.name for request in requests for platform in request.platforms}
    others -= {host_platform().name}
    if goal in ("bundle", "static-bundle") and others:
        extras.require("cross", f"a bundle for {', '.join(sorted(others))}")
    if goal in ("wheel", "bundle", "static-bundle", "profile") and not _finds_compiler():
        # There is no plan without it, because the keys of wheels contain the compiler's version.
        require_compiler(headers=True)
    if elsewhere:
        return
    steps = [
        (step.kind, request.spec.package.bindings)
        for request in requests
        for step in _steps_to_run(request, store, goal)
    ]
    if any(kind in ("bundle", "profile") for kind, _ in steps):
        require_compiler(headers=False)
    if any(kind in ("wheel", "runtime") for kind, _ in steps):
        # A wheel with shared bindings has no extension of its own, but the runtime has one.
        extensions = {("wheel", "extension"), ("runtime", "shared")}
        require_compiler(headers=not extensions.isdisjoint(steps))
    if steps:
        require_disk(store.root, out)


def require_compiler(*, headers: bool) -> None:
    """Checks that wheels can be built and verified here.

    Args:
        headers: Whether these wheels have a Python extension.

    Raises:
        EnvironmentProblemError: They cannot.
    """
    checks = [prerequisites.check_venv, prerequisites.check_compiler]
    if headers:
        checks.insert(1, prerequisites.check_headers)
    _refuse([check() for check in checks])


def require_disk(*directories: Path) -> None:
    """Checks that there is space for a build.

    Raises:
        EnvironmentProblemError: There is not.
    """
    results = [
        prerequisites.check_disk(prerequisites.BUILD_BYTES, directory.absolute())
        for directory in directories
    ]
    # Both directories may be on the same full disk.
    _refuse(list(dict.fromkeys(results)))


def _refuse(results: Sequence[Missing | None]) -> None:
    missing = [result for result in results if result is not None]
    if missing:
        raise EnvironmentProblemError(prerequisites.explain(missing), code="MW722")


def _finds_compiler() -> bool:
    if sys.platform == "win32" and not os.environ.get("CXX"):
        return prerequisites.has_visual_studio()
    return shutil.which(prerequisites.compiler_command()[0]) is not None


def _steps_to_run(request: Request, store: Store, goal: Goal) -> Iterator[PlannedStep]:
    with suppress(ModelwheelError):  # the build reports it, and goes on with other specs
        yield from (step for step in plan(request, store, goal) if step.state == "run")
