"""Plans where every allocation of a program is in memory at run time.

XLA assigns all values of a program to a set of allocations (xla/service/buffer_assignment.h). Parameters
and outputs are the caller's buffers where possible, constants are in the weights, and all others have fixed
offsets in the arena of an instance:

    random states | temporaries, the largest last, with staging of inputs and outputs | scratch of kernels

Staging is where nothing lives while an input is read or an output written. Scratch memory begins where the values end
that live while a kernel runs, or is in a gap between them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import UnsupportedProgramError
from ..program.arrays import ALIGNMENT, Allocation
from ..program.placing import Lifetimes
from ..program.program import Program
from ..program.walk import accesses, slices, walk

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
class ScratchPlace:
    """Where the scratch memory of a step may be, in bytes of the arena."""

    offset: int = 0
    """From here on there is nothing that lives while the step runs."""
    gap: range | None = None
    """A larger free part of the arena, between values."""


@dataclass(frozen=True)
class Memory:
    """The memory plan of one variant."""

    pointers: Mapping[int, str]
    """C++ expressions for the addresses of the allocations in use, by index."""
    result_copies: tuple[ResultCopy, ...]
    """Copies to make after the last step."""
    input_staging: tuple[int | str, ...]
    """Offsets in the arena for copies of inputs whose buffers are not aligned, or `IGNORED`."""
    output_staging: tuple[int, ...]
    """Offsets in the arena for outputs whose buffers are not aligned."""
    scratch: tuple[ScratchPlace, ...]
    """For each step."""
    end: int
    """Bytes of the arena without scratch memory."""


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
    ends = _ends(program)
    used = program.used_allocations
    pointers = _pointers(program, used, constants, positions, direct)
    # Also tables of tuples and thread-local memory, where a step names them. No two allocations share memory: XLA has
    # already merged those that may.
    in_arena = sorted(used - pointers.keys(), key=lambda index: (ends[index], index))
    offsets = {index: arena.reserve(ends[index]) for index in in_arena}
    pointers |= {index: f"arena + {offset}" for index, offset in offsets.items()}
    *_, (last, start) = ((_NONE, arena.reserve(0)), *offsets.items())
    results = [result.slice for result in program.results]
    lifetimes = Lifetimes(accesses(program.steps), results, last)
    times = _times(program)
    input_staging = _stage_inputs(program, taken, times, lifetimes, start)
    output_staging = _stage_outputs(program, direct, times, lifetimes, start)
    end = start + lifetimes.size
    return Memory(
        pointers=dict(sorted(pointers.items())),
        result_copies=_result_copies(program, direct, positions),
        input_staging=input_staging,
        output_staging=output_staging,
        scratch=tuple(_scratch(lifetimes, start)),
        end=-(-end // ALIGNMENT) * ALIGNMENT,
    )


_NONE = -1
"""The number of no allocation."""


def _pointers(
    program: Program,
    used: Collection[int],
    constants: Mapping[str, int],
    positions: Sequence[int],
    direct: Mapping[int, int],
) -> dict[int, str]:
    """C++ expressions for the allocations in use that are not in the arena."""
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
    return pointers


def _times(program: Program) -> dict[int, list[int]]:
    """When each allocation is used: the numbers of the steps, and of one after all others for results."""
    times: dict[int, list[int]] = defaultdict(list)
    for time, step in enumerate(program.steps):
        for part in (part for inner in walk((step,)) for part in slices(inner)):
            times[part.allocation].append(time)
    for result in program.results:
        times[result.slice.allocation].append(len(program.steps))
    return times


def _stage_inputs(
    program: Program,
    taken: Sequence[bool],
    times: Mapping[int, Sequence[int]],
    lifetimes: Lifetimes,
    start: int,
) -> tuple[int | str, ...]:
    """Places for inputs, from the first step to the last that reads them."""
    inputs = iter(program.inputs)
    staging: list[int | str] = [IGNORED] * len(taken)
    for number, is_taken in enumerate(taken):
        if is_taken:
            part = next(inputs).slice
            last = max(times.get(part.allocation, ()), default=0)
            staging[number] = start + lifetimes.reserve(0, last, part.size)
    return tuple(staging)


def _stage_outputs(
    program: Program,
    direct: Mapping[int, int],
    times: Mapping[int, Sequence[int]],
    lifetimes: Lifetimes,
    start: int,
) -> tuple[int, ...]:
    """Places for outputs, from the first step that writes them to the end; those that are copied need it only then."""
    staging = []
    for number, array in enumerate(program.outputs):
        part = array.slice
        is_direct = direct.get(part.allocation) == number
        first = min(times[part.allocation]) if is_direct else lifetimes.end
        staging.append(start + lifetimes.reserve(first, lifetimes.end, part.size))
    return tuple(staging)


_SMALLEST_GAP = 4096
"""Bytes of a gap that is worth naming."""


def _scratch(lifetimes: Lifetimes, start: int) -> Iterator[ScratchPlace]:
    """For each step. The values whose lifetimes these are begin at `start`, and nothing else is behind them."""
    size = lifetimes.size
    for room in lifetimes.rooms():
        gap = range(start + room.gap.start, start + room.gap.stop)
        worth = len(gap) >= max(_SMALLEST_GAP, size - room.behind)
        yield ScratchPlace(start + room.behind, gap if worth else None)


def _ends(program: Program) -> dict[int, int]:
    """Where the last part of each allocation ends that is used: strips do not need all that XLA planned."""
    ends: dict[int, int] = {}
    parts = [part.whole for step in walk(program.steps) for part in slices(step)]
    for part in [*parts, *(result.slice for result in program.results)]:
        ends[part.allocation] = max(ends.get(part.allocation, 0), part.offset + part.size)
    return ends


def _number(allocation: Allocation) -> int:
    assert allocation.parameter is not None
    return allocation.parameter


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
