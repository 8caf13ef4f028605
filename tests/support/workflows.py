"""The workflows as data, and the command lines in them with sample values.

Workflows call others and composite actions of this project: by `./`, or as the workflows that `modelwheel init` writes do, by
its name and a version. Both lead to the files here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))

EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")


@dataclass(frozen=True)
class Step:
    """A step that runs a command."""

    workflow: str
    job: str
    run: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the workflow, the job and the step put into it, expressions as they are written."""
    condition: str = ""
    """Its own `if`."""

    def argv(self, values: Mapping[str, str]) -> list[str]:
        """The command's words, as the shell makes them of these values of variables."""
        return [_expand(word, values) for word in shlex.split(self.run, posix=True)]

    def __str__(self) -> str:
        return f"{self.workflow}:{self.job}: {self.run}"


def read(path: Path) -> dict[str, Any]:
    """A workflow; YAML 1.1 takes its key `on` for a boolean."""
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in workflow.items()}


def steps_of(path: Path) -> Iterator[Step]:
    """All commands of a workflow or composite action, in the order in which they are written."""
    workflow = read(path)
    jobs = workflow.get("jobs") or {path.parent.name: workflow.get("runs", {})}
    for name, job in jobs.items():
        for step in job.get("steps", ()):
            if "run" in step:
                parts = (workflow.get("env"), job.get("env"), step.get("env"))
                environment = {
                    key: str(value) for part in parts for key, value in (part or {}).items()
                }
                condition = str(step.get("if", ""))
                file = path.name if "jobs" in workflow else path.parent.name
                yield Step(file, name, step["run"], environment, condition)


def steps_followed(path: Path) -> Iterator[Step]:
    """The same with those of the workflows of this project that it calls, each at its place."""
    yield from steps_of(path)
    for job in read(path)["jobs"].values():
        called = find_called(job.get("uses", ""))
        if called is not None:
            yield from steps_followed(called)


def find_called(use: str) -> Path | None:
    """The file here of what `uses` names; None for what is not of this project."""
    place = re.fullmatch(
        r"(?:\./(?:\.modelwheel/)?|modelwheel/modelwheel/)(\.github/[^@]+)(@.+)?", use
    )
    if place is None:
        return None
    path = ROOT / place[1]
    return path if path.suffix == ".yml" else path / "action.yml"


def uses_of(workflow: Mapping[str, Any]) -> Iterator[str]:
    """Every action and workflow that a workflow or composite action uses."""
    jobs = workflow.get("jobs") or {"": workflow.get("runs", {})}
    for job in jobs.values():
        if "uses" in job:
            yield job["uses"]
        yield from (step["uses"] for step in job.get("steps", ()) if "uses" in step)


def _expand(word: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], word)
