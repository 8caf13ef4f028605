"""The option `--sandbox`, and the sandbox that a command uses."""

from __future__ import annotations

from typing import Annotated

import typer

from ..api.settings import open_sandbox
from ..sandbox.policy import Policy

__all__ = ["SandboxMode", "open_sandbox"]

SandboxMode = Annotated[
    Policy | None,
    typer.Option(
        "--sandbox",
        metavar="required|preferred|off",
        help="Whether models must run in a sandbox; by default `sandbox.mode` in "
        "modelwheel.toml, else required (on Windows, which has none, preferred).",
    ),
]
