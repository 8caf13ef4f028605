"""Plans where every allocation of a program is in memory at run time.

XLA assigns all values of a program to a set of allocations (xla/service/buffer_assignment.h). Parameters
and outputs are the caller's buffers where possible, constants are in the weights, and all others have fixed
offsets in the arena of an instance:

    random states | temporaries | staging of inputs | staging of outputs | scratch of kernels
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..compiler.arrays import Allocation, Slice
from ..compiler.placing import gaps
from ..compiler.program import Program
from ..compiler.walk import slices, used_allocations, walk
from ..errors import UnsupportedProgramError
from .constants import ALIGNMENT

RANDOM_STATE_BYTES = 16
"""The state of XLA's generator has 128 bits (xla/backends/cpu/runtime/rng_state_lib.h)."""


@dataclass(frozen=True)
class ResultCopy:
    """A result that the program does not write where it belongs itself."""

    target: str
    """A C++ expression for where it belongs."""
    allocation: int
    offset: int
    size: int


@dataclass(frozen=True)
class Memory:
    """The memory plan of one variant."""

    pointers: Mapping[int, str]
    """C++ expressions for the addresses of the allocations in use, by index."""
    result_copies: tuple[ResultCopy, ...]
    """Copies to make after the last thunk."""
    input_staging: tuple[int | str, ...]
    """Offsets in the arena for copies of inputs whose buffers are not aligned, or `IGNORED`."""
    output_staging: tuple[int, ...]
    """The same for outputs."""
    gaps: tuple[Slice | None, ...]
    """For each thunk, a part of the temporaries that holds nothing while it runs: there its scratch memory may be."""
    scratch: int
    """The offset of the kernels' scratch memory that fits no gap, the last part of the arena."""


IGNORED = "ignored_input"
"""The C++ constant in place of the staging of an input that the program does not take."""


def plan_memory(
    program: Program,
    constants: Mapping[str, int],
    random_states: int,
    inputs: Sequence[bool] | None = None,
) -> Memory:
    """Plans the memory of a program.

    Args:
        program: The program of one variant.
        constants: Offsets in the weights by SHA-256.
        random_states: The number of random states at the start of the arena. All variants of a
            model have the same number.
        inputs: For each input of the interface, whether the program takes it; by default all.
    """
    taken = [True] * len(program.inputs) if inputs is None else inputs
    positions = [position for position, is_taken in enumerate(taken) if is_taken]
    # In the runtime's list the state follows all inputs of the interface.
    positions += range(len(taken), len(taken) + len(program.state))
    # The order of these calls is the layout in the docstring of this module. The runtime relies on it only
    # for the random states, which are at the start of the arena (seed_random_states in model.cpp).
    arena = _Arena()
    arena.reserve(random_states * RANDOM_STATE_BYTES)
    direct = _direct_outputs(program)
    used = used_allocations(program)
    ends = _ends(program)
    pointers = {}
    for allocation in program.allocations:
        if allocation.index not in used:
            continue
        # An empty constant has no content, hence no hash; it gets an address in the arena, which is never read.
        if allocation.kind == "parameter":
            number = _number(allocation)
            # Of the state the runtime passes a copy, which the program may overwrite.
            role = "input" if number < len(program.inputs) else "state"
            pointers[allocation.index] = f"{role}(in[{positions[number]}])"
        elif allocation.kind == "constant" and allocation.sha256:
            pointers[allocation.index] = f"constant({constants[allocation.sha256]})"
        elif allocation.index in direct:
            # XLA also uses it as scratch memory: the result is complete only at the end.
            pointers[allocation.index] = f"output(out[{direct[allocation.index]}])"
        else:
            # Also tables of tuples and thread-local memory, where a thunk names them. No two
            # allocations share memory: XLA has already merged those that may.
            pointers[allocation.index] = f"arena + {arena.reserve(ends[allocation.index])}"
    return Memory(
        pointers=pointers,
        result_copies=_result_copies(program, direct, positions),
        input_staging=_reserve_inputs(arena, program, taken),
        output_staging=tuple(arena.reserve(array.slice.size) for array in program.outputs),
        gaps=_gaps(program, used & ends.keys()),
        scratch=arena.reserve(0),
    )


_SMALLEST_GAP = 4096
"""Bytes of a gap that is worth naming."""


def _gaps(program: Program, used: Collection[int]) -> tuple[Slice | None, ...]:
    temporaries = [a for a in program.allocations if a.kind == "temporary" and a.index in used]
    if not temporaries:
        return (None,) * len(program.thunks)
    largest = max(temporaries, key=lambda a: a.size)
    found = gaps(program.thunks, [result.slice for result in program.results], largest.index)
    return tuple(gap if gap.size >= _SMALLEST_GAP else None for gap in found)


def _ends(program: Program) -> dict[int, int]:
    """Where the last part of each allocation ends that is used: strips do not need all that XLA planned."""
    ends: dict[int, int] = {}
    parts = [part for thunk in walk(program.thunks) for part in slices(thunk)]
    for part in [*parts, *(result.slice for result in program.results)]:
        ends[part.allocation] = max(ends.get(part.allocation, 0), part.offset + part.size)
    return ends


def _number(allocation: Allocation) -> int:
    assert allocation.parameter is not None
    return allocation.parameter


def _reserve_inputs(
    arena: _Arena, program: Program, taken: Sequence[bool]
) -> tuple[int | str, ...]:
    sizes = iter(array.slice.size for array in program.inputs)
    return tuple(arena.reserve(next(sizes)) if is_taken else IGNORED for is_taken in taken)


class _Arena:
    """Reserves aligned memory, one piece after the other."""

    def __init__(self) -> None:
        self._end = 0

    def reserve(self, size: int) -> int:
        start = -(-self._end // ALIGNMENT) * ALIGNMENT  # rounded up
        self._end = start + size
        return start


def _direct_outputs(program: Program) -> dict[int, int]:
    """The numbers of outputs by allocation, for results that are alone in an output allocation and fill it."""
    # XLA may let two results share an allocation, or return a parameter: then only a copy can fill the
    # caller's buffers.
    owners = Counter(result.slice.allocation for result in program.results)
    return {
        result.slice.allocation: number
        for number, result in enumerate(program.outputs)
        if _fills(
            result.slice.size, result.slice.offset, program.allocations[result.slice.allocation]
        )
        and owners[result.slice.allocation] == 1
    }


def _fills(size: int, offset: int, allocation: Allocation) -> bool:
    return allocation.kind == "output" and offset == 0 and size == allocation.size


def _result_copies(
    program: Program, direct: Mapping[int, int], positions: Sequence[int]
) -> tuple[ResultCopy, ...]:
    outputs = [
        ResultCopy(
            f"out[{number}]", result.slice.allocation, result.slice.offset, result.slice.size
        )
        for number, result in enumerate(program.outputs)
        if direct.get(result.slice.allocation) != number and result.slice.size
    ]
    # After the outputs: one of them may be a value of the state before the call.
    return (*outputs, *_state_copies(program, positions))


def _state_copies(program: Program, positions: Sequence[int]) -> Iterator[ResultCopy]:
    for number, update in program.moved_updates():
        where = program.results[update].slice
        allocation = program.allocations[where.allocation]
        if allocation.kind == "parameter" and (allocation.parameter or 0) >= len(program.inputs):
            # XLA copies such values itself; after the first copy it would be too late.
            raise UnsupportedProgramError(
                f"result {update} is in the memory of another part of the state, which is not supported"
            )
        if where.size:
            target = f"state(in[{positions[number]}])"
            yield ResultCopy(target, where.allocation, where.offset, where.size)
