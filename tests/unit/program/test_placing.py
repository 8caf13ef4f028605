"""Where the values of a program are: what each thunk reads is what it read where XLA had planned it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.ir.thunk_walk import accesses, read, slices, walk, written
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.placing import Lifetimes

TEMPORARY = Allocation(index=0, size=192, kind="temporary")
INPUT = Allocation(index=1, size=64, kind="parameter", parameter=0)


def _kernel(reads: Slice | Sequence[Slice], writes: Slice) -> p.Kernel:
    arguments = (reads,) if isinstance(reads, Slice) else tuple(reads)
    return p.Kernel(
        operations=0, symbol="k", workgroups=(1, 1, 1), arguments=arguments, results=(writes,)
    )


def _loop(*body: p.Thunk) -> p.While:
    return p.While(operations=0, trip_count=2, condition=(), condition_value=None, body=body)


def _part(allocation: int, offset: int, size: int = 64) -> Slice:
    return Slice(allocation=allocation, offset=offset, size=size)


X, A, B, C = _part(1, 0), _part(0, 0), _part(0, 64), _part(0, 128)


def _sequence(thunks: Sequence[p.Thunk]) -> Iterator[p.Thunk]:
    """The thunks as they run, with the turns of loops."""
    for thunk in thunks:
        if isinstance(thunk, p.While):
            for _ in range(thunk.trip_count or 0):
                yield from _sequence(thunk.body)
        else:
            yield thunk


def _seen(
    thunks: Sequence[p.Thunk],
    allocations: Sequence[Allocation],
    results: Sequence[Slice] = (),
    scratch: Sequence[Slice] = (),
) -> list[list[int]]:
    """The bytes that thunks read, and callers in the end: for each the number of the thunk that wrote it, or -1.

    With `scratch`, a part for each thunk, it or those inside it write something there before.
    """
    memory = {a.index: [-1] * a.size for a in allocations}

    def content(part: Slice) -> list[int]:
        return memory[part.allocation][part.offset : part.offset + part.size]

    def write(part: Slice, number: int) -> None:
        memory[part.allocation][part.offset : part.offset + part.size] = [number] * part.size

    seen, numbers = [], itertools.count()
    for time, outer in enumerate(thunks):
        for thunk in _sequence([outer]):
            for part in scratch[time : time + 1]:
                write(part, -2)
            seen += [content(part) for part in read(thunk)]
            number = next(numbers)
            for part in written(thunk):
                write(part, number)
    return [*seen, *map(content, results)]


def _placed(
    memory: Memory, thunks: tuple[p.Thunk, ...]
) -> tuple[tuple[p.Thunk, ...], tuple[Allocation, ...]]:
    """The thunks where their values have been placed, after a comparison of what they read."""
    separate = [
        *memory.allocations,
        *(
            Allocation(index=index, size=size, kind="temporary")
            for index, size in memory._sizes.items()
        ),
    ]
    placed, allocations = memory.place(thunks)
    assert _seen(placed, allocations, memory.results) == _seen(thunks, separate, memory.results)
    return placed, allocations


def test_values_get_memory_where_nothing_else_lives() -> None:
    memory = Memory([TEMPORARY, INPUT])
    own = memory.reserve(64)
    # When `own` is written, A is dead; B and C live.
    thunks = (
        _kernel(X, A),
        _kernel(A, B),
        _kernel(B, C),
        _kernel(C, own),
        _kernel(own, A),
        _kernel(B, C),
    )
    placed, allocations = _placed(memory, thunks)
    assert allocations == (TEMPORARY, INPUT)
    assert len({slices(one) for one in placed[2:4]}) == 2


def test_what_nobody_writes_any_more_needs_no_memory() -> None:
    memory = Memory([TEMPORARY.model_copy(update={"size": 4096}), INPUT])
    far = _part(0, 4000)
    _, allocations = _placed(memory, (_kernel(X, A), _kernel(A, far), _kernel(far, _part(0, 2000))))
    assert allocations[0].size <= 64 * 3


def test_what_loops_use_is_in_use_before_and_after() -> None:
    memory = Memory([TEMPORARY, INPUT])
    own = memory.reserve(64)
    thunks = (_kernel(X, own), _kernel(X, B), _loop(_kernel(B, A), _kernel(A, B)), _kernel(own, C))
    _, allocations = _placed(memory, thunks)
    assert allocations[0].size == 192


def test_results_stay_until_the_end() -> None:
    memory = Memory([TEMPORARY, INPUT], [A, B, C])
    own = memory.reserve(64)
    thunks = (_kernel(X, A), _kernel(X, B), _kernel(X, C), _kernel(X, own), _kernel(own, C))
    placed, allocations = _placed(memory, thunks)
    assert allocations[0].size == 256
    assert [written(one) for one in placed[:3]] == [(A,), (B,), (C,)]


def test_a_program_without_temporaries_gets_some() -> None:
    memory = Memory([Allocation(index=0, size=64, kind="parameter", parameter=0)])
    own = memory.reserve(64)
    thunks = (_kernel(_part(0, 0), own),)
    placed, allocations = memory.place(thunks)
    assert placed == thunks
    assert allocations[own.allocation] == Allocation(index=1, size=64, kind="temporary")


@st.composite
def _programs(draw: st.DrawFn) -> tuple[Memory, tuple[p.Thunk, ...]]:
    """A program whose values are where XLA might put them, or in allocations of their own."""
    count = draw(st.integers(2, 12))
    sizes = [64 * draw(st.integers(1, 4)) for _ in range(count)]
    # Until which thunk each value lives: it may be read there.
    ends = [draw(st.integers(number, count)) for number in range(count)]
    places: list[Slice] = []
    size = 64
    for number in range(count):
        taken = [places[n] for n in range(number) if ends[n] >= number]
        offset = 64 * draw(st.integers(0, 6))
        while any(offset < t.offset + t.size and t.offset < offset + sizes[number] for t in taken):
            offset += 64
        places.append(_part(0, offset, sizes[number]))
        size = max(size, offset + sizes[number])
    temporary = TEMPORARY.model_copy(update={"size": size})
    results = [places[number] for number in range(count) if ends[number] == count]
    memory = Memory([temporary, INPUT], results)
    for number in range(count):
        if ends[number] < count and draw(st.booleans()):
            places[number] = memory.reserve(sizes[number])
    thunks: list[p.Thunk] = []
    for number in range(count):
        alive = [places[n] for n in range(number) if ends[n] >= number]
        chosen = draw(st.lists(st.sampled_from([*alive, X]), min_size=1, max_size=3, unique=True))
        if draw(st.booleans()):  # only a part of the first
            chosen = [
                part.model_copy(update={"offset": part.offset + part.size - 32, "size": 32})
                if place == 0
                else part
                for place, part in enumerate(chosen)
            ]
        step = _kernel(chosen, places[number])
        thunks.append(_loop(step, step) if draw(st.integers(0, 4)) == 0 else step)
        if alive and draw(st.integers(0, 3)) == 0:  # an update in place
            thunks.append(_kernel([alive[-1], X], alive[-1]))
    return memory, tuple(thunks)


@given(_programs())
def test_every_thunk_reads_what_it_read_before(found: tuple[Memory, tuple[p.Thunk, ...]]) -> None:
    memory, thunks = found
    _, allocations = _placed(memory, thunks)
    # Never more than with allocations of their own behind those of XLA.
    assert allocations[0].size <= memory.allocations[0].size + sum(memory._sizes.values())


@given(_programs())
def test_nobody_reads_what_is_written_to_gaps(found: tuple[Memory, tuple[p.Thunk, ...]]) -> None:
    memory, thunks = found
    thunks, allocations = memory.place(thunks)
    lifetimes = Lifetimes(accesses(thunks), memory.results, TEMPORARY.index)
    _require_free(lifetimes, thunks, allocations, memory.results)


def _require_free(
    lifetimes: Lifetimes,
    thunks: Sequence[p.Thunk],
    allocations: Sequence[Allocation],
    results: Sequence[Slice],
) -> None:
    """Whoever writes to the rooms changes nothing."""
    free = lifetimes.rooms()
    assert len(free) == len(thunks)
    end = allocations[0].size
    behind = [_part(0, room.behind, max(end - room.behind, 0)) for room in free]
    gaps = [_part(0, room.gap.start, len(room.gap)) for room in free]
    before = _seen(thunks, allocations, results)
    for parts in (gaps, behind):
        assert _seen(thunks, allocations, results, parts) == before


def _moved(thunk: p.Thunk, places: Mapping[Slice, Slice]) -> p.Thunk:
    """The thunk with other slices."""
    if isinstance(thunk, p.While):
        return thunk.model_copy(update={"body": tuple(_moved(one, places) for one in thunk.body)})
    assert isinstance(thunk, p.Kernel)
    both = {name: getattr(thunk, name) for name in ("arguments", "results")}
    moved = {name: tuple(places.get(part, part) for part in parts) for name, parts in both.items()}
    return thunk.model_copy(update=moved)


@given(_programs(), st.data())
def test_what_is_reserved_is_beside_all_that_lives(
    found: tuple[Memory, tuple[p.Thunk, ...]], data: st.DataObject
) -> None:
    memory, thunks = found
    thunks, allocations = memory.place(thunks)
    # An output: from some thunk to the end it has memory of its own, or that of temporaries.
    output = Allocation(index=len(allocations), size=128, kind="output")
    own = _part(output.index, 0, output.size)
    first = data.draw(st.integers(0, len(thunks)))
    thunks = (*thunks[:first], _kernel(X, own), *thunks[first:])
    allocations, results = (*allocations, output), [*memory.results, own]
    lifetimes = Lifetimes(accesses(thunks), results, TEMPORARY.index)
    inputs = [
        time for time, one in enumerate(thunks) if X in {s for t in walk((one,)) for s in slices(t)}
    ]
    places = {
        X: _part(0, lifetimes.reserve(0, max(inputs), X.size), X.size),
        own: _part(0, lifetimes.reserve(first, lifetimes.end, own.size), own.size),
    }
    before = _seen(thunks, allocations, results)
    size = max(allocations[0].size, lifetimes.size)
    allocations = (allocations[0].model_copy(update={"size": size}), *allocations[1:])
    thunks = tuple(_moved(one, places) for one in thunks)
    results = [places.get(result, result) for result in results]
    assert _seen(thunks, allocations, results) == before
    _require_free(lifetimes, thunks, allocations, results)


def test_a_gap_is_the_largest_one() -> None:
    far = _part(0, 1024)
    thunks = (_kernel(X, A), _kernel(X, far), _kernel((A, far), C))
    free = Lifetimes(accesses(thunks), (), TEMPORARY.index).rooms()
    assert [room.gap for room in free] == [range(0), range(64, 1024), range(192, 1024)]
    assert [room.behind for room in free] == [64, 1088, 1088]


def test_walk_finds_what_the_test_runs() -> None:
    step = _kernel(A, B)
    assert list(_sequence((_loop(step),))) == [step, step]
    assert list(walk((_loop(step),)))[1:] == [step]
