"""Makes kernels part of steps of attention."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.emitted.memory import Memory
from ..ir.hlo import Module
from .attention import join_attention
from .epilogues import Emitted, Steps


def join_steps(hlo: Module, emitted: Sequence[Emitted], memory: Memory) -> list[Emitted]:
    """The thunks of a program, with those left out that steps of attention can do the work of.

    Args:
        hlo: The module.
        emitted: The thunks; they are changed.
        memory: That of the program.
    """
    steps = Steps(hlo, list(emitted), memory)
    for candidate in emitted:
        join_attention(steps, candidate, memory)
    return steps.all
