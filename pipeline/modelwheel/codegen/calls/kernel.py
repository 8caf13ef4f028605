"""Compiled functions of the object file."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Kernel
from ...program.steps import Step
from ..cpp import braces, pointer
from ..writer import StepWriter


def write(_: StepWriter, step: Step, op: Kernel) -> Iterator[str]:
    """A call with the address and the bytes of each argument, then of each result."""
    views = [*step.inputs_of("argument"), *step.outputs_of("result")]
    arguments = ", ".join(f"{{{pointer(view.slice)}, {view.slice.size}}}" for view in views)
    # XLA divides large kernels into work groups for its thread pool; here they run one after the other.
    groups = "" if op.workgroups == (1, 1, 1) else f", {braces(op.workgroups)}"
    yield f"if (!call({op.symbol}, {{{arguments}}}{groups})) return false;"
