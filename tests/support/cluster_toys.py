"""Toy steps for clusters: what a step does is text, so that workers in other processes can do it; each run is counted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelwheel.engine.steps.base import LocalStep, Records, Workspace
from modelwheel.errors import CompileError
from modelwheel.store.store import Store
from modelwheel.util.processes.process import run


@dataclass(frozen=True)
class ClusterToy(LocalStep):
    """A step whose result is the text of its own name and of the results that it needs."""

    label: str
    after: tuple[str, ...]
    diary: Path
    """A directory where each run leaves a line in the file of the step."""
    does: str = ""
    kind = "toy"
    vital = False

    @property
    def name(self) -> str:
        return self.label

    @property
    def needs(self) -> tuple[str, ...]:
        return self.after

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        needs = {name: records[name].files["text"].sha256 for name in self.after}
        return {"label": self.label, "needs": needs}

    def run(self, workspace: Workspace, out: Path) -> None:
        note(self.diary, self.label, "began")
        word, _, rest = self.does.partition(" ")
        if word:
            _ACTIONS[word](self, rest)
        read = (workspace.store.read_bytes(workspace.records[name], "text") for name in self.after)
        (out / "text").write_text(f"{self.label}({', '.join(part.decode() for part in read)})")
        note(self.diary, self.label, "ended")


@dataclass(frozen=True)
class VitalToy(ClusterToy):
    """One that everything needs."""

    vital = True


def note(diary: Path, label: str, word: str) -> None:
    """Adds a line, with the process that writes it, which survives a kill right afterwards."""
    with (diary / label.replace("/", "-")).open("a") as file:
        file.write(f"{word} {os.getpid()}\n")


def noted(diary: Path, label: str, word: str = "began") -> list[int]:
    """The processes that wrote such a line."""
    path = diary / label.replace("/", "-")
    lines = path.read_text().splitlines() if path.exists() else []
    return [int(line.split()[1]) for line in lines if line.split()[0] == word]


def _die(step: ClusterToy, times: str) -> None:
    """Kills its own process, so many times or always."""
    if not times or len(noted(step.diary, step.label)) <= int(times):
        os.kill(os.getpid(), signal.SIGKILL)


def _kill(step: ClusterToy, label: str) -> None:
    """Kills the process that has run another step, which may be its own; once."""
    if len(noted(step.diary, step.label)) == 1:
        os.kill(noted(step.diary, label, "ended")[-1], signal.SIGKILL)


def _wait(step: ClusterToy, name: str) -> None:
    while not (step.diary / name).exists():
        time.sleep(0.02)


def _fail(_: ClusterToy, message: str) -> None:
    raise CompileError(message)


def _crash(_: ClusterToy, message: str) -> None:
    raise KeyError(message)


def _program(step: ClusterToy, seconds: str) -> None:
    pid = step.diary / f"{step.label}.pid"
    run(["sh", "-c", f"echo $$ > '{pid}'; exec sleep {seconds}"])


_ACTIONS: dict[str, Callable[[ClusterToy, str], None]] = {
    "die": _die,
    "kill": _kill,
    "wait": _wait,
    "fail": _fail,
    "crash": _crash,
    "program": _program,
    "sleep": lambda _, seconds: time.sleep(float(seconds)),
}


def chain(diary: Path, name: str, length: int, does: str = "") -> Sequence[ClusterToy]:
    """Steps of which each needs the one before."""
    names = [f"{name}/{number}" for number in range(length)]
    return [
        ClusterToy(label, (names[number - 1],) if number else (), diary, does)
        for number, label in enumerate(names)
    ]
