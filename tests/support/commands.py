"""The command `modelwheel` as tests call it: in a process of its own, with a store of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from modelwheel.cli import app
from tests.support import preloaded

COMMAND = (sys.executable, "-m", "modelwheel")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


def run(*command: str | Path, code: int = 0, umask: int = -1, **environment: str) -> Done:
    """Runs a program; it must end with this exit code."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        umask=umask,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Done(done.returncode, done.stdout, done.stderr)


preload = False
"""Whether commands run in forks of a process that has loaded their modules; what collects tests sets it."""


def _run_preloaded(*arguments: str, code: int, umask: int, **environment: str) -> Done:
    done = Done(*preloaded.run("modelwheel", arguments, {**os.environ, **environment}, umask))
    assert done.code == code, f"exit code {done.code}\n{done.out}\n{done.err}"
    return done


@dataclass(frozen=True)
class Modelwheel:
    """`modelwheel` with its store in `cache`."""

    cache: Path
    prefix: tuple[str, ...] = ()
    """A command that runs it."""

    def __call__(
        self, *arguments: str | Path, code: int = 0, umask: int = -1, **environment: str
    ) -> Done:
        """Runs one command; its user never sees a traceback."""
        cache = {"MODELWHEEL_CACHE_DIR": str(self.cache)}
        variables = {**cache, **environment}
        if preload and preloaded.AVAILABLE and not self.prefix:
            done = _run_preloaded(*map(str, arguments), code=code, umask=umask, **variables)
        else:
            done = run(*self.prefix, *COMMAND, *arguments, code=code, umask=umask, **variables)
        assert "Traceback" not in done.err
        return done

    def build(self, *arguments: str | Path, **changes: Any) -> list[dict[str, Any]]:
        """Builds specs; what became of each."""
        results: list[dict[str, Any]] = self("build", "--json", *arguments, **changes).json
        return results

    def plan(self, spec: Path, *options: str) -> dict[str, str]:
        """The state of every step of a spec, `cached` or `run`, by the last parts of its name."""
        steps = self("plan", "--json", spec, *options).json
        return {step["name"].partition("/")[2]: step["state"] for step in steps}

    def missing(self, spec: Path, *options: str) -> list[str]:
        """The steps of a spec that would run."""
        return [name for name, state in self.plan(spec, *options).items() if state == "run"]


TINY_SPEC = """\
model: {name: tiny, version: "1.0.0"}
source: {directory: model}
targets: [x86-64, x86-64-v3, armv8-a]
compilation: {batch_sizes: [1, 4]}
"""


def write_tiny_spec(directory: Path) -> Path:
    """Writes `TINY_SPEC`, and beside it a directory that only looks like a model."""
    (directory / "model").mkdir()
    (directory / "model" / "saved_model.pb").write_bytes(b"graph")
    path = directory / "tiny.yaml"
    path.write_text(TINY_SPEC)
    return path


GROUP: Any = typer.main.get_command(app)
"""The command line, as its parser has it."""


def parse(arguments: list[str]) -> None:
    """Has the command line parsed as if it were run, and runs nothing."""
    with GROUP.make_context("modelwheel", list(arguments)) as context:
        _parse(GROUP, context, arguments)


def _parse(group: Any, context: Any, arguments: list[str]) -> None:
    name, command, rest = group.resolve_command(context, arguments)
    with command.make_context(name, list(rest), parent=context) as inner:
        if hasattr(command, "commands"):
            left = [*inner._protected_args, *inner.args]
            if left or not command.invoke_without_command:
                _parse(command, inner, left)
