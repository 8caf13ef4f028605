"""Loops whose trip counts follow from their structure: what they copy, and what they compute in each iteration alike."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.ir.loops.counters import Linear, count
from modelwheel.compiler.passes.counted_loops import CountLoops
from modelwheel.compiler.passes.loop_products import HoistProducts
from modelwheel.program.arrays import Allocation, Slice, overlap
from modelwheel.program.expr import Expression, Operation
from modelwheel.program.ops import Elementwise, Epilogue
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.graphs import lines_after
from tests.support.modules import Emission
from tests.support.programs import FLOAT, dense, dot, kernel, loop, part

TRIP_COUNT = 5
A, X, B, W, Y = range(5)

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
  zero = f32[] constant(0)
  zeros = f32[5,2,16] broadcast(zero), dimensions={}
  x = f32[5,2,16] parameter(0)
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
        ([("start = s32[] constant(0)", "start = s32[] parameter(1)")], None),
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


OWN = "input = f32[5,2,16] parameter(0)\n  x = f32[5,2,16] copy(input)"
"""The loop's input is a copy, which it may change."""
SLICE_READER = ("w = f32[16", "slice2 = f32[2,16] custom-call(slice)\n  w = f32[16")
SLICE_READER3 = ("w = f32[3", "slice2 = f32[2,3] custom-call(slice)\n  w = f32[3")
# --- graphs ---------------------------------------------------------------------------------------


def _graph(*changes: tuple[str, str], results: tuple[str, ...] = ("y",)) -> Graph:
    return Emission(LOOP, *changes).graph(results, loops=False, **dict.fromkeys(results, "output"))


def _counted(*changes: tuple[str, str], rewrites: int = 3) -> list[str]:
    """The nodes when the trip count is known; the condition and both copies are left out."""
    return lines_after(CountLoops(), _graph(*changes), rewrites=rewrites)


def _hoisted(*changes: tuple[str, str], rewrites: int = 1, graph: Graph | None = None) -> list[str]:
    """The nodes when products come before the loop."""
    graph = graph or _graph(*changes)
    CountLoops().run(graph)
    return lines_after(HoistProducts(), graph, rewrites=rewrites)


def test_parts_are_read_and_written_where_they_are() -> None:
    """loop {count, slice, dot, update} => loop {dot, copy}; nobody needs the array that it begins with"""
    assert _counted() == [
        "%2 = while (undefined) {trip_count=5}",
        "  body(%3):",
        (
            "    %4 f32[2,32] = dot %0+128i f32[2,16], %1 f32[16,32]"
            " {lhs_contracting=[1], rhs_contracting=[0]}"
        ),
        "    %5 u8[128] = kernel %4 u8[256] {symbol=gates}",
        "    %6+128i u8[128] into %3 = copy %5 u8[128]",
        "    yield %6",
    ]


def test_products_of_all_iterations_come_before_the_loop() -> None:
    """loop {dot} => dot of all rows; loop {}"""
    graph = _graph()
    assert _hoisted(graph=graph) == [
        "%2 f32[10,32] = dot %0 f32[10,16], %1 f32[16,32] {lhs_contracting=[1], rhs_contracting=[0]}",
        "%3 = while (undefined) {trip_count=5}",
        "  body(%4):",
        "    %5 u8[128] = kernel %2+256i u8[256] {symbol=gates}",
        "    %6+128i u8[128] into %4 = copy %5 u8[128]",
        "    yield %6",
    ]
    product, _ = graph.body.nodes
    assert product.operations == 2 * 10 * 16 * 32
    assert product.covers == {"dot"}


def test_arrays_may_be_read_from_their_end() -> None:
    assert _hoisted(*_at_index("subtract(offset, i)", TRIP_COUNT - 1))[0::3] == [
        "%2 f32[10,32] = dot %0 f32[10,16], %1 f32[16,32] {lhs_contracting=[1], rhs_contracting=[0]}",
        "    %5 u8[128] = kernel %2+1024-256i u8[256] {symbol=gates}",
    ]


def test_a_part_of_the_array_is_multiplied_if_the_loop_reads_no_more() -> None:
    (_, product, loop, *_, update, _) = _hoisted(_start(1), _limit(4))
    assert product.startswith("%4 f32[6,32] = dot %1+128 f32[6,16]")
    # The rest of the array that it writes is as it was.
    assert loop == "%5 = while (%3) {trip_count=3}"
    assert update == "    %8+128+128i u8[128] into %6 = copy %7 u8[128]"


@pytest.mark.parametrize(
    ("changes", "is_known"),
    [
        ([], True),
        ([_start(4), _step(-1), _limit(0), _direction("GE")], True),
        ([_start(-5), _limit(0)], True),  # from the end of the array
        ([_start(-2), _limit(3)], False),  # from its end, then from its start
    ],
)
def test_indices_may_be_counted_from_the_end(
    changes: list[tuple[str, str]], is_known: bool
) -> None:
    """i < 0 ? i + extent : i"""
    index = """none = s32[] constant(0)
  extent = s32[] constant(5)
  below = pred[] compare(i, none), direction=LT
  fromend = s32[] add(i, extent)
  index = s32[] select(below, fromend, i)
  slice = f32"""
    wrapped = [("slice = f32", index), ("fusion(source, i)", "fusion(source, index)")]
    graph = _graph(*changes, *wrapped)
    CountLoops().run(graph)
    (product,) = (node for node in graph.walk() if node.op.kind == "dot")
    assert bool(product.inputs["lhs"].view.slice.step) is is_known


def test_parts_apart_from_each_other_are_read_where_they_are() -> None:
    lines = _hoisted(_step(2), rewrites=0)
    assert any("dot %1+256i f32[2,16]" in line for line in lines)


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
    lines = _counted(*changes, rewrites=1)
    assert not any("+128i" in line or "-128i" in line for line in lines)
    symbols = {"i", "next", "slice", "update", "gates"} | ({"index"} if len(changes) > 1 else set())
    assert {one for one in symbols if any(f"symbol={one}}}" in line for line in lines)} == symbols


def test_an_array_that_iterations_change_is_copied() -> None:
    changing = ("tuple(next, update, source)", "tuple(next, update, other)")
    changed = ("gates = f32", "other = f32[5,2,16] custom-call(source)\n  gates = f32")
    lines = _hoisted(changing, changed, ("x = f32[5,2,16] parameter(0)", OWN), rewrites=0)
    assert any("symbol=slice}" in line for line in lines)


def test_products_stay_where_an_iteration_computes_what_they_read() -> None:
    computed = ("w = f32[16,32] constant({...})", "w = f32[16,32] custom-call(i)")
    lines = _hoisted(computed, rewrites=0)
    assert any("dot %1+128i" in line for line in lines)


def test_large_products_stay_in_the_loop() -> None:
    wide = ("f32[2,32]", "f32[2,16384]"), ("f32[16,32]", "f32[16,16384]")
    lines = _hoisted(*wide, rewrites=0)
    assert any("dot %0+128i" in line for line in lines)


def test_xla_kernels_read_only_aligned_parts() -> None:
    lines = _counted(("dot(slice, w)", "dot(slice2, w)"), SLICE_READER, rewrites=3)
    assert "    %4 u8[128] = kernel %0+128i u8[128] {symbol=slice2}" in lines
    odd = [("[5,2,16]", "[5,2,3]"), ("[1,2,16]", "[1,2,3]"), ("{1,2,16}", "{1,2,3}")]
    odd += [("f32[2,16]", "f32[2,3]"), ("[16,32]", "[3,32]")]
    lines = _counted(*odd, ("dot(slice, w)", "dot(slice2, w)"), SLICE_READER3, rewrites=2)
    assert any("symbol=slice}" in line for line in lines)
    # Products read any.
    assert any("dot %0+24i f32[2,3]" in line for line in _counted(*odd))


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("step", [1, -1])
def test_an_epilogue_comes_along_if_it_has_values_for_columns(rows: int, step: int) -> None:
    """The addend of one row has, too."""
    size = rows * 64
    window = part(X, 0 if step > 0 else 4 * size, size).model_copy(
        update={"step": step * size, "iterations": 5}
    )
    lhs = View.dense(window, FLOAT, (rows, 16))
    out = dense((rows, 32), A)
    product = dot(
        lhs, dense((16, 32), W), out, 10, Epilogue(), out,
        bias=dense((32,), B, 512), addend=dense((rows, 32), B),
    )  # fmt: skip
    target = part(Y, 0, 128).model_copy(update={"step": 128, "iterations": 5})
    steps = [loop(product, kernel(out.slice, target), trip_count=5)]
    sizes = {A: 4096, X: 5 * size, B: 1024, W: 2048, Y: 640}
    graph = lift(
        steps,
        [
            Allocation(index=index, size=size, kind="temporary" if index == A else "parameter")
            for index, size in sizes.items()
        ],
        [part(Y, 0, 640)],
    )
    if rows == 2:
        assert "dot" in lines_after(HoistProducts(), graph, rewrites=0)[2]
        return
    before, _, _, after, _ = lines_after(HoistProducts(), graph, rewrites=1)
    assert before == (
        "%3 f32[5,32], accumulator=%3 f32[5,32] = dot %0 f32[5,16], %2 f32[16,32], "
        "bias=%1+512 f32[32], shift=%1 f32[32] "
        "{lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
    )
    assert f"kernel %3{'+128i' if step > 0 else '+512-128i'} u8[128]" in after


@pytest.mark.parametrize(("is_chain", "rewrites"), [(True, 1), (False, 0)])
def test_chains_read_parts_that_are_not_aligned(is_chain: bool, rewrites: int) -> None:
    window = part(X, 0, 64).model_copy(update={"step": 64, "iterations": 5})
    out = dense((1, 10), A)
    target = part(Y, 0, 40).model_copy(update={"step": 40, "iterations": 5})
    code = Expression(
        operations=(Operation(opcode="read"), Operation(opcode="tanh", operands=(0,))), results=(1,)
    )
    chain = Step(
        op=Elementwise(code=code),
        inputs={"read0": out},
        outputs={"write0": out.model_copy(update={"slice": target})},
    )
    product = dot(View.dense(window, FLOAT, (1, 16)), dense((16, 10), W), out)
    steps = [loop(product, chain if is_chain else kernel(out.slice, target), trip_count=5)]
    sizes = {A: 4096, X: 320, B: 1024, W: 640, Y: 200}
    graph = lift(
        steps,
        [
            Allocation(index=index, size=size, kind="temporary" if index == A else "parameter")
            for index, size in sizes.items()
        ],
        [part(Y, 0, 200)],
    )
    lines = lines_after(HoistProducts(), graph, rewrites=rewrites)
    assert any("elementwise %2+40i f32[1,10]" in line for line in lines) is is_chain


def test_loops_in_loops_are_counted_too() -> None:
    """A product of all iterations of the inner loop is computed in each iteration of the outer one."""
    main = LOOP.index("ENTRY main {")
    outer = """
        again {
          around = (s32[], f32[5,2,16]) parameter(0)
          k0 = s32[] get-tuple-element(around), index=0
          given = f32[5,2,16] get-tuple-element(around), index=1
          k = s32[] copy(k0)
          more = s32[] constant(1)
          later = s32[] add(k, more)
          x = f32[5,2,16] copy(given)
          start = s32[] constant(0)
          begin = s32[] copy(start)
          zero = f32[] constant(0)
          zeros = f32[5,2,16] broadcast(zero), dimensions={}
          entering = (s32[], f32[5,2,16], f32[5,2,16]) tuple(begin, zeros, x)
          inner = (s32[], f32[5,2,16], f32[5,2,16]) while(entering), condition=condition, body=body
          made = f32[5,2,16] get-tuple-element(inner), index=1
          left = f32[5,2,16] copy(made)
          ROOT next_around = (s32[], f32[5,2,16]) tuple(later, left)
        }

        fewer {
          around = (s32[], f32[5,2,16]) parameter(0)
          l = s32[] get-tuple-element(around), index=0
          most = s32[] constant(3)
          ROOT goes_on = pred[] compare(l, most), direction=LT
        }

        ENTRY main {
          first = s32[] constant(0)
          before = s32[] copy(first)
          input = f32[5,2,16] parameter(0)
          array = f32[5,2,16] copy(input)
          state0 = (s32[], f32[5,2,16]) tuple(before, array)
          loop = (s32[], f32[5,2,16]) while(state0), condition=fewer, body=again
          y = f32[5,2,16] get-tuple-element(loop), index=1
          ROOT results = (f32[5,2,16]) tuple(y)
        }
    """
    graph = Emission(LOOP[:main] + outer).graph(["y"], loops=False, y="output")
    assert CountLoops().run(graph) == 4
    assert lines_after(HoistProducts(), graph, rewrites=1) == [
        "%2 u8[640] = kernel %0 u8[640] {symbol=array}",
        "%3 = while (%2) {trip_count=3}",
        "  body(%4):",
        "    %5 u8[640] = kernel %4 u8[640] {symbol=x}",
        (
            "    %6 f32[10,32] = dot %5 f32[10,16], %1 f32[16,32]"
            " {lhs_contracting=[1], rhs_contracting=[0]}"
        ),
        "    %7 = while (undefined) {trip_count=5}",
        "      body(%8):",
        "        %9 u8[128] = kernel %6+256i u8[256] {symbol=gates}",
        "        %10+128i u8[128] into %8 = copy %9 u8[128]",
        "        yield %10",
        "    %11 u8[640] = kernel %7 u8[640] {symbol=left}",
        "    yield %11",
    ]


def test_counters_stay_where_they_are_read() -> None:
    graph = _graph(("tuple(y)", "tuple(y, n)"), results=("y", "n"))
    lines = lines_after(CountLoops(), graph, rewrites=3)
    symbols = [line.partition("symbol=")[2] for line in lines if "symbol=" in line]
    assert symbols == ["begin}", "i}", "next}", "gates}"]


def test_slices_that_move_overlap_what_they_pass() -> None:
    moving = Slice(allocation=0, offset=100, size=10, step=-20, iterations=3)
    assert moving.whole == Slice(allocation=0, offset=60, size=50)
    for offset, expected in ((50, False), (55, True), (75, True), (109, True), (110, False)):
        assert overlap(moving, Slice(allocation=0, offset=offset, size=10)) == expected
