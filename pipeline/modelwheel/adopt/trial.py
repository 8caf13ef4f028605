"""Builds the same models by two TensorFlows, and compares what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..bench.compare import Settings, compare_wheels
from ..bench.statistics import Spread
from ..errors import EnvironmentProblemError, ModelwheelError
from ..model.schema import Schema
from ..sandbox.choose import Sandbox
from ..store.store import Store
from ..util.processes.process import Completed, run
from ..util.text import one_line
from ..util.watching import Watcher, each, step
from ..wheelfile.reports import Report
from .environment import Installation


@dataclass(frozen=True)
class Built:
    """The wheel of a model by one TensorFlow, or the reason that there is none."""

    wheel: Path | None
    needed: tuple[Path, ...]
    error: str | None
    """Why there is no wheel."""
    report: Report | None

    @property
    def size(self) -> int | None:
        """Bytes of the wheel."""
        return None if self.wheel is None else self.wheel.stat().st_size

    @property
    def share(self) -> float | None:
        """The largest part of an allowed error that was used; 1 is the limit."""
        worst = None if self.report is None else self.report.worst
        return None if worst is None else worst.share


@dataclass(frozen=True)
class Trial:
    """One model, built by both."""

    model: str
    pinned: Built
    candidate: Built
    slower: Mapping[int, Spread]
    """How many times as long the candidate's wheel takes, by rows; empty where there are not two wheels."""
    untimed: str = ""
    """Why there are two wheels but no times."""


def read_schema(installation: Installation) -> Schema:
    """The schema of XLA's compilation result in an installation.

    Raises:
        EnvironmentProblemError: Its TensorFlow has none that can be read.
    """
    done = _run(installation, "modelwheel.compiler.print_schema")
    try:
        return Schema.model_validate_json(done.stdout)
    except ValidationError:
        raise EnvironmentProblemError(
            f"TensorFlow {installation.tensorflow} does not say what its compiler writes: {_last(done)}"
        ) from None


def build_all(
    installation: Installation,
    specs: Sequence[str],
    options: Sequence[str],
    out: Path,
    watcher: Watcher,
) -> dict[str, Built]:
    """Builds wheels with the command of an installation; by the names of models.

    Args:
        installation: Whose TensorFlow compiles.
        specs: As on a command line.
        options: Further ones of `modelwheel build`.
        out: Where wheels are written.
        watcher: Receives the name of this step.

    Raises:
        EnvironmentProblemError: The command did not say what it built.
    """
    with step(f"build with tensorflow {installation.tensorflow}", watcher):
        done = _run(
            installation, "modelwheel", "build", *specs, *options, "--json", "--out", str(out)
        )
    try:
        results: Any = json.loads(done.stdout)
        return {str(result["model"]): _built(result) for result in results}
    except (ValueError, KeyError, TypeError):
        raise EnvironmentProblemError(
            f"`modelwheel build` with TensorFlow {installation.tensorflow} failed: {_last(done)}"
        ) from None


def _run(installation: Installation, module: str, *arguments: str) -> Completed:
    # Isolated: not the modules of the working directory.
    command: list[str | Path] = [installation.python, "-I", "-m", module, *arguments]
    return run(command, env=installation.variables, check=False)


def _last(done: Completed) -> str:
    """The last thing that a program said, which is an error."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return one_line(lines[-1] if lines else "it said nothing")


def _built(result: Mapping[str, Any]) -> Built:
    report = result["report"]
    return Built(
        None if result["wheel"] is None else Path(result["wheel"]),
        tuple(map(Path, result["needed"])),
        result["errors"][0]["message"] if result["errors"] else None,
        None if report is None else Report.model_validate(report),
    )


def compare_all(
    pinned: Mapping[str, Built],
    candidate: Mapping[str, Built],
    settings: Settings,
    sandbox: Sandbox,
    store: Store,
    watcher: Watcher,
) -> list[Trial]:
    """Times the two wheels of each model in turn."""
    return [
        _trial(model, pinned[model], candidate[model], settings, sandbox, store)
        for model in each(sorted(pinned), lambda model: f"{model}/measure", watcher)
    ]


def _trial(
    model: str, pinned: Built, candidate: Built, settings: Settings, sandbox: Sandbox, store: Store
) -> Trial:
    if pinned.wheel is None or candidate.wheel is None:
        return Trial(model, pinned, candidate, {})
    try:
        with store.scratch() as scratch:
            wheels = (pinned.wheel, candidate.wheel)
            cases = compare_wheels(wheels, settings, sandbox, scratch, pinned.needed)
    except ModelwheelError as error:
        return Trial(model, pinned, candidate, {}, str(error))
    slower = {case.rows: _ratio(case.cell("other_wheel")) for case in cases}
    return Trial(model, pinned, candidate, {rows: it for rows, it in slower.items() if it})


def _ratio(cell: Any) -> Spread | None:
    return None if cell is None else cell.ratio


def all_ratios(trials: Iterable[Trial]) -> list[float]:
    """How many times as long the candidate's wheels take: the median of each model and number of rows."""
    return [spread.median for trial in trials for spread in trial.slower.values()]
