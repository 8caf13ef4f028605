"""Compiles cases of the zoo, compares them with TensorFlow, and records what became of each."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelwheel.errors import ModelwheelError
from modelwheel.levels import host_levels
from modelwheel.packaging.runtime import runtime_wheel
from modelwheel.request import Request, make_request
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from modelwheel.wheelfile.reports import Report
from tests.models.zoo.case import Case
from tests.support.commands import Modelwheel, run
from tests.support.laboratory import run_script
from tests.support.projects_of_models import (
    Projects,
    compile_projects,
    host_toolchain,
    make_packages,
)
from tests.support.wheels import unpack

COMPARE = Path(__file__).with_name("compare.py")
"""Runs the self-tests of all packages in a directory, also on other processors."""

UNVERIFIED = "`check` warns of it, and verifying the wheel fails: its outputs are not TensorFlow's"
"""Why a model is refused that XLA compiles into something else."""


@dataclass(frozen=True)
class Result:
    """What became of one case."""

    case: Case
    refusal: str = ""
    """The sentence, if it was refused."""
    outputs: tuple[str, ...] = ()
    """The outputs that were compared with TensorFlow's at every level."""
    levels: tuple[str, ...] = ()
    """The CPU levels at which they were compared."""
    failures: tuple[str, ...] = ()
    """Comparisons that exceed their tolerance."""

    @property
    def as_expected(self) -> bool:
        """Whether it was refused if it must be, and otherwise compared without a failure."""
        return bool(self.refusal) == self.case.refused and not self.failures


@dataclass(frozen=True)
class Visit:
    """All results, and the files that they were made from."""

    results: tuple[Result, ...]
    projects: Projects
    reports: dict[str, Report]
    """Of the cases that were compiled, by name."""


def make_models(cases: Iterable[Case], directory: Path) -> Path:
    """Writes the models of these cases, below a directory for each script."""
    scripts = dict.fromkeys(case.script for case in cases)
    missing = [script for script in scripts if not (directory / script).exists()]
    if missing:
        run_script("zoo.make", directory, *missing)
    return directory


def visit(
    cases: Sequence[Case],
    work: Path,
    modelwheel: Modelwheel,
    levels: Sequence[str] = (),
) -> Visit:
    """Makes, compiles and compares cases on this machine.

    Args:
        cases: Which ones.
        work: A directory for all files.
        modelwheel: The command with its store, which later visits share.
        levels: CPU levels of this machine; by default all.
    """
    levels = levels or [level.name for level in host_levels()]
    projects, errors = compile_cases(cases, work, modelwheel, levels)
    packages = make_packages(projects, host_toolchain(), work)
    reports = compare(sys.executable, packages, make_runtime(modelwheel, work))
    results = tuple(
        Result(case, _shorten(errors[case.name], work))
        if case.name in errors
        else judge(case, reports[f"model_{case.name}"])
        for case in cases
    )
    found = {
        case.name: Report.model_validate(
            {k: v for k, v in reports[f"model_{case.name}"].items() if k != "module"}
        )
        for case in cases
        if case.name not in errors
    }
    return Visit(results, projects, found)


def compile_cases(
    cases: Sequence[Case],
    work: Path,
    modelwheel: Modelwheel,
    levels: Sequence[str],
    platforms: Sequence[str] | None = None,
) -> tuple[Projects, dict[str, str]]:
    """Compiles cases up to the projects that wheels are made from; returns also why others were refused, by name."""
    models = make_models(cases, work / "models")
    (work / "specs").mkdir(exist_ok=True)
    requests: list[Request] = []
    errors: dict[str, str] = {}
    for case in cases:
        spec = case.write_spec(models, levels, work / "specs")
        try:
            requests.append(make_request(load_spec(spec), platforms=platforms))
        except ModelwheelError as error:
            errors[case.name] = str(error)
    projects = compile_projects(requests, modelwheel.cache, work)
    for name in projects.results.keys() - set(projects.compiled):
        errors[name] = min(projects.errors(name))  # batch sizes fail alike, and in any order
    return projects, errors


def make_runtime(modelwheel: Modelwheel, work: Path) -> Path:
    """A directory with modelwheel-runtime for this Python."""
    store = Store(modelwheel.cache)
    try:
        store.materialize(runtime_wheel(store), work / "runtime-wheel")
    finally:
        store.close()
    (wheel,) = (work / "runtime-wheel").glob("*.whl")
    return unpack(wheel, work / "site")


def compare(python: str | Path, packages: Path, site: Path) -> dict[str, dict[str, Any]]:
    """The reports of the self-tests of all packages in a directory, by their modules."""
    return read_reports(run(python, COMPARE, packages, PYTHONPATH=str(site)).out)


def read_reports(printed: str) -> dict[str, dict[str, Any]]:
    """What `COMPARE` has printed, by the modules of the packages."""
    reports = [json.loads(line) for line in printed.splitlines()]
    return {report["module"]: report for report in reports}


def judge(case: Case, report: dict[str, Any]) -> Result:
    """The result of a case that was compiled."""
    compared = report["comparisons"]
    failures = [json.dumps(one) for one in compared if not one["passed"]]
    if case.refused and failures:
        return Result(case, UNVERIFIED)
    return Result(
        case,
        outputs=tuple(sorted({one["output"] for one in compared})),
        levels=tuple(dict.fromkeys(one["level"] for one in compared)),
        failures=tuple(failures + [f"not run: {text}" for text in report["skipped"].values()]),
    )


def _shorten(message: str, work: Path) -> str:
    """The first line of a message, without places of this visit and without what is random."""
    # The size of a compressed file differs by a byte from one run to the next.
    first = re.sub(r"but has \d+", "but has ...", message.partition("\n")[0])
    return first.replace(f"{work}/", "")
