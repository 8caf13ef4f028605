"""Runs the test of a bundle: a C program that compares a model's library with recorded outputs."""

from __future__ import annotations

from pathlib import Path

from ..assembly.manifest import Manifest
from ..errors import VerifyError
from ..sandbox.choose import Sandbox
from ..sandbox.policy import Access, environment
from ..sandbox.run import run_sandboxed
from ..util.processes.process import ProcessError, signal_name
from ..util.text import safe_lines
from ..util.unfinished import temporary_directory
from .selftest import asked_for, replaced_in

_LINES = 20


def require_passing(
    program: Path, reference: Path, sandbox: Sandbox, name: str, manifest: Manifest
) -> None:
    """Runs the test in a sandbox.

    Args:
        program: The test.
        reference: The file that it reads.
        sandbox: Where it runs.
        name: The model, for messages.
        manifest: Of the library; names what may have changed outputs.

    Raises:
        VerifyError: The library crashed, or outputs differ by more than their tolerance.
    """
    with temporary_directory("run") as scratch:
        access = Access((program, reference), scratch)
        try:
            done = run_sandboxed(
                sandbox, [program, reference], access, sandbox.limits, environment({})
            )
        except ProcessError as error:
            raise VerifyError(f"the test of {name}: {error}") from None
    code = done.returncode
    if code == 0:
        return
    if code < 0:
        raise VerifyError(f"the test of {name} was killed by {signal_name(-code)}")
    lines = [line for line in done.text.splitlines() if line.endswith("  FAILED")]
    if not lines:
        message = safe_lines(done.stderr.decode(errors="replace").strip())
        raise VerifyError(f"the test of {name} failed: {message}")
    asked = asked_for(manifest.model.weights_storage, replaced_in(manifest))
    raise VerifyError(
        f"the library of {name} differs from the model by more than verify.tolerance allows"
        f"{'; ' if asked else ''}{asked}:\n" + safe_lines("\n".join(lines[:_LINES])),
        code="MW621",
    )
