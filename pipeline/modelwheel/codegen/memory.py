"""Where every allocation of a program lies at run time.

Parameters and outputs are the caller's buffers where that is possible, constants lie in the weights,
and the rest gets a fixed place in the instance's arena:

    random states | temporaries | staging of inputs | staging of outputs | scratch of kernels
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..compiler.program import Allocation, Program
from .constants import ALIGNMENT, used_allocations

RANDOM_STATE_BYTES = 16


@dataclass(frozen=True)
class ResultCopy:
    """A result that XLA leaves elsewhere than in the caller's buffer."""

    output: int
    allocation: int
    offset: int
    size: int


@dataclass(frozen=True)
class Memory:
    """The memory of one variant."""

    pointers: Mapping[int, str]
    """C++ expression for the start of each allocation that is used, by its index."""
    result_copies: tuple[ResultCopy, ...]
    """To be made after the last step."""
    input_staging: tuple[int, ...]
    output_staging: tuple[int, ...]
    scratch: int
    """Offset in the arena of the kernels' scratch, which ends the arena."""


def plan_memory(program: Program, constants: Mapping[str, int], random_states: int) -> Memory:
    """Gives every allocation its place.

    Args:
        program: The program of one variant.
        constants: Offset among the weights by SHA-256.
        random_states: Number of random states at the head of the arena.
    """
    arena = _Arena()
    arena.reserve(random_states * RANDOM_STATE_BYTES)
    direct = _direct_outputs(program)
    used = used_allocations(program)
    pointers = {}
    for allocation in program.allocations:
        if allocation.index not in used:
            continue
        if allocation.kind == "parameter":
            pointers[allocation.index] = f"input(in[{allocation.parameter}])"
        elif allocation.kind == "constant" and allocation.sha256:
            pointers[allocation.index] = f"constant({constants[allocation.sha256]})"
        elif allocation.index in direct:
            pointers[allocation.index] = f"output(out[{direct[allocation.index]}])"
        else:
            pointers[allocation.index] = f"arena + {arena.reserve(allocation.size)}"
    return Memory(
        pointers=pointers,
        result_copies=_result_copies(program, direct),
        input_staging=tuple(arena.reserve(array.slice.size) for array in program.parameters),
        output_staging=tuple(arena.reserve(array.slice.size) for array in program.results),
        scratch=arena.reserve(0),
    )


class _Arena:
    """Hands out aligned places one after the other."""

    def __init__(self) -> None:
        self._end = 0

    def reserve(self, size: int) -> int:
        start = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = start + size
        return start


def _direct_outputs(program: Program) -> dict[int, int]:
    """Output number by allocation, for results that fill an output allocation of their own."""
    owners = Counter(result.slice.allocation for result in program.results)
    return {
        result.slice.allocation: number
        for number, result in enumerate(program.results)
        if _fills(
            result.slice.size, result.slice.offset, program.allocations[result.slice.allocation]
        )
        and owners[result.slice.allocation] == 1
    }


def _fills(size: int, offset: int, allocation: Allocation) -> bool:
    return allocation.kind == "output" and offset == 0 and size == allocation.size


def _result_copies(program: Program, direct: Mapping[int, int]) -> tuple[ResultCopy, ...]:
    return tuple(
        ResultCopy(number, result.slice.allocation, result.slice.offset, result.slice.size)
        for number, result in enumerate(program.results)
        if direct.get(result.slice.allocation) != number and result.slice.size
    )
