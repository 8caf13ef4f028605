"""Loops whose iterations are counted by their structure: what they copy and what they compute in each alike."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelwheel.compiler.ir.counters import Linear, count
from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.thunk_walk import slices
from modelwheel.compiler.passes.stepping import SteppedLoop
from modelwheel.program.arrays import Slice, overlap
from tests.support.modules import Emission

TRIP_COUNT, ROWS, DEPTH, COLUMNS = 5, 2, 16, 32
ROW_BYTES, RESULT_BYTES = ROWS * DEPTH * 4, ROWS * COLUMNS * 4

LOOP = """
slicing {
  array = f32[5,2,16] parameter(0)
  i = s32[] parameter(1)
  zero = s32[] constant(0)
  part = f32[1,2,16] dynamic-slice(array, i, zero, zero), dynamic_slice_sizes={1,2,16}
  ROOT flat = f32[2,16] bitcast(part)
}

updating {
  array = f32[5,2,16] parameter(0)
  i = s32[] parameter(1)
  new = f32[2,16] parameter(2)
  zero = s32[] constant(0)
  part = f32[1,2,16] bitcast(new)
  ROOT updated = f32[5,2,16] dynamic-update-slice(array, part, i, zero, zero)
}

counting {
  before = s32[] parameter(0)
  by = s32[] parameter(1)
  ROOT after = s32[] add(before, by)
}

body {
  state = (s32[], f32[5,2,16], f32[5,2,16]) parameter(0)
  i0 = s32[] get-tuple-element(state), index=0
  target = f32[5,2,16] get-tuple-element(state), index=1
  source = f32[5,2,16] get-tuple-element(state), index=2
  i = s32[] copy(i0)
  step = s32[] constant(1)
  next = s32[] fusion(i, step), kind=kLoop, calls=counting
  slice = f32[2,16] fusion(source, i), kind=kLoop, calls=slicing
  w = f32[16,32] constant({...})
  dot = f32[2,32] dot(slice, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  gates = f32[2,16] custom-call(dot)
  update = f32[5,2,16] fusion(target, i, gates), kind=kLoop, calls=updating
  ROOT changed = (s32[], f32[5,2,16], f32[5,2,16]) tuple(next, update, source)
}

condition {
  state = (s32[], f32[5,2,16], f32[5,2,16]) parameter(0)
  j = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(5)
  once = pred[] compare(j, limit), direction=LT
  ROOT both = pred[] and(once, once)
}

ENTRY main {
  start = s32[] constant(0)
  begin = s32[] copy(start)
  zeros = f32[5,2,16] parameter(0)
  x = f32[5,2,16] parameter(1)
  entering = (s32[], f32[5,2,16], f32[5,2,16]) tuple(begin, zeros, x)
  loop = (s32[], f32[5,2,16], f32[5,2,16]) while(entering), condition=condition, body=body
  y = f32[5,2,16] get-tuple-element(loop), index=1
  n = s32[] get-tuple-element(loop), index=0
  ROOT results = (f32[5,2,16]) tuple(y)
}
"""
"""A loop that multiplies the part of an array at its counter, and writes a function of that into another."""


def _start(number: int) -> tuple[str, str]:
    return "start = s32[] constant(0)", f"start = s32[] constant({number})"


def _step(number: int) -> tuple[str, str]:
    return "step = s32[] constant(1)", f"step = s32[] constant({number})"


def _limit(number: int) -> tuple[str, str]:
    return "limit = s32[] constant(5)", f"limit = s32[] constant({number})"


def _direction(name: str) -> tuple[str, str]:
    return "direction=LT", f"direction={name}"


def _at_index(operation: str, offset: int = 0) -> list[tuple[str, str]]:
    """The part of the array begins at a function of the counter."""
    index = f"offset = s32[] constant({offset})\n  index = s32[] {operation}\n  slice = f32"
    return [
        ("slice = f32", index),
        ("fusion(source, i)", "fusion(source, index)"),
        ("fusion(target, i, ", "fusion(target, index, "),
    ]


@pytest.mark.parametrize(
    ("changes", "trip_count"),
    [
        ([], TRIP_COUNT),
        ([_start(2)], TRIP_COUNT - 2),
        ([_step(2)], 3),
        ([_direction("LE")], TRIP_COUNT + 1),
        ([_start(4), _step(-1), _limit(0), _direction("GT")], 4),
        ([_start(4), _step(-1), _limit(0), _direction("GE")], 5),
        ([_start(5), _step(-2), _limit(0), _direction("GT")], 3),
        ([_start(TRIP_COUNT)], None),  # never
        ([_step(0)], None),  # without an end
        ([_step(-1)], None),
        ([_direction("NE")], None),
        ([("start = s32[] constant(0)", "start = s32[] parameter(2)")], None),
        ([_limit((1 << 31) - 1), _step(1 << 30)], None),  # it overflows
    ],
)
def test_the_trip_count_follows_from_start_step_and_condition(
    changes: list[tuple[str, str]], trip_count: int | None
) -> None:
    found = count(Emission(LOOP, *changes).value("loop"))
    assert (None if found is None else found.trip_count) == trip_count


def test_counters_and_what_no_iteration_changes_are_known() -> None:
    found = count(Emission(LOOP, _start(1), _step(2), _limit(8)).value("loop"))
    assert found is not None
    assert found.variables == {0: Linear(1, 2)}
    assert found.invariant == {2}
    assert [Linear(1, 2).at(iteration) for iteration in range(4)] == [1, 3, 5, 7]


# --- steps ----------------------------------------------------------------------------------------


def _stepped(
    *changes: tuple[str, str], writes: str | None = None
) -> tuple[Sequence[p.Thunk], list[p.Thunk], Emission]:
    """The thunks before the loop, those of its body, and the body; one thunk more may write to a value."""
    body = Emission(LOOP, *changes, at={"update": "target", "next": "i0"}, computation="body")
    loop = body.hlo.instruction("loop")
    assert loop is not None
    counters = count(loop)
    assert counters is not None
    if writes is not None:
        other = p.Kernel(
            operations=0,
            symbol="writes",
            workgroups=(1, 1, 1),
            arguments=(),
            results=(body.place(writes).model_copy(update={"size": 16}),),
        )
        body.insert("gates", other)
    before = SteppedLoop(body.hlo, loop, counters, body.emitted, body.memory()).apply()
    return before, [step.thunk for step in body.emitted], body


def _by_iteration(part: Slice) -> list[int]:
    return [part.offset + iteration * part.step for iteration in range(part.iterations)]


def test_products_of_all_iterations_come_before_the_loop() -> None:
    """loop {slice, dot, update} => dot of all rows; loop {copy}"""
    (dot,), (gates, update), body = _stepped()
    assert isinstance(dot, p.Dot)
    assert dot.lhs.slice == body.place("source")
    rows = TRIP_COUNT * ROWS
    assert (dot.lhs.shape, dot.out.shape) == ((rows, DEPTH), (rows, COLUMNS))
    assert dot.operations == 2 * rows * DEPTH * COLUMNS
    assert isinstance(gates, p.Kernel)
    assert isinstance(update, p.Copy)
    (read,) = gates.arguments
    assert read.allocation == dot.out.slice.allocation
    assert _by_iteration(read) == [t * RESULT_BYTES for t in range(TRIP_COUNT)]
    assert update.destination.allocation == body.place("target").allocation
    assert _by_iteration(update.destination) == [t * ROW_BYTES for t in range(TRIP_COUNT)]


def test_arrays_may_be_read_from_their_end() -> None:
    mirrored = _at_index("subtract(offset, i)", TRIP_COUNT - 1)
    (dot,), (gates, update), body = _stepped(*mirrored)
    assert isinstance(dot, p.Dot)
    assert dot.lhs.slice == body.place("source")
    assert isinstance(gates, p.Kernel)
    backwards = list(reversed(range(TRIP_COUNT)))
    assert _by_iteration(gates.arguments[0]) == [t * RESULT_BYTES for t in backwards]
    assert isinstance(update, p.Copy)
    assert _by_iteration(update.destination) == [t * ROW_BYTES for t in backwards]


def test_a_part_of_the_array_is_multiplied_if_the_loop_reads_no_more() -> None:
    (dot,), _, _ = _stepped(_start(1), _limit(4))
    assert isinstance(dot, p.Dot)
    assert (dot.lhs.slice.offset, dot.lhs.slice.size) == (ROW_BYTES, 3 * ROW_BYTES)
    assert dot.out.shape == (3 * ROWS, COLUMNS)


def test_parts_apart_from_each_other_are_read_where_they_are() -> None:
    before, body, _ = _stepped(_step(2))
    assert not before
    (dot,) = [thunk for thunk in body if isinstance(thunk, p.Dot)]
    assert _by_iteration(dot.lhs.slice) == [0, 2 * ROW_BYTES, 4 * ROW_BYTES]


@pytest.mark.parametrize(
    "changes",
    [
        _at_index("add(i, offset)", 1),  # the last part would be moved back into the array
        _at_index("add(i, offset)", -1),
        _at_index("subtract(offset, i)", TRIP_COUNT),
        _at_index("multiply(i, step)"),  # not a function that is known
        [_limit(TRIP_COUNT + 1)],
    ],
)
def test_indices_that_are_not_known_to_be_in_the_array_stay_as_they_are(
    changes: list[tuple[str, str]],
) -> None:
    before, body, _ = _stepped(*changes)
    assert not before
    assert not any(part.step for thunk in body for part in slices(thunk))
    assert len(body) == 6 + (len(changes) > 1)


def test_an_array_that_iterations_change_is_copied() -> None:
    before, body, _ = _stepped(("tuple(next, update, source)", "tuple(next, update, update)"))
    assert not before
    assert any(isinstance(one, p.Kernel) and one.symbol == "slice" for one in body)


@pytest.mark.parametrize("value", ["source", "w"])
def test_products_stay_where_an_iteration_writes_to_what_they_read(value: str) -> None:
    before, body, _ = _stepped(writes=value)
    assert not before
    assert any(isinstance(one, p.Dot) for one in body)


def test_counters_stay_where_they_are_read() -> None:
    _, body, _ = _stepped(("tuple(y)", "tuple(y, n)"))
    assert [one.symbol for one in body if isinstance(one, p.Kernel)] == ["i", "next", "gates"]


def test_slices_that_move_overlap_what_they_pass() -> None:
    moving = Slice(allocation=0, offset=100, size=10, step=-20, iterations=3)
    assert moving.whole == Slice(allocation=0, offset=60, size=50)
    for offset, expected in ((50, False), (55, True), (75, True), (109, True), (110, False)):
        assert overlap(moving, Slice(allocation=0, offset=offset, size=10)) == expected
