"""Random programs compute the same as graphs, after each pass, and with other memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.compiler.ir.assignment import in_place
from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.erasing import erase_dead
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.graph_text import graph_text
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.passes import PIPELINE, optimise
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.expr import Expression, Operation
from modelwheel.program.program import Program
from modelwheel.program.steps import Step, numbered
from modelwheel.program.text import text_of
from modelwheel.program.verify import verify
from modelwheel.program.view import View
from modelwheel.program.walk import walk
from tests.support.interpreter import run_graph, run_steps
from tests.support.programs import FLOAT, branches, conditional, copy, dot, kernel, loop

SIZE = 64
"""Bytes of a value: four by four 32-bit floats."""
ITERATIONS = 3
MEMORY, INPUT, LONG, WEIGHTS, ZERO = range(5)
ADD = Expression(
    operations=(
        Operation(opcode="read", input=0),
        Operation(opcode="read", input=1),
        Operation(opcode="add", operands=(0, 1)),
        Operation(opcode="tanh", operands=(2,)),
    ),
    results=(3,),
)


def matrix(part: Slice) -> View:
    """A value as a matrix."""
    return View.dense(part, FLOAT, (4, 4))


@dataclass
class Maker:
    """Makes steps whose values are where XLA might put them: where nothing else is that is still read."""

    draw: st.DrawFn
    live: list[Slice] = field(default_factory=list)
    """What may be read."""
    reserved: list[Slice] = field(default_factory=list)
    """What may not be overwritten."""
    end: int = 0

    def place(self, size: int = SIZE) -> Slice:
        """Memory for a new value."""
        taken = [p for p in (*self.live, *self.reserved) if p.allocation == MEMORY]
        offset = 64 * self.draw(st.integers(0, 6))
        while any(offset < p.offset + p.size and p.offset < offset + size for p in taken):
            offset += 64
        self.end = max(self.end, offset + size)
        return Slice(allocation=MEMORY, offset=offset, size=size)

    def read(self) -> Slice:
        """A value that is there."""
        return self.draw(st.sampled_from(self.live))

    def forget(self) -> None:
        """Lets some values end."""
        kept = [p for p in self.live if p.allocation != MEMORY or self.draw(st.integers(0, 3))]
        self.live = kept or self.live

    def step(self, depth: int = 0) -> list[Step]:
        """One step, or some that belong together."""
        kinds = ["kernel", "dot", "sum", "copy", "columns", "update"]
        if depth < 2:
            kinds += ["loop", "branches", "choice"]
        made: list[Step] = getattr(self, f"_{self.draw(st.sampled_from(kinds))}")(depth)
        if depth == 0:
            self.forget()
        return made

    def _new(self, step: Step, place: Slice) -> list[Step]:
        self.live.append(place)
        return [step]

    def _kernel(self, _: int) -> list[Step]:
        place = self.place()
        return self._new(kernel((self.read(), self.read()), place), place)

    def _dot(self, _: int) -> list[Step]:
        place, addend = self.place(), self.read()
        sums = self.place() if self.draw(st.booleans()) else place
        step = dot(
            matrix(self.read()),
            matrix(Slice(allocation=WEIGHTS, offset=0, size=SIZE)),
            matrix(place),
            epilogue=ops.Epilogue(),
            accumulator=matrix(sums),
            addend=matrix(addend),
        )
        return self._new(step, place)

    def _sum(self, _: int) -> list[Step]:
        """Perhaps in the place of the first operand."""
        first, second = self.read(), self.read()
        in_place = first.allocation == MEMORY and first != second and self.draw(st.booleans())
        if in_place and first not in self.reserved:
            self.live.remove(first)
            place = first
        else:
            place = self.place()
        step = Step(
            op=ops.Elementwise(code=ADD),
            inputs=numbered("read", [matrix(first), matrix(second)]),
            outputs=numbered("write", [matrix(place)]),
        )
        return self._new(step, place)

    def _copy(self, _: int) -> list[Step]:
        place = self.place()
        return self._new(copy(self.read(), place), place)

    def _columns(self, _: int) -> list[Step]:
        """Both halves of each row of a matrix, one after the other."""
        place = self.place()
        made = []
        for first in self.draw(st.permutations([0, 2])):
            part = Slice(allocation=MEMORY, offset=place.offset + first * 4, size=56)
            half = View(slice=part, element_type=FLOAT, shape=(4, 2), strides=(4, 1))
            source = self.read()
            read = View(slice=source, element_type=FLOAT, shape=(4, 2), strides=(4, 1), start=1)
            made.append(Step(op=ops.Copy(), inputs={"source": read}, outputs={"destination": half}))
        self.live.append(place)
        return made

    def _update(self, _: int) -> list[Step]:
        """Some bytes of a value, in place."""
        own = [p for p in self.live if p.allocation == MEMORY and p not in self.reserved]
        if not own:
            return []
        place = self.draw(st.sampled_from(own))
        return [kernel((place, self.read()), place, symbol="update")]

    def _inside(self, depth: int, outer: Sequence[Slice]) -> list[Step]:
        """Steps of a region, which leave what is outside of it as it is."""
        inner = Maker(self.draw, list(self.live), [*self.reserved, *outer])
        steps = [one for _ in range(self.draw(st.integers(1, 3))) for one in inner.step(depth + 1)]
        self.end = max(self.end, inner.end)
        return steps

    def _loop(self, depth: int) -> list[Step]:
        """Adds a part of an input to some state in each iteration, and collects what it is."""
        state = self.place()
        before = copy(self.read(), state)
        self.reserved.append(state)
        whole = self.place(SIZE * ITERATIONS)
        self.reserved.append(whole)
        step = self.draw(st.sampled_from([SIZE, -SIZE]))
        first = 0 if step > 0 else SIZE * (ITERATIONS - 1)
        part = Slice(allocation=LONG, offset=first, size=SIZE, step=step, iterations=ITERATIONS)
        left = part.model_copy(update={"allocation": MEMORY, "offset": whole.offset + first})
        body = self._inside(depth, [*self.live, state, whole])
        body.append(
            Step(
                op=ops.Elementwise(code=ADD),
                inputs=numbered("read", [matrix(state), matrix(part)]),
                outputs=numbered("write", [matrix(state)]),
            )
        )
        if self.draw(st.booleans()):
            body.append(copy(state, left))
            self.live += [
                Slice(allocation=MEMORY, offset=whole.offset + n * SIZE, size=SIZE)
                for n in range(ITERATIONS)
            ]
        self.reserved.remove(state)
        self.reserved.remove(whole)
        self.live.append(state)
        return [before, loop(*body, trip_count=ITERATIONS)]

    def _branches(self, depth: int) -> list[Step]:
        regions: list[tuple[Step, ...]] = []
        used: list[Slice] = []
        before = list(self.live)
        for _ in range(2):
            used.append(self.place())
            self.reserved.append(used[-1])
        for place in used:
            # Each branch has memory of its own, behind all other.
            everything = Slice(allocation=MEMORY, offset=0, size=self.end)
            inner = Maker(self.draw, list(before), [*before, everything], self.end)
            steps = [one for _ in range(2) for one in inner.step(depth + 2)]
            self.end = inner.end
            regions.append((*steps, kernel((inner.read(),), place)))
        for place in used:
            self.reserved.remove(place)
        self.live += used
        return [branches(*regions)]

    def _choice(self, depth: int) -> list[Step]:
        place = self.place()
        outer = [*self.live, place]
        self.reserved.append(place)
        regions = [
            (*self._inside(depth, outer), kernel((self.read(),), place, symbol=f"k{number}"))
            for number in range(2)
        ]
        self.reserved.remove(place)
        index = Slice(allocation=ZERO, offset=0, size=4)
        return self._new(conditional(index, *regions), place)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program that adds, multiplies and copies values of 64 bytes, with loops and branches."""
    given = [Slice(allocation=INPUT, offset=0, size=SIZE)]
    maker = Maker(draw, list(given))
    steps = [one for _ in range(draw(st.integers(1, 7))) for one in maker.step()]
    results = list(dict.fromkeys(maker.live))
    kinds = {INPUT: SIZE, LONG: SIZE * ITERATIONS, WEIGHTS: SIZE, ZERO: 4}
    return Program(
        triple="",
        cpu="",
        allocations=(
            Allocation(index=MEMORY, size=maker.end, kind="temporary"),
            *(
                Allocation(index=index, size=size, kind="parameter", parameter=number)
                for number, (index, size) in enumerate(kinds.items())
            ),
        ),
        parameters=(),
        results=tuple(View.of_bytes(part) for part in results),
        steps=tuple(steps),
    )


def _contents(program: Program) -> dict[int, bytes]:
    values = np.random.default_rng(3)
    return {
        a.index: bytes(a.size)
        if a.index == ZERO
        else values.random(a.size // 4, np.float32).tobytes()
        for a in program.allocations[1:]
    }


def _lifted(program: Program) -> Graph:
    graph = lift(program.steps, program.allocations, [view.slice for view in program.results])
    check(graph)
    return graph


@given(programs())
def test_a_graph_computes_what_its_program_does(program: Program) -> None:
    verify(program)
    contents = _contents(program)
    places = [view.slice for view in program.results]
    expected = run_steps(program.steps, program.allocations, contents, places)
    graph = _lifted(program)
    assert run_graph(graph, contents) == expected, text_of(program)
    for one in PIPELINE:
        one.run(graph)
        check(graph)
        assert run_graph(graph, contents) == expected, f"{one.name}: {graph_text(graph)}"
    steps, allocations = assign(graph)
    assert run_steps(steps, allocations, contents, places) == expected, graph_text(graph)
    after = program.model_copy(update={"steps": steps, "allocations": allocations})
    verify(after)
    # Only branches may take more.
    forks = [step for step in walk(steps) if isinstance(step.op, ops.Branches)]
    given = [step for step in walk(program.steps) if isinstance(step.op, ops.Branches)]
    if len(forks) <= len(given):
        assert allocations[MEMORY].size <= program.allocations[MEMORY].size


@pytest.fixture(scope="module")
def all_pay() -> Iterator[None]:
    """Results of any size and number of columns are written over addends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_place, "_SMALLEST", 0)
        patch.setattr(in_place, "WIDEST_LANES", 4)
        yield


@pytest.mark.usefixtures("all_pay")
@given(programs())
def test_results_may_be_over_their_addends(program: Program) -> None:
    contents = _contents(program)
    places = [view.slice for view in program.results]
    expected = run_steps(program.steps, program.allocations, contents, places)
    steps, allocations = optimise(program.steps, program.allocations, places)
    assert run_steps(steps, allocations, contents, places) == expected
    verify(program.model_copy(update={"steps": steps, "allocations": allocations}))


@given(programs())
def test_memory_may_be_planned_from_nothing(program: Program) -> None:
    """Without XLA's plan, and with what nobody reads left out."""
    contents = _contents(program)
    places = [view.slice for view in program.results]
    expected = run_steps(program.steps, program.allocations, contents, places)
    graph = _lifted(program)
    erase_dead(graph)
    check(graph)
    results = {piece.value for piece, _ in graph.results}
    for value in {v for node in graph.walk() for v in (*node.values, *node.used)} - results:
        if value.source not in ("parameter", "constant"):
            value.home = None
    graph.changed = True
    steps, allocations = assign(graph)
    assert run_steps(steps, allocations, contents, places) == expected, graph_text(graph)
