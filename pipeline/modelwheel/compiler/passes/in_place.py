"""Writes results over the residuals that are added to them, where nobody reads these any more.

A large result is then read and written once where it would be read, fetched elsewhere and written. XLA does not do
so: what the next steps read it has planned as another value. The sums that a product collects before that need no memory
of their own either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...program.arrays import Slice, overlap
from ...thresholds import WIDEST_LANES
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory, moved_readers, writing_to
from ..ir.emitted.thunk_walk import read, slices, walk, written
from .epilogues import columns_of

_COLUMNS = WIDEST_LANES
"""Results with a multiple of it have whole vectors at each level, so that each element is finished once."""

_SMALLEST = 64 * 1024
"""Bytes. Smaller results stay in the cache wherever they are."""


def write_over_addends(thunks: Sequence[p.Thunk], memory: Memory) -> tuple[p.Thunk, ...]:
    """The outer thunks of a program, some of whose results are elsewhere."""
    changed = list(thunks)
    for position in range(len(changed)):
        thunk = changed[position]
        if not isinstance(thunk, p.Dot) or thunk.epilogue is None:
            continue
        addend, result = thunk.epilogue.addend, thunk.epilogue.result
        if addend is None or addend == result or not _suits(thunk, addend, memory):
            continue
        moved = _with_result(changed, position, result, addend)
        if moved is None:
            moved = _with_moved_addend(changed, position, addend, result, memory)
        changed = moved or changed
    return tuple(changed)


def sum_in_results(thunks: Sequence[p.Thunk]) -> tuple[p.Thunk, ...]:
    """The outer thunks of a program, whose products have their sums where their results will be.

    What is added to the result of a dot may be there too: where the kernel stores sums at all, it takes scratch memory.
    """
    return tuple(map(_with_sums, thunks))


def _with_sums(thunk: p.Thunk) -> p.Thunk:
    if not isinstance(thunk, p.Dot | p.Convolution) or thunk.epilogue is None:
        return thunk
    result, others = thunk.epilogue.result, list(read(thunk))
    if isinstance(thunk, p.Dot) and thunk.epilogue.addend == result:
        others.remove(result)
    if any(overlap(part, result) for part in others):
        return thunk
    name = "out" if isinstance(thunk, p.Dot) else "output"
    sums = thunk.arrays[-1].model_copy(update={"slice": result})
    return thunk.model_copy(update={name: sums})


def _suits(dot: p.Dot, addend: Slice, memory: Memory) -> bool:
    """Whether a product finishes each element once, and reads its addend for nothing else."""
    epilogue = dot.epilogue
    assert epilogue is not None
    others = [part for part in read(dot) if part != addend]
    return (
        columns_of(dot)[1] % _COLUMNS == 0
        and epilogue.result.size >= _SMALLEST
        and memory.may_move(epilogue.result)
        and memory.may_move(addend)
        and read(dot).count(addend) == 1
        and not any(overlap(part, addend) for part in [*others, dot.out.slice])
    )


def _with_result(
    thunks: Sequence[p.Thunk], position: int, result: Slice, place: Slice
) -> list[p.Thunk] | None:
    """The thunks with a result at the place of the addend; None if anybody uses that while the result is read."""
    readers = moved_readers(thunks, position, result, place)
    if readers is None:
        return None
    last = max(readers, default=position)
    for number, thunk in enumerate(thunks[position + 1 :], position + 1):
        nested = len(list(walk((thunk,)))) > 1
        for part in _used(thunk) if number <= last or nested else read(thunk):
            if overlap(part, place):
                return None
        if any(place == part for part in written(thunk)):
            break
    changed = list(thunks)
    for number, thunk in readers.items():
        changed[number] = thunk
    changed[position] = writing_to(thunks[position], place)
    return changed


def _with_moved_addend(
    thunks: Sequence[p.Thunk], position: int, addend: Slice, result: Slice, memory: Memory
) -> list[p.Thunk] | None:
    """The thunks with the addend of one in memory of its own, where products have written it."""
    if memory.is_own(addend):
        return None
    own = memory.reserve(addend.size)
    changed = list(thunks)
    for start in reversed(range(position)):
        thunk = changed[start]
        if not any(overlap(part, addend) for part in written(thunk)):
            continue
        readers = moved_readers(changed, start, addend, own)
        finished = isinstance(thunk, p.Dot | p.Convolution) and thunk.epilogue is not None
        if readers is None or not finished or written(thunk)[-1] != addend:
            return None
        for number, reader in readers.items():
            changed[number] = reader
        changed[start] = writing_to(thunk, own)
        # What it has replaced itself moves with it.
        if addend not in read(thunk):
            return _with_result(changed, position, result, own)
    return None


def _used(thunk: p.Thunk) -> Iterable[Slice]:
    return (part for one in walk((thunk,)) for part in slices(one))
