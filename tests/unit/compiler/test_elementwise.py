"""Kernels that follow each other element by element become one step, which computes what they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.ir.counters import Counters, Linear
from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.elementwise import Plane
from modelwheel.compiler.passes.elementwise_chains import join_elementwise
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.program.arrays import Slice, overlap
from tests.support.modules import Emission

ROWS, UNITS, TRIP_COUNT = 3, 8, 4
FLAT_BYTES = ROWS * UNITS * 4
COUNTERS = Counters(TRIP_COUNT, {}, frozenset())

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
  x = f32[3,16] parameter(0)
  bias = f32[16] parameter(1)
  gate = f32[3,8] fusion(x, bias), kind=kLoop, calls=gate
  value = f32[3,8] fusion(x, bias), kind=kLoop, calls=value
  both = f32[3,8] fusion(gate, value), kind=kLoop, calls=both
  ROOT results = (f32[3,8]) tuple(both)
}
"""
"""sigmoid(a) * tanh(b), where a and b are halves of x plus a bias, by a kernel for each factor and one for the product."""
READ_AGAIN = ("tuple(both)", "tuple(both, gate)")


def _joined(emission: Emission, counters: Counters = COUNTERS) -> list[p.Thunk]:
    emitted = list(emission.emitted)
    join_elementwise(emission.hlo, counters, emitted)
    return [one.thunk for one in emitted]


def _run(step: p.Elementwise, memory: dict[int, np.ndarray[Any, Any]]) -> None:
    """Evaluates a step on allocations of floats and of bytes."""

    def rows(plane: Plane, columns: int) -> np.ndarray[Any, Any]:
        array = memory[plane.slice.allocation]
        first = plane.slice.offset // array.itemsize + plane.start
        return np.stack(
            [array[first + row * plane.row_step :][:columns] for row in range(step.rows)]
        )

    values = [rows(plane, step.columns) for plane in step.reads]
    masks = [rows(plane, 1) != 0 for plane in step.masks]
    functions: dict[str, Callable[..., Any]] = {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "divide": np.divide,
        "negate": np.negative,
        "tanh": np.tanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "gated_tanh": lambda x, y: np.tanh(y) / (1 + np.exp(-x)),
    }
    for one in step.code:
        operands = [values[number] for number in one.operands]
        if one.opcode == "constant":
            values.append(np.full((step.rows, step.columns), one.value))
        elif one.opcode == "select":
            assert one.mask is not None
            values.append(np.where(masks[one.mask], *operands))
        else:
            values.append(functions[one.opcode](*operands))
    for plane, number in zip(step.writes, step.stored, strict=True):
        array = memory[plane.slice.allocation]
        for row in range(step.rows):
            first = plane.slice.offset // 4 + plane.start + row * plane.row_step
            array[first : first + step.columns] = values[number][row]


def test_kernels_become_one_step_that_writes_what_others_read() -> None:
    """sigmoid, tanh, multiply => elementwise {gated_tanh}"""
    cell = Emission(CELL)
    (step,) = _joined(cell)
    assert isinstance(step, p.Elementwise)
    assert (step.rows, step.columns) == (ROWS, UNITS)
    assert [plane.slice for plane in step.writes] == [cell.place("both")]
    assert "gated_tanh" in [one.opcode for one in step.code]
    random = np.random.default_rng(1)
    places = {name: cell.place(name) for name in ("x", "bias", "gate", "value", "both")}
    memory = {s.allocation: random.standard_normal(s.size // 4) for s in places.values()}
    x = memory[places["x"].allocation].reshape(ROWS, -1)
    sums = x + memory[places["bias"].allocation]
    expected = np.tanh(sums[:, UNITS:]) / (1 + np.exp(-sums[:, :UNITS]))
    _run(step, memory)
    found = memory[places["both"].allocation].reshape(ROWS, -1)
    np.testing.assert_allclose(found, expected)


def test_a_value_that_others_read_is_written_and_computed_by_itself() -> None:
    cell = Emission(CELL, READ_AGAIN)
    (step,) = _joined(cell)
    assert isinstance(step, p.Elementwise)
    assert {plane.slice for plane in step.writes} == {cell.place("both"), cell.place("gate")}
    assert "gated_tanh" not in [one.opcode for one in step.code]


@pytest.mark.parametrize("last", ["sine", "exponential"])
def test_a_kernel_that_computes_anything_else_stays(last: str) -> None:
    found = _joined(Emission(CELL, ("tanh(part)", f"{last}(part)")))
    assert any(isinstance(one, p.Kernel) and one.symbol == "value" for one in found)


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
    assert [thunk.kind for thunk in _joined(Emission(text))] == ["kernel"]


@pytest.mark.parametrize("changes", [(), (READ_AGAIN,)])
def test_memory_that_is_used_again_is_not_written_before_it_is_read(
    changes: tuple[tuple[str, str], ...],
) -> None:
    """Rows of the first value would be written over later rows of `x`."""
    cell = Emission(CELL, *changes, at={"gate": "x"})
    # The second kernel reads `x` too: it must come before.
    cell.emitted.sort(key=lambda one: ["value", "gate", "both"].index(one.instruction))
    found = _joined(cell)
    for step in found:
        if isinstance(step, p.Elementwise):
            for read in step.reads:
                spoiled = [w for w in step.writes if overlap(w.slice, read.slice)]
                assert all(w == read for w in spoiled)
    # The kernel that must write there spoils what it reads itself.
    kinds = [step.kind for step in found]
    assert kinds == (["elementwise", "kernel", "kernel"] if changes else ["elementwise"])


@pytest.mark.parametrize(
    ("spoiled", "kinds"),
    [
        ("x", ["elementwise", "kernel", "elementwise"]),
        ("gate", ["elementwise", "kernel", "elementwise"]),
        ("both", ["kernel", "elementwise"]),
    ],
)
def test_steps_move_only_past_what_leaves_their_memory_alone(
    spoiled: str, kinds: list[str]
) -> None:
    cell = Emission(CELL)
    writes = p.Kernel(
        operations=1,
        symbol="other",
        workgroups=(1, 1, 1),
        arguments=(),
        results=(cell.place(spoiled),),
    )
    cell.insert("value", writes)
    assert [thunk.kind for thunk in _joined(cell)] == kinds


def test_results_are_copied_by_the_step_that_computes_them() -> None:
    cell = Emission(CELL)
    place = Slice(allocation=99, offset=0, size=FLAT_BYTES, step=FLAT_BYTES, iterations=TRIP_COUNT)
    copy = p.Copy(operations=0, source=cell.place("both"), destination=place)
    cell.emitted.append(Emitted(copy, "other"))
    (step,) = _joined(cell)
    assert isinstance(step, p.Elementwise)
    assert [plane.slice for plane in step.writes] == [cell.place("both"), place]
    assert step.stored[0] == step.stored[1]


@pytest.mark.parametrize("extent", [TRIP_COUNT, TRIP_COUNT - 1])
def test_a_mask_is_read_where_the_iteration_finds_it(extent: int) -> None:
    """m[i] ? tanh(x) : x => elementwise {mask=slice that moves}, unless the array is too short"""
    text = """
        chosen {
          x = f32[3,8] parameter(0)
          m = pred[4,3] parameter(1)
          i = s32[] parameter(2)
          zero = s32[] constant(0)
          part = pred[1,3] dynamic-slice(m, i, zero), dynamic_slice_sizes={1,3}
          row = pred[3] bitcast(part)
          mask = pred[3,8] broadcast(row), dimensions={0}
          tanh = f32[3,8] tanh(x)
          ROOT new = f32[3,8] select(mask, tanh, x)
        }

        ENTRY body {
          x = f32[3,8] parameter(0)
          m = pred[4,3] parameter(1)
          state = (s32[]) parameter(2)
          i = s32[] get-tuple-element(state), index=0
          ROOT chosen = f32[3,8] fusion(x, m, i), kind=kLoop, calls=chosen
        }
    """
    emission = Emission(text, ("pred[4,3]", f"pred[{extent},3]"))
    (step,) = _joined(emission, Counters(TRIP_COUNT, {0: Linear(0, 1)}, frozenset()))
    if extent < TRIP_COUNT:
        assert isinstance(step, p.Kernel)
        return
    assert isinstance(step, p.Elementwise)
    (mask,) = step.masks
    assert (mask.slice.size, mask.slice.step, mask.slice.iterations) == (ROWS, ROWS, TRIP_COUNT)
    assert mask.row_step == 1
