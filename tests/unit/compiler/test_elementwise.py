"""Kernels of a loop that follow each other element by element become one step, which computes what they did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from modelwheel.compiler.ir.graph import Graph, Node
from modelwheel.compiler.passes.counted_loops import CountLoops
from modelwheel.compiler.passes.elementwise_chains import ChainElementwise
from modelwheel.program import ops
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.graphs import lines_after
from tests.support.interpreter import elements, evaluate
from tests.support.modules import Emission

CELL = """
gate {
  x = f32[3,16] parameter(0)
  bias = f32[16] parameter(1)
  biases = f32[3,16] broadcast(bias), dimensions={1}
  sum = f32[3,16] add(x, biases)
  part = f32[3,8] slice(sum), slice={[0:3], [0:8]}
  one = f32[] constant(1)
  ones = f32[3,8] broadcast(one), dimensions={}
  minus = f32[3,8] negate(part)
  power = f32[3,8] exponential(minus)
  total = f32[3,8] add(ones, power)
  ROOT sigmoid = f32[3,8] divide(ones, total)
}

value {
  x = f32[3,16] parameter(0)
  bias = f32[16] parameter(1)
  biases = f32[3,16] broadcast(bias), dimensions={1}
  sum = f32[3,16] add(x, biases)
  part = f32[3,8] slice(sum), slice={[0:3], [8:16]}
  ROOT result = f32[3,8] tanh(part)
}

both {
  gate = f32[3,8] parameter(0)
  value = f32[3,8] parameter(1)
  ROOT product = f32[3,8] multiply(gate, value)
}

ENTRY main {
  input = f32[3,16] parameter(0)
  x = f32[3,16] custom-call(input)
  bias = f32[16] parameter(1)
  gate = f32[3,8] fusion(x, bias), kind=kLoop, calls=gate
  value = f32[3,8] fusion(x, bias), kind=kLoop, calls=value
  both = f32[3,8] fusion(gate, value), kind=kLoop, calls=both
  ROOT results = (f32[3,8]) tuple(both)
}
"""
"""sigmoid(a) * tanh(b), where a and b are halves of x plus a bias, by a kernel for each factor and one for the product."""
READ_AGAIN = ("tuple(both)", "tuple(both, gate)")


def _graph(emission: Emission, *results: str, inside: bool = True) -> Graph:
    """The kernels, in a loop."""
    places = results or ("both",)
    return emission.graph(places, loops=inside, **dict.fromkeys(places, "output"))


def _body(graph: Graph) -> Sequence[Node]:
    (loop,) = (node for node in graph.body.nodes if node.regions)
    return loop.regions[-1].nodes


def _kinds(graph: Graph, rewrites: int = 1) -> list[str]:
    """The kinds of steps in the loop afterwards."""
    lines_after(ChainElementwise(), graph, rewrites=rewrites)
    return [node.op.kind for node in _body(graph) if node.op.kind != "join"]


def test_kernels_become_one_step_that_writes_what_others_read() -> None:
    """sigmoid, tanh, multiply => elementwise {gated_tanh}"""
    graph = _graph(Emission(CELL))
    assert lines_after(ChainElementwise(), graph, rewrites=1) == [
        "%2 = while (undefined) {trip_count=2}",
        "  body(%3):",
        "    %4 u8[192] = kernel %0 u8[192] {symbol=x}",
        (
            "    %5 f32[3,8] = elementwise %4 f32[3,8]{16,1}, %1 f32[3,8]{0,1}, "
            "%4 f32[3,8]{16,1}@8, %1 f32[3,8]{0,1}@8 "
            "{code=(gated_tanh(add(read0, read1), add(read2, read3)))}"
        ),
        "    yield %5",
    ]
    _, step = _body(graph)
    assert step.covers == {"gate", "value", "both"}
    assert isinstance(step.op, ops.Elementwise)
    random = np.random.default_rng(1)
    x, bias = (random.standard_normal(size, np.float32) for size in ((3, 16), 16))
    buffers = [x, bias, x, bias]
    reads = [
        elements(buffer.reshape(-1).view(np.uint8), operand.view, 0)
        for buffer, operand in zip(buffers, step.inputs.values(), strict=True)
    ]
    sums = x + bias
    expected = np.tanh(sums[:, 8:]) / (1 + np.exp(-sums[:, :8]))
    (found,) = evaluate(step.op.code, reads)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_value_that_others_read_is_written_and_computed_by_itself() -> None:
    graph = _graph(Emission(CELL, READ_AGAIN), "both", "gate")
    assert _kinds(graph) == ["kernel", "elementwise"]
    step = _body(graph)[1]
    assert isinstance(step.op, ops.Elementwise)
    assert len(step.outputs) == 2
    assert "gated_tanh" not in [one.opcode for one in step.op.code.operations]


@pytest.mark.parametrize("last", ["sine", "exponential"])
def test_a_kernel_that_computes_anything_else_stays(last: str) -> None:
    graph = _graph(Emission(CELL, ("tanh(part)", f"{last}(part)")))
    assert _kinds(graph) == ["kernel", "kernel", "elementwise"]
    assert "value" in _body(graph)[1].covers


def test_kernels_without_activations_stay() -> None:
    text = """
        sum {
          a = f32[3,8] parameter(0)
          b = f32[3,8] parameter(1)
          ROOT sum = f32[3,8] add(a, b)
        }

        ENTRY main {
          x = f32[3,8] parameter(0)
          y = f32[3,8] parameter(1)
          ROOT f = f32[3,8] fusion(x, y), kind=kLoop, calls=sum
        }
    """
    assert _kinds(_graph(Emission(text), "f"), rewrites=0) == ["kernel"]


def test_kernels_outside_of_loops_stay() -> None:
    lines = lines_after(ChainElementwise(), _graph(Emission(CELL), inside=False), rewrites=0)
    assert len(lines) == 4


@pytest.mark.parametrize("results", [("both",), ("both", "gate")])
def test_memory_that_xla_uses_again_is_no_obstacle(results: tuple[str, ...]) -> None:
    """Rows of the first value would be written over later rows of `x`: it is elsewhere."""
    cell = Emission(CELL, at={"value": "x"})
    graph = _graph(cell, *results)
    assert _kinds(graph) == ["kernel", "elementwise"]
    step = _body(graph)[1]
    assert all(not one.near and one.base is None for one in step.outputs.values())


def test_state_is_not_written_before_all_of_it_is_read() -> None:
    """Both halves of the state's memory have what the next iteration reads, row by row after each other."""
    state = ("x = f32[3,16] custom-call(input)", "x = f32[3,16] parameter(2)")
    places = Emission(CELL, state)
    x = places.place("x")
    halves = [x.model_copy(update={"offset": offset, "size": 96}) for offset in (0, 96)]
    cell = Emission(CELL, state, at=dict(zip(("gate", "both"), halves, strict=True)))
    order = ["value", "gate", "both"]
    cell.steps.sort(key=lambda one: order.index(min(one.covers)))
    graph = cell.graph(["x"], loops=True, x="output")
    assert _kinds(graph) == ["elementwise", "kernel", "kernel"]


@pytest.mark.parametrize(
    ("spoiled", "kinds"),
    [
        ("x", ["elementwise", "kernel", "elementwise"]),
        # What it leaves there is read, and nothing that was there before.
        ("gate", ["kernel", "elementwise"]),
        # Nobody reads what it leaves there.
        ("both", ["elementwise"]),
    ],
)
def test_steps_move_only_past_what_leaves_their_values_alone(
    spoiled: str, kinds: list[str]
) -> None:
    state = ("x = f32[3,16] custom-call(input)", "x = f32[3,16] parameter(2)")
    cell = Emission(CELL, state)
    result = View.of_bytes(cell.place(spoiled))
    cell.insert("value", Step(op=ops.Kernel(symbol="other"), outputs={"result0": result}))
    graph = cell.graph(["both", "x"], loops=True, both="output", x="output")
    assert _kinds(graph, rewrites=kinds.count("elementwise")) == kinds


def test_a_kernel_that_needs_a_value_of_the_chain_ends_it() -> None:
    between = ("value = f32[3,8] fusion(x, bias)", "value = f32[3,8] fusion(sine, bias)")
    sine = ("gate = f32[3,8] fusion", "GATE")
    text = CELL.replace(*between).replace(*sine)
    text = text.replace(
        "  GATE(x, bias), kind=kLoop, calls=gate\n",
        "  gate = f32[3,8] fusion(x, bias), kind=kLoop, calls=gate\n"
        "  sine = f32[3,16] custom-call(gate)\n",
    )
    assert _kinds(_graph(Emission(text)), rewrites=2) == [
        "kernel",
        "elementwise",
        "kernel",
        "elementwise",
    ]


LAYER = (
    CELL.partition("ENTRY")[0]
    + """
slicing {
  array = f32[4,3,16] parameter(0)
  i = s32[] parameter(1)
  zero = s32[] constant(0)
  part = f32[1,3,16] dynamic-slice(array, i, zero, zero), dynamic_slice_sizes={1,3,16}
  ROOT flat = f32[3,16] bitcast(part)
}

chosen {
  both = f32[3,8] parameter(0)
  h = f32[3,8] parameter(1)
  m = pred[4,3] parameter(2)
  i = s32[] parameter(3)
  zero = s32[] constant(0)
  part = pred[1,3] dynamic-slice(m, i, zero), dynamic_slice_sizes={1,3}
  row = pred[3] bitcast(part)
  mask = pred[3,8] broadcast(row), dimensions={0}
  ROOT new = f32[3,8] select(mask, both, h)
}

updating {
  array = f32[4,3,8] parameter(0)
  i = s32[] parameter(1)
  new = f32[3,8] parameter(2)
  zero = s32[] constant(0)
  part = f32[1,3,8] bitcast(new)
  ROOT updated = f32[4,3,8] dynamic-update-slice(array, part, i, zero, zero)
}

body {
  state = (s32[], f32[3,8], f32[4,3,8], f32[4,3,16], pred[4,3]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  h = f32[3,8] get-tuple-element(state), index=1
  target = f32[4,3,8] get-tuple-element(state), index=2
  source = f32[4,3,16] get-tuple-element(state), index=3
  m = pred[4,3] get-tuple-element(state), index=4
  x = f32[3,16] fusion(source, i), kind=kLoop, calls=slicing
  bias = f32[16] constant({...})
  gate = f32[3,8] fusion(x, bias), kind=kLoop, calls=gate
  value = f32[3,8] fusion(x, bias), kind=kLoop, calls=value
  both = f32[3,8] fusion(gate, value), kind=kLoop, calls=both
  chosen = f32[3,8] fusion(both, h, m, i), kind=kLoop, calls=chosen
  update = f32[4,3,8] fusion(target, i, chosen), kind=kLoop, calls=updating
  step = s32[] constant(1)
  next = s32[] add(i, step)
  ROOT after = (s32[], f32[3,8], f32[4,3,8], f32[4,3,16], pred[4,3]) tuple(next, chosen, update, source, m)
}

condition {
  state = (s32[], f32[3,8], f32[4,3,8], f32[4,3,16], pred[4,3]) parameter(0)
  j = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(4)
  ROOT less = pred[] compare(j, limit), direction=LT
}

ENTRY main {
  source0 = f32[4,3,16] parameter(0)
  m0 = pred[4,3] parameter(1)
  zero = s32[] constant(0)
  begin = s32[] copy(zero)
  none = f32[] constant(0)
  h0 = f32[3,8] broadcast(none), dimensions={}
  target0 = f32[4,3,8] broadcast(none), dimensions={}
  state = (s32[], f32[3,8], f32[4,3,8], f32[4,3,16], pred[4,3]) tuple(begin, h0, target0, source0, m0)
  loop = (s32[], f32[3,8], f32[4,3,8], f32[4,3,16], pred[4,3]) while(state), condition=condition, body=body
  last = f32[3,8] get-tuple-element(loop), index=1
  all = f32[4,3,8] get-tuple-element(loop), index=2
  ROOT results = (f32[3,8], f32[4,3,8]) tuple(last, all)
}
"""
)
"""A recurrent layer that keeps its state where a mask is false, and collects the states of all iterations."""


def test_the_step_of_a_layer_reads_its_mask_and_writes_its_state_to_both_places() -> None:
    """slice, gates, m[i] ? new : old, update => elementwise; what counted for the mask is left out"""
    graph = Emission(LAYER).graph(["last", "all"], last="output", all="output")
    CountLoops().run(graph)
    assert lines_after(ChainElementwise(), graph, rewrites=1) == [
        "%4 u8[96] = kernel %2 u8[4] {symbol=h0}",
        "%5, %6 = while (%4, undefined) {trip_count=4}",
        "  body(%7, %8):",
        (
            "    %9 f32[3,8], %10+96i f32[3,8] into %8 = elementwise %0+192i f32[3,8]{16,1}, "
            "%3 f32[3,8]{0,1}, %0+192i f32[3,8]{16,1}@8, %3 f32[3,8]{0,1}@8, %7 f32[3,8], "
            "%1+3i pred[3,8]{1,0} {code=(v9 = select(read5, "
            "gated_tanh(add(read0, read1), add(read2, read3)), read4); v9, v9)}"
        ),
        "    yield %9, %10",
    ]


def test_kernels_may_take_their_part_of_an_array_themselves() -> None:
    """So XLA does with products that it has moved out of the loop itself."""
    inside = (
        "  x = f32[3,16] parameter(0)\n  bias = f32[16] parameter(1)\n",
        (
            "  array = f32[4,3,16] parameter(0)\n"
            "  bias = f32[16] parameter(1)\n"
            "  i = s32[] parameter(2)\n"
            "  zero = s32[] constant(0)\n"
            "  part3 = f32[1,3,16] dynamic-slice(array, i, zero, zero), dynamic_slice_sizes={1,3,16}\n"
            "  x = f32[3,16] bitcast(part3)\n"
        ),
    )
    emission = Emission(LAYER, inside, ("fusion(x, bias)", "fusion(source, bias, i)"))
    graph = emission.graph(["last", "all"], last="output", all="output")
    CountLoops().run(graph)
    lines = lines_after(ChainElementwise(), graph, rewrites=1)
    (step,) = (line for line in lines if "elementwise" in line)
    assert "%0+192i f32[3,8]{16,1}, " in step
    assert "%0+192i f32[3,8]{16,1}@8, " in step


def test_the_part_of_an_array_with_the_batch_first_is_rows_that_are_apart() -> None:
    """So it is where the transpose that an exporter writes before a layer has gone through a product."""
    inside = (
        "  x = f32[3,16] parameter(0)\n  bias = f32[16] parameter(1)\n",
        (
            "  array = f32[4,3,16] parameter(0)\n"
            "  bias = f32[16] parameter(1)\n"
            "  i = s32[] parameter(2)\n"
            "  zero = s32[] constant(0)\n"
            "  part3 = f32[3,1,16] dynamic-slice(array, zero, i, zero), dynamic_slice_sizes={3,1,16}\n"
            "  x = f32[3,16] bitcast(part3)\n"
        ),
    )
    batch_first = ("f32[4,3,16]", "f32[3,4,16]")
    call = ("fusion(x, bias)", "fusion(source, bias, i)")
    emission = Emission(LAYER, inside, call, batch_first)
    graph = emission.graph(["last", "all"], last="output", all="output")
    CountLoops().run(graph)
    lines = lines_after(ChainElementwise(), graph, rewrites=1)
    (step,) = (line for line in lines if "elementwise" in line)
    assert "%0+64i f32[3,8]{64,1}, " in step
    assert "%0+64i f32[3,8]{64,1}@8, " in step


def test_a_mask_that_is_too_short_is_read_by_a_kernel() -> None:
    """XLA takes its last row again."""
    graph = Emission(LAYER, ("pred[4,3]", "pred[3,3]")).graph(
        ["last", "all"], last="output", all="output"
    )
    CountLoops().run(graph)
    lines = lines_after(ChainElementwise(), graph, rewrites=1)
    assert any("symbol=chosen}" in line for line in lines)
