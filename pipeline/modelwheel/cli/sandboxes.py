"""The option `--sandbox`, and the sandbox that a command uses."""

from __future__ import annotations

from typing import Annotated

import typer

from ..config import load_config
from ..sandbox.choose import Sandbox, choose_sandbox
from ..sandbox.policy import Limits, Policy

SandboxMode = Annotated[
    Policy | None,
    typer.Option(
        "--sandbox",
        metavar="required|preferred|off",
        help="Whether models must run in a sandbox; by default `sandbox.mode` in "
        "modelwheel.toml, else required (on Windows, which has none, preferred).",
    ),
]


def open_sandbox(mode: Policy | None) -> Sandbox:
    """The sandbox that an option asks for, else `modelwheel.toml`, with the limits there.

    Raises:
        UsageError: The file has mistakes.
        SandboxError: One is required and none works here.
    """
    rules = load_config().sandbox
    memory = None if rules.memory_gb is None else round(rules.memory_gb * 1e9)
    limits = Limits(
        wall_seconds=rules.seconds, reading_seconds=rules.reading_seconds, memory_bytes=memory
    )
    return choose_sandbox(mode or Policy(rules.mode), limits)
