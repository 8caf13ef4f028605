"""Makes kernels part of the products and convolutions before them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.emitted.memory import Memory
from ..ir.hlo import Module
from .attention import join_attention
from .concatenations import join_concatenation, write_at_once
from .epilogues import Emitted, Steps


def join_epilogues(
    hlo: Module, emitted: Sequence[Emitted], memory: Memory | None = None
) -> list[Emitted]:
    """The thunks of a sequence, with kernels left out that other thunks can do the work of.

    Args:
        hlo: The module.
        emitted: The thunks; they are changed.
        memory: That of the program, if these are its outer thunks. Values may move then.
    """
    steps = Steps(hlo, list(emitted), memory)
    if memory is not None:
        for candidate in emitted:
            join_attention(steps, candidate, memory)
    # What a later kernel takes from memory, it does not compute from a product any more.
    for candidate in reversed(list(steps.all)):
        joined = steps.join(candidate) or steps.join_scaling(candidate)
        if memory is not None and not joined:
            join_concatenation(steps, candidate, memory)
    write_at_once(steps)
    return steps.all
