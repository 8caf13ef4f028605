"""Runs the commands of workflows as GitHub's runner does: in a checkout, with files for outputs and summaries."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.support.commands import Done, run
from tests.support.workflows import Step


class Runner:
    """A checkout in which jobs are run as on a machine of GitHub's."""

    def __init__(
        self,
        checkout: Path,
        cache: Path,
        scratch: Path,
        tools: Path = Path(sys.executable).parent,
    ) -> None:
        self.checkout = checkout
        self.files = {name: scratch / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self.path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        self._environment = {
            "PATH": self.path,
            "MODELWHEEL_CACHE_DIR": str(cache),
            **{name: str(path) for name, path in self.files.items()},
        }

    def do(self, step: Step, values: Mapping[str, str], code: int = 0) -> Done:
        """Runs a step; variables that are not given are what the workflow says without expressions."""
        given = {name: value for name, value in step.environment.items() if "${{" not in value}
        environment: dict[str, Any] = {**self._environment, **given, **values}
        assert set(step.environment) <= set(environment)
        line = f"cd '{self.checkout}'\nset -eo pipefail\n{step.run}"
        return run("bash", "--noprofile", "--norc", "-c", line, code=code, **environment)

    def outputs(self) -> dict[str, str]:
        """What steps have handed on since the last call; GitHub gives each step a file of its own."""
        file = self.files["GITHUB_OUTPUT"]
        lines = iter(file.read_text().splitlines() if file.exists() else ())
        found = {}
        for line in lines:
            name, equals, value = line.partition("=")
            if not equals:
                name, _, end = line.partition("<<")
                value = "\n".join(takewhile(end.__ne__, lines))
            found[name] = value
        file.write_text("")
        return found
