"""Kernels that follow each other element by element become one step, which computes what they did."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.counters import Counters, Linear
from modelwheel.compiler.ir.elementwise import Plane
from modelwheel.compiler.passes.elementwise_chains import join_elementwise
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.program.arrays import Slice, overlap
from tests.support.modules import Steps, shape

ROWS, UNITS, TURNS = 3, 8, 4
WIDE, FLAT, VECTOR, SCALAR = shape(ROWS, 2 * UNITS), shape(ROWS, UNITS), shape(2 * UNITS), shape()
COUNTERS = Counters(TURNS, {}, frozenset())


def _constant(steps: Steps, within: str, name: str, value: float) -> str:
    steps.add(name, "constant", SCALAR, within=within, literal=SimpleNamespace(f32s=[value]))
    return steps.add(f"{name}.all", "broadcast", FLAT, name, within=within)


def _sigmoid(steps: Steps, within: str, name: str, argument: str) -> str:
    one = _constant(steps, within, f"{name}.one", 1.0)
    steps.add(f"{name}.minus", "negate", FLAT, argument, within=within)
    steps.add(f"{name}.exp", "exponential", FLAT, f"{name}.minus", within=within)
    steps.add(f"{name}.sum", "add", FLAT, one, f"{name}.exp", within=within)
    return steps.add(name, "divide", FLAT, one, f"{name}.sum", within=within)


def _columns(steps: Steps, within: str, name: str, source: str, start: int) -> str:
    whole = SimpleNamespace(start=0, limit=ROWS, stride=1)
    part = SimpleNamespace(start=start, limit=start + UNITS, stride=1)
    return steps.add(name, "slice", FLAT, source, within=within, slice_dimensions=[whole, part])


def _parameters(steps: Steps, within: str, *shapes: Any) -> None:
    for number, of in enumerate(shapes):
        steps.add(f"p{number}", "parameter", of, within=within, parameter_number=number)


def _cell(*, last: str = "tanh", read_again: bool = False) -> Steps:
    """y = sigmoid(a) * tanh(b), where a and b are halves of x plus a bias, by a kernel for each factor and one for y."""
    steps = Steps()
    for name, of in (("x", WIDE), ("bias", VECTOR)):
        steps.given(name, of)
    for name, start in (("gate", 0), ("value", UNITS)):
        _parameters(steps, name, WIDE, VECTOR)
        steps.add("biases", "broadcast", WIDE, "p1", within=name, dimensions=[1])
        steps.add("sum", "add", WIDE, "p0", "biases", within=name)
        part = _columns(steps, name, "part", "sum", start)
        if name == "gate":
            _sigmoid(steps, name, "root", part)
        else:
            steps.add("root", last, FLAT, part, within=name)
    _parameters(steps, "both", FLAT, FLAT)
    steps.add("root", "multiply", FLAT, "p0", "p1", within="both")
    steps.fusion("gate", FLAT, "x", "bias")
    steps.fusion("value", FLAT, "x", "bias")
    steps.fusion("both", FLAT, "gate", "value")
    steps.add("result", "tuple", SCALAR, "both", *(["gate"] if read_again else []))
    return steps


def _joined(steps: Steps, counters: Counters = COUNTERS) -> list[p.Thunk]:
    emitted = list(steps.emitted)
    join_elementwise(steps.build(), counters, emitted)
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


def _memory(steps: Steps) -> dict[int, np.ndarray[Any, Any]]:
    random = np.random.default_rng(1)
    return {
        index: random.standard_normal(steps.place(name).size // 4)
        for index, name in enumerate(steps.allocations)
    }


def test_kernels_become_one_step_that_writes_what_others_read() -> None:
    steps = _cell()
    (step,) = _joined(steps)
    assert isinstance(step, p.Elementwise)
    assert (step.rows, step.columns) == (ROWS, UNITS)
    assert [plane.slice for plane in step.writes] == [steps.place("both")]
    assert "gated_tanh" in [one.opcode for one in step.code]
    memory = _memory(steps)
    x = memory[steps.place("x").allocation].reshape(ROWS, -1)
    sums = x + memory[steps.place("bias").allocation]
    expected = np.tanh(sums[:, UNITS:]) / (1 + np.exp(-sums[:, :UNITS]))
    _run(step, memory)
    found = memory[steps.place("both").allocation].reshape(ROWS, -1)
    np.testing.assert_allclose(found, expected)


def test_a_value_that_others_read_is_written_and_computed_by_itself() -> None:
    steps = _cell(read_again=True)
    (step,) = _joined(steps)
    assert isinstance(step, p.Elementwise)
    assert {plane.slice for plane in step.writes} == {steps.place("both"), steps.place("gate")}
    assert "gated_tanh" not in [one.opcode for one in step.code]


@pytest.mark.parametrize("last", ["sine", "exponential"])
def test_a_kernel_that_computes_anything_else_stays(last: str) -> None:
    found = _joined(_cell(last=last))
    assert any(isinstance(one, p.Kernel) and one.symbol == "value" for one in found)


def test_kernels_without_activations_stay() -> None:
    steps = Steps()
    for name in ("x", "y"):
        steps.given(name, FLAT)
    _parameters(steps, "sum", FLAT, FLAT)
    steps.add("root", "add", FLAT, "p0", "p1", within="sum")
    steps.fusion("sum", FLAT, "x", "y")
    steps.add("result", "tuple", SCALAR, "sum")
    assert [thunk.kind for thunk in _joined(steps)] == ["kernel"]


@pytest.mark.parametrize("read_again", [False, True])
def test_memory_that_is_used_again_is_not_written_before_it_is_read(read_again: bool) -> None:
    """Rows of the first value would be written over later rows of `x`."""
    steps = _cell(read_again=read_again)
    (gate,) = [one for one in steps.emitted if one.instruction == "gate"]
    assert isinstance(gate.thunk, p.Kernel)
    old, place = gate.thunk.results[0], steps.place("x").model_copy(update={"size": FLAT_BYTES})
    for one in steps.emitted:
        kernel = one.thunk
        assert isinstance(kernel, p.Kernel)
        one.thunk = kernel.model_copy(
            update={
                "arguments": tuple(place if part == old else part for part in kernel.arguments),
                "results": tuple(place if part == old else part for part in kernel.results),
            }
        )
    # The second kernel reads `x` too: it must come before.
    steps.emitted.sort(key=lambda one: ["value", "gate", "both"].index(one.instruction))
    found = _joined(steps)
    for step in found:
        if isinstance(step, p.Elementwise):
            for read in step.reads:
                spoiled = [w for w in step.writes if overlap(w.slice, read.slice)]
                assert all(w == read for w in spoiled)
    # The kernel that must write there spoils what it reads itself.
    kinds = [step.kind for step in found]
    assert kinds == (["elementwise", "kernel", "kernel"] if read_again else ["elementwise"])


FLAT_BYTES = ROWS * UNITS * 4


def _writes(place: Slice) -> Emitted:
    kernel = p.Kernel(
        operations=1, symbol="other", workgroups=(1, 1, 1), arguments=(), results=(place,)
    )
    return Emitted(kernel, "other")


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
    steps = _cell()
    steps.emitted.insert(1, _writes(steps.place(spoiled)))
    assert [thunk.kind for thunk in _joined(steps)] == kinds


def test_results_are_copied_by_the_step_that_computes_them() -> None:
    steps = _cell()
    place = Slice(allocation=99, offset=0, size=FLAT_BYTES, step=FLAT_BYTES, iterations=TURNS)
    copy = p.Copy(operations=0, source=steps.place("both"), destination=place)
    steps.emitted.append(Emitted(copy, "other"))
    (step,) = _joined(steps)
    assert isinstance(step, p.Elementwise)
    assert [plane.slice for plane in step.writes] == [steps.place("both"), place]
    assert step.stored[0] == step.stored[1]


@pytest.mark.parametrize("extent", [TURNS, TURNS - 1])
def test_a_mask_is_read_where_the_turn_finds_it(extent: int) -> None:
    """new = m[i] ? tanh(x) : x, unless the array is too short."""
    steps = Steps()

    def of(element: int, *extents: int) -> SimpleNamespace:
        found = shape(*extents)
        found.element_type = element
        return found

    pred, integer = 1, 4
    steps.given("x", FLAT)
    steps.given("m", of(pred, extent, ROWS))
    steps.add("state", "parameter", SCALAR)
    steps.add("i", "get-tuple-element", of(integer), "state", tuple_index=0)
    inside = "chosen"
    for number, (name, one) in enumerate(
        (("p0", FLAT), ("p1", of(pred, extent, ROWS)), ("p2", of(integer)))
    ):
        steps.add(name, "parameter", one, within=inside, parameter_number=number)
    steps.add(
        "zero", "constant", of(integer), within=inside, literal=SimpleNamespace(s32s=[0], f32s=[])
    )
    steps.add("part", "dynamic-slice", of(pred, 1, ROWS), "p1", "p2", "zero", within=inside)
    steps.add("row", "bitcast", of(pred, ROWS), "part", within=inside)
    steps.add("mask", "broadcast", of(pred, ROWS, UNITS), "row", within=inside, dimensions=[0])
    steps.add("tanh", "tanh", FLAT, "p0", within=inside)
    steps.add("root", "select", FLAT, "mask", "tanh", "p0", within=inside)
    steps.fusion("chosen", FLAT, "x", "m", "i")
    steps.add("result", "tuple", SCALAR, "chosen")
    (kernel,) = [one.thunk for one in steps.emitted]
    assert isinstance(kernel, p.Kernel)
    where = kernel.arguments[1].model_copy(update={"size": extent * ROWS})
    arguments = (kernel.arguments[0], where, kernel.arguments[2])
    steps.emitted[0].thunk = kernel.model_copy(update={"arguments": arguments})
    (step,) = _joined(steps, Counters(TURNS, {0: Linear(0, 1)}, frozenset()))
    if extent < TURNS:
        assert isinstance(step, p.Kernel)
        return
    assert isinstance(step, p.Elementwise)
    (mask,) = step.masks
    assert (mask.slice.size, mask.slice.step, mask.slice.iterations) == (ROWS, ROWS, TURNS)
    assert mask.row_step == 1
