"""Where the values of a program are: what each step reads is what it read where XLA had planned it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from modelwheel.compiler.passes import optimise
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.ops import While
from modelwheel.program.placing import Lifetimes
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from modelwheel.program.walk import accesses, reads, slices, walk, writes
from tests.support.programs import kernel, loop

TEMPORARY = Allocation(index=0, size=192, kind="temporary")
INPUT = Allocation(index=1, size=64, kind="parameter", parameter=0)


@dataclass
class _Memory:
    """Allocations, and others of one value each that are to be placed among them."""

    allocations: list[Allocation]
    results: Sequence[Slice] = ()
    own: int = 0
    """Bytes of the others."""

    def reserve(self, size: int) -> Slice:
        """Another allocation."""
        index = len(self.allocations)
        self.allocations.append(Allocation(index=index, size=size, kind="temporary"))
        self.own += size
        return _part(index, 0, size)


def _part(allocation: int, offset: int, size: int = 64) -> Slice:
    return Slice(allocation=allocation, offset=offset, size=size)


X, A, B, C = _part(1, 0), _part(0, 0), _part(0, 64), _part(0, 128)


def _sequence(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps as they run, with the iterations of loops."""
    for step in steps:
        if isinstance(step.op, While):
            for _ in range(step.op.iterations):
                yield from _sequence(step.regions[-1])
        else:
            yield step


def _seen(
    steps: Sequence[Step],
    allocations: Sequence[Allocation],
    results: Sequence[Slice] = (),
    scratch: Sequence[Slice] = (),
) -> list[list[int]]:
    """The bytes that steps read, and callers in the end: for each the number of the step that wrote it, or -1.

    With `scratch`, a part for each step, it or those inside it write something there before.
    """
    memory = {a.index: [-1] * a.size for a in allocations}

    def content(part: Slice) -> list[int]:
        return memory[part.allocation][part.offset : part.offset + part.size]

    def write(part: Slice, number: int) -> None:
        memory[part.allocation][part.offset : part.offset + part.size] = [number] * part.size

    seen, numbers = [], itertools.count()
    for time, outer in enumerate(steps):
        for step in _sequence([outer]):
            for part in scratch[time : time + 1]:
                write(part, -2)
            seen += [content(part) for part in reads(step)]
            number = next(numbers)
            for part in writes(step):
                write(part, number)
    return [*seen, *map(content, results)]


def _placed(
    memory: _Memory, steps: tuple[Step, ...]
) -> tuple[tuple[Step, ...], tuple[Allocation, ...]]:
    """The steps where their values have been placed, after a comparison of what they read."""
    placed, allocations = optimise(steps, memory.allocations, memory.results, passes=())
    assert _seen(placed, allocations, memory.results) == _seen(
        steps, memory.allocations, memory.results
    )
    return placed, allocations


def test_values_get_memory_where_nothing_else_lives() -> None:
    memory = _Memory([TEMPORARY, INPUT])
    own = memory.reserve(64)
    # When `own` is written, A is dead; B and C live.
    steps = (
        kernel(X, A),
        kernel(A, B),
        kernel(B, C),
        kernel(C, own),
        kernel(own, A),
        kernel(B, C),
    )
    placed, allocations = _placed(memory, steps)
    assert allocations == (TEMPORARY, INPUT)
    assert len({slices(one) for one in placed[2:4]}) == 2


def test_what_nobody_writes_any_more_needs_no_memory() -> None:
    memory = _Memory([TEMPORARY.model_copy(update={"size": 4096}), INPUT])
    far = _part(0, 4000)
    _, allocations = _placed(memory, (kernel(X, A), kernel(A, far), kernel(far, _part(0, 2000))))
    assert allocations[0].size <= 64 * 3


def test_what_loops_use_is_in_use_before_and_after() -> None:
    memory = _Memory([TEMPORARY, INPUT])
    own = memory.reserve(64)
    steps = (kernel(X, own), kernel(X, B), loop(kernel(B, A), kernel(A, B)), kernel(own, C))
    _, allocations = _placed(memory, steps)
    assert allocations[0].size == 192


def test_results_stay_until_the_end() -> None:
    memory = _Memory([TEMPORARY, INPUT], [A, B, C])
    own = memory.reserve(64)
    steps = (kernel(X, A), kernel(X, B), kernel(X, C), kernel(X, own), kernel(own, C))
    placed, allocations = _placed(memory, steps)
    assert allocations[0].size == 256
    assert [writes(one) for one in placed[:3]] == [(A,), (B,), (C,)]


def test_a_program_without_temporaries_gets_some() -> None:
    memory = _Memory([Allocation(index=0, size=64, kind="parameter", parameter=0)])
    own = memory.reserve(64)
    steps = (kernel(_part(0, 0), own),)
    placed, allocations = _placed(memory, steps)
    assert placed == steps
    assert allocations[own.allocation] == Allocation(index=1, size=64, kind="temporary")


@st.composite
def _programs(draw: st.DrawFn) -> tuple[_Memory, tuple[Step, ...]]:
    """A program whose values are where XLA might put them, or in allocations of their own."""
    count = draw(st.integers(2, 12))
    sizes = [64 * draw(st.integers(1, 4)) for _ in range(count)]
    # Until which step each value lives: it may be read there.
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
    memory = _Memory([temporary, INPUT], results)
    for number in range(count):
        if ends[number] < count and draw(st.booleans()):
            places[number] = memory.reserve(sizes[number])
    steps: list[Step] = []
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
        step = kernel(tuple(chosen), places[number])
        steps.append(loop(step, step) if draw(st.integers(0, 4)) == 0 else step)
        if alive and draw(st.integers(0, 3)) == 0:  # an update in place
            steps.append(kernel((alive[-1], X), alive[-1]))
    return memory, tuple(steps)


@given(_programs())
def test_every_step_reads_what_it_read_before(found: tuple[_Memory, tuple[Step, ...]]) -> None:
    memory, steps = found
    _, allocations = _placed(memory, steps)
    # Never more than with allocations of their own behind those of XLA.
    assert allocations[0].size <= memory.allocations[0].size + memory.own


@given(_programs())
def test_nobody_reads_what_is_written_to_gaps(found: tuple[_Memory, tuple[Step, ...]]) -> None:
    memory, steps = found
    steps, allocations = _placed(memory, steps)
    lifetimes = Lifetimes(accesses(steps), memory.results, TEMPORARY.index)
    _require_free(lifetimes, steps, allocations, memory.results)


def _require_free(
    lifetimes: Lifetimes,
    steps: Sequence[Step],
    allocations: Sequence[Allocation],
    results: Sequence[Slice],
) -> None:
    """Whoever writes to the rooms changes nothing."""
    free = lifetimes.rooms()
    assert len(free) == len(steps)
    end = allocations[0].size
    behind = [_part(0, room.behind, max(end - room.behind, 0)) for room in free]
    gaps = [_part(0, room.gap.start, len(room.gap)) for room in free]
    before = _seen(steps, allocations, results)
    for parts in (gaps, behind):
        assert _seen(steps, allocations, results, parts) == before


def _moved(step: Step, places: Mapping[Slice, Slice]) -> Step:
    """The step with other slices."""

    def moved(views: Mapping[str, View]) -> Mapping[str, View]:
        return {
            name: view.model_copy(update={"slice": places.get(view.slice, view.slice)})
            for name, view in views.items()
        }

    return step.model_copy(
        update={
            "inputs": moved(step.inputs),
            "outputs": moved(step.outputs),
            "regions": tuple(
                tuple(_moved(one, places) for one in region) for region in step.regions
            ),
        }
    )


@given(_programs(), st.data())
def test_what_is_reserved_is_beside_all_that_lives(
    found: tuple[_Memory, tuple[Step, ...]], data: st.DataObject
) -> None:
    memory, steps = found
    steps, allocations = _placed(memory, steps)
    # An output: from some step to the end it has memory of its own, or that of temporaries.
    output = Allocation(index=len(allocations), size=128, kind="output")
    own = _part(output.index, 0, output.size)
    first = data.draw(st.integers(0, len(steps)))
    steps = (*steps[:first], kernel(X, own), *steps[first:])
    allocations, results = (*allocations, output), [*memory.results, own]
    lifetimes = Lifetimes(accesses(steps), results, TEMPORARY.index)
    inputs = [
        time for time, one in enumerate(steps) if X in {s for t in walk((one,)) for s in slices(t)}
    ]
    places = {
        X: _part(0, lifetimes.reserve(0, max(inputs), X.size), X.size),
        own: _part(0, lifetimes.reserve(first, lifetimes.end, own.size), own.size),
    }
    before = _seen(steps, allocations, results)
    size = max(allocations[0].size, lifetimes.size)
    allocations = (allocations[0].model_copy(update={"size": size}), *allocations[1:])
    steps = tuple(_moved(one, places) for one in steps)
    results = [places.get(result, result) for result in results]
    assert _seen(steps, allocations, results) == before
    _require_free(lifetimes, steps, allocations, results)


def test_a_gap_is_the_largest_one() -> None:
    far = _part(0, 1024)
    steps = (kernel(X, A), kernel(X, far), kernel((A, far), C))
    free = Lifetimes(accesses(steps), (), TEMPORARY.index).rooms()
    assert [room.gap for room in free] == [range(0), range(64, 1024), range(192, 1024)]
    assert [room.behind for room in free] == [64, 1088, 1088]


def test_walk_finds_what_the_test_runs() -> None:
    step = kernel(A, B)
    assert list(_sequence((loop(step),))) == [step, step]
    assert list(walk((loop(step),)))[1:] == [step]
