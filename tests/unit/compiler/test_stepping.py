"""Loops whose turns are counted by their structure: what they copy and what they compute in each turn alike."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.counters import Linear, count
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.ir.thunk_walk import slices
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.compiler.passes.stepping import SteppedLoop
from modelwheel.program.arrays import Allocation, Slice, overlap
from tests.support.thunks import dense

PRED, INT, FLOAT = 1, 4, 11
TURNS, ROWS, DEPTH, COLUMNS = 5, 2, 16, 32
ENTRY, BODY, CONDITION, SLICING, UPDATING, COUNTING = range(6)
SOURCE, TARGET, WEIGHTS, PART, OUT, STATE, COUNTER, OTHER = range(8)
"""Allocations."""


def _shape(element_type: int, *dimensions: int) -> SimpleNamespace:
    order = list(reversed(range(len(dimensions))))
    layout = SimpleNamespace(minor_to_major=order)
    return SimpleNamespace(element_type=element_type, dimensions=dimensions, layout=layout)


NUMBER, TRUTH = _shape(INT), _shape(PRED)
ALL, ONE, FLAT = (
    _shape(FLOAT, TURNS, ROWS, DEPTH),
    _shape(FLOAT, 1, ROWS, DEPTH),
    _shape(FLOAT, ROWS, DEPTH),
)


class _Module:
    """An `xla.HloModuleProto`: instructions by computation, whose last one is its root."""

    def __init__(self) -> None:
        self.instructions: dict[str, SimpleNamespace] = {}
        self.computations: dict[int, list[SimpleNamespace]] = {}

    def add(
        self, where: int, name: str, opcode: str, shape: Any, *operands: str, **more: Any
    ) -> None:
        ids = [self.instructions[operand].id for operand in operands]
        rest = {"called_computation_ids": [], "parameter_number": 0, "tuple_index": 0, **more}
        one = SimpleNamespace(
            id=len(self.instructions),
            name=name,
            opcode=opcode,
            shape=shape,
            operand_ids=ids,
            **rest,
        )
        self.instructions[name] = one
        self.computations.setdefault(where, []).append(one)

    def number(self, where: int, name: str, value: int) -> None:
        self.add(where, name, "constant", _shape(INT), literal=SimpleNamespace(s32s=[value]))

    def build(self) -> HloModule:
        computations = [
            SimpleNamespace(id=where, instructions=found, root_id=found[-1].id)
            for where, found in self.computations.items()
        ]
        return HloModule(SimpleNamespace(computations=computations, entry_computation_id=ENTRY))


def _parameter(module: _Module, where: int, name: str, shape: Any, number: int) -> None:
    module.add(where, name, "parameter", shape, parameter_number=number)


def _module(
    *,
    start: int = 0,
    step: int = 1,
    limit: int = TURNS,
    direction: str = "LT",
    index: str = "i",
    changed: bool = False,
    constant_start: bool = True,
    used_after: bool = False,
    offset: int = 0,
) -> HloModule:
    """A loop that multiplies the part of an array at its counter, and writes the result into another.

    Args:
        start: What the counter begins with.
        step: What each turn adds.
        limit: What the condition compares it with.
        direction: How.
        index: The instruction of the body at whose value the part begins.
        changed: Whether a turn changes the array.
        constant_start: Whether the counter begins with a constant.
        used_after: Whether the counter is read after the loop.
        offset: What `moved` and `mirrored` add to the counter.
    """
    module = _Module()
    for where, ds in ((SLICING, "dynamic-slice"), (UPDATING, "dynamic-update-slice")):
        _parameter(module, where, f"{where}.array", ALL, 0)
        _parameter(module, where, f"{where}.i", NUMBER, 1)
        module.number(where, f"{where}.zero", 0)
        indices = [f"{where}.i", f"{where}.zero", f"{where}.zero"]
        if where == SLICING:
            module.add(where, "part", ds, ONE, f"{where}.array", *indices)
            module.add(where, "part.root", "bitcast", FLAT, "part")
        else:
            _parameter(module, where, "new", FLAT, 2)
            module.add(where, "new.part", "bitcast", ONE, "new")
            module.add(where, "updated", ds, ALL, f"{where}.array", "new.part", *indices)
    _parameter(module, COUNTING, "before", NUMBER, 0)
    _parameter(module, COUNTING, "by", NUMBER, 1)
    module.add(COUNTING, "after", "add", NUMBER, "before", "by")

    _parameter(module, BODY, "state", TRUTH, 0)
    for number, (name, shape) in enumerate((("i0", NUMBER), ("target", ALL), ("source", ALL))):
        module.add(BODY, name, "get-tuple-element", shape, "state", tuple_index=number)
    module.add(BODY, "i", "copy", NUMBER, "i0")
    module.number(BODY, "step", step)
    module.number(BODY, "offset", offset)
    fused = {"called_computation_ids": [COUNTING]}
    module.add(BODY, "next", "fusion", NUMBER, "i", "step", **fused)
    computed = {
        "moved": ("add", "i", "offset"),
        "mirrored": ("subtract", "offset", "i"),
        "doubled": ("multiply", "i", "step"),
    }
    if index in computed:
        opcode, *operands = computed[index]
        module.add(BODY, index, opcode, NUMBER, *operands)
    module.add(BODY, "slice", "fusion", FLAT, "source", index, called_computation_ids=[SLICING])
    module.add(BODY, "dot", "dot", FLAT, "slice")
    module.add(
        BODY, "update", "fusion", ALL, "target", index, "dot", called_computation_ids=[UPDATING]
    )
    last = "update" if changed else "source"
    module.add(BODY, "body", "tuple", TRUTH, "next", "update", last)

    _parameter(module, CONDITION, "inputs", TRUTH, 0)
    module.add(CONDITION, "j", "get-tuple-element", NUMBER, "inputs", tuple_index=0)
    module.number(CONDITION, "limit", limit)
    module.add(CONDITION, "once", "compare", TRUTH, "j", "limit", comparison_direction=direction)
    module.add(CONDITION, "both", "and", TRUTH, "once", "once")

    module.number(ENTRY, "start", start)
    _parameter(module, ENTRY, "given", NUMBER, 0)
    module.add(ENTRY, "begin", "copy", NUMBER, "start" if constant_start else "given")
    _parameter(module, ENTRY, "zeros", ALL, 1)
    _parameter(module, ENTRY, "x", ALL, 2)
    module.add(ENTRY, "entering", "tuple", TRUTH, "begin", "zeros", "x")
    module.add(ENTRY, "loop", "while", TRUTH, "entering", called_computation_ids=[BODY, CONDITION])
    module.add(ENTRY, "y", "get-tuple-element", ALL, "loop", tuple_index=1)
    module.add(ENTRY, "n", "get-tuple-element", NUMBER, "loop", tuple_index=0)
    module.add(ENTRY, "result", "tuple", TRUTH, "y", *(["n"] if used_after else []))
    return module.build()


def _turns(**arguments: Any) -> int | None:
    hlo = _module(**arguments)
    found = count(hlo, hlo.instruction("loop"))
    return None if found is None else found.turns


@pytest.mark.parametrize(
    ("arguments", "turns"),
    [
        ({}, TURNS),
        ({"start": 2}, TURNS - 2),
        ({"step": 2}, 3),
        ({"direction": "LE"}, TURNS + 1),
        ({"start": 4, "step": -1, "limit": 0, "direction": "GT"}, 4),
        ({"start": 4, "step": -1, "limit": 0, "direction": "GE"}, 5),
        ({"start": 5, "step": -2, "limit": 0, "direction": "GT"}, 3),
        ({"start": TURNS}, None),  # never
        ({"step": 0}, None),  # for ever
        ({"step": -1}, None),
        ({"direction": "NE"}, None),
        ({"constant_start": False}, None),
        ({"limit": (1 << 31) - 1, "step": 1 << 30}, None),  # it overflows
    ],
)
def test_turns_follow_from_start_step_and_condition(
    arguments: dict[str, Any], turns: int | None
) -> None:
    assert _turns(**arguments) == turns


def test_counters_and_what_no_turn_changes_are_known() -> None:
    hlo = _module(start=1, step=2, limit=8)
    found = count(hlo, hlo.instruction("loop"))
    assert found is not None
    assert found.variables == {0: Linear(1, 2)}
    assert found.invariant == {2}
    assert [Linear(1, 2).at(turn) for turn in range(4)] == [1, 3, 5, 7]


# --- steps ----------------------------------------------------------------------------------------


def _kernel(symbol: str, arguments: list[Slice], result: Slice) -> p.Kernel:
    return p.Kernel(
        operations=1,
        symbol=symbol,
        workgroups=(1, 1, 1),
        arguments=tuple(arguments),
        results=(result,),
    )


def _whole(allocation: int, *shape: int) -> Slice:
    return dense(shape, allocation).slice


def _steps(index: str, more: tuple[p.Thunk, ...]) -> list[Emitted]:
    counter, number = _whole(COUNTER, 1), _whole(COUNTER, 1).model_copy(update={"offset": 4})
    part, out = dense((ROWS, DEPTH), PART), dense((ROWS, COLUMNS), OUT)
    dot = p.Dot(
        operations=10,
        lhs=part,
        rhs=dense((DEPTH, COLUMNS), WEIGHTS),
        out=out,
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
    )
    target = _whole(TARGET, TURNS, ROWS, DEPTH)
    update = part.slice  # what is written back has the shape of what was read
    found = [
        Emitted(_kernel("copy", [counter], number), "i"),
        Emitted(_kernel("add", [number, _whole(OTHER, 1)], counter), "next"),
        Emitted(
            _kernel("slice", [_whole(SOURCE, TURNS, ROWS, DEPTH), number], part.slice), "slice"
        ),
        Emitted(dot, "dot"),
        *(Emitted(one, "other") for one in more),
        Emitted(_kernel("update", [target, number, update], target), "update"),
    ]
    if index != "i":
        found.insert(1, Emitted(_kernel(index, [number], number), index))
    return found


def _stepped(
    *, index: str = "i", more: tuple[p.Thunk, ...] = (), **arguments: Any
) -> tuple[Sequence[p.Thunk], list[p.Thunk]]:
    """The thunks before the loop, and those of its body."""
    hlo = _module(index=index, **arguments)
    loop = hlo.instruction("loop")
    counters = count(hlo, loop)
    assert counters is not None
    allocations = [Allocation(index=n, size=1 << 16, kind="temporary") for n in range(8)]
    reader = _kernel("gates", [_whole(OUT, ROWS, COLUMNS)], _whole(STATE, ROWS, DEPTH))
    steps = _steps(index, (*more, reader))
    memory = Memory(allocations)
    before = SteppedLoop(hlo, loop, counters, steps, memory).apply()
    return before, [step.thunk for step in steps]


def _by_turn(part: Slice) -> list[int]:
    return [part.offset + turn * part.step for turn in range(part.iterations)]


ROW_BYTES, RESULT_BYTES = ROWS * DEPTH * 4, ROWS * COLUMNS * 4


def test_products_of_all_turns_come_before_the_loop() -> None:
    (dot,), body = _stepped()
    assert isinstance(dot, p.Dot)
    assert dot.lhs.slice == _whole(SOURCE, TURNS, ROWS, DEPTH)
    assert (dot.lhs.shape, dot.out.shape) == ((TURNS * ROWS, DEPTH), (TURNS * ROWS, COLUMNS))
    assert dot.operations == 10 * TURNS
    gates, update = body
    assert isinstance(gates, p.Kernel)
    assert isinstance(update, p.Copy)
    (read,) = gates.arguments
    assert read.allocation == dot.out.slice.allocation
    assert _by_turn(read) == [turn * RESULT_BYTES for turn in range(TURNS)]
    assert update.destination.allocation == TARGET
    assert _by_turn(update.destination) == [turn * ROW_BYTES for turn in range(TURNS)]


def test_arrays_may_be_read_from_their_end() -> None:
    (dot,), (gates, update) = _stepped(index="mirrored", offset=TURNS - 1)
    assert isinstance(dot, p.Dot)
    assert dot.lhs.slice == _whole(SOURCE, TURNS, ROWS, DEPTH)
    assert isinstance(gates, p.Kernel)
    assert _by_turn(gates.arguments[0]) == [t * RESULT_BYTES for t in reversed(range(TURNS))]
    assert isinstance(update, p.Copy)
    assert _by_turn(update.destination) == [t * ROW_BYTES for t in reversed(range(TURNS))]


def test_a_part_of_the_array_is_multiplied_if_the_loop_reads_no_more() -> None:
    (dot,), _ = _stepped(start=1, limit=4)
    assert isinstance(dot, p.Dot)
    assert (dot.lhs.slice.offset, dot.lhs.slice.size) == (ROW_BYTES, 3 * ROW_BYTES)
    assert dot.out.shape == (3 * ROWS, COLUMNS)


def test_parts_apart_from_each_other_are_read_where_they_are() -> None:
    before, body = _stepped(step=2)
    assert not before
    (dot,) = [thunk for thunk in body if isinstance(thunk, p.Dot)]
    assert _by_turn(dot.lhs.slice) == [0, 2 * ROW_BYTES, 4 * ROW_BYTES]


@pytest.mark.parametrize(
    "arguments",
    [
        {"index": "moved", "offset": 1},  # the last part would be moved back into the array
        {"index": "moved", "offset": -1},
        {"index": "mirrored", "offset": TURNS},
        {"index": "doubled"},  # not a function that is known
        {"limit": TURNS + 1},
    ],
)
def test_indices_that_are_not_known_to_be_in_the_array_stay_as_they_are(
    arguments: dict[str, Any],
) -> None:
    before, body = _stepped(**arguments)
    assert not before
    assert not any(part.step for thunk in body for part in slices(thunk))
    assert len(body) == 6 + (arguments.get("index", "i") != "i")


def test_an_array_that_turns_change_is_copied() -> None:
    before, body = _stepped(changed=True)
    assert not before
    assert any(isinstance(one, p.Kernel) and one.symbol == "slice" for one in body)


@pytest.mark.parametrize("allocation", [SOURCE, WEIGHTS])
def test_products_stay_where_a_turn_writes_to_what_they_read(allocation: int) -> None:
    before, body = _stepped(more=(_kernel("writes", [], _whole(allocation, 4)),))
    assert not before
    assert any(isinstance(one, p.Dot) for one in body)


def test_counters_stay_where_they_are_read() -> None:
    _, body = _stepped(used_after=True)
    assert [one.symbol for one in body if isinstance(one, p.Kernel)] == ["copy", "add", "gates"]


def test_slices_that_move_overlap_what_they_pass() -> None:
    moving = Slice(allocation=0, offset=100, size=10, step=-20, iterations=3)
    assert moving.whole == Slice(allocation=0, offset=60, size=50)
    for offset, expected in ((50, False), (55, True), (75, True), (109, True), (110, False)):
        assert overlap(moving, Slice(allocation=0, offset=offset, size=10)) == expected
