"""Estimates of what steps cost, and of what threads can share."""

from __future__ import annotations

import pytest

from modelwheel.codegen import estimate_cost
from modelwheel.codegen.cost import count_branches, count_parts, partial_part, shared_part
from modelwheel.codegen.rows.demand import FirstRows
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Slice
from modelwheel.program.steps import Step
from modelwheel.program.traffic import bytes_moved
from modelwheel.program.view import View
from tests.support.programs import (
    array,
    branches,
    byte_layer,
    dense,
    dot,
    kernel,
    loop,
    matmul_program,
    of_bytes,
)


def _dot(operations: int, rows: int = 2) -> Step:
    (dot,) = matmul_program(rows).steps
    return dot.model_copy(update={"operations": operations})


def _loop(operations: int, trip_count: int = 10) -> Step:
    return loop(_dot(operations), trip_count=trip_count)


def _branches(operations: int, trip_count: int = 10, count: int = 2) -> Step:
    """Loops of one product each."""
    return branches(*[(_loop(operations, trip_count),)] * count)


def test_larger_batches_cost_more_but_less_for_each_row() -> None:
    costs = [estimate_cost(matmul_program(batch)) for batch in (1, 16, 256)]
    assert costs == sorted(costs)
    assert costs[2] / 256 < costs[1] / 16 < costs[0]


def test_rows_cost_more_in_a_batch_that_leaves_the_cache() -> None:
    kept, left, far = (estimate_cost(matmul_program(rows)) / rows for rows in (2**14, 2**17, 2**20))
    assert kept < left < far


def test_a_batch_that_needs_much_memory_must_be_quicker_than_smaller_ones() -> None:
    def cost(temporary: int) -> float:
        program = matmul_program(64)
        scratch = Slice(allocation=3, offset=0, size=64)
        allocations = (
            a.model_copy(update={"size": temporary}) if a.index == 3 else a
            for a in program.allocations
        )
        steps = (*program.steps, kernel(writes=scratch))
        changed = {"allocations": tuple(allocations), "steps": steps}
        return estimate_cost(program.model_copy(update=changed))

    assert cost(512 << 10) == cost(64)
    assert 1.02 * cost(64) < cost(513 << 10) < 1.04 * cost(64)


def test_a_lookup_costs_the_rows_that_it_reads() -> None:
    def lookup(rows: int) -> Step:
        table = array((rows, 20), (1, 0), 0, element_type=ElementType.UINT8)
        indices = array((6,), (0,), 1, element_type=ElementType.INT32)
        output = array((6, 20), (1, 0), 2, element_type=ElementType.UINT8)
        return Step(
            op=ops.Lookup(wrap=rows),
            inputs={"table": table, "indices": indices},
            outputs={"output": output},
        )

    programs = [
        matmul_program().model_copy(update={"steps": (lookup(rows),)}) for rows in (3, 6, 10**6)
    ]
    costs = [estimate_cost(program) for program in programs]
    assert costs[0] < costs[1] == costs[2]
    assert bytes_moved(programs[2]) == 6 * 20 + 6 * 4 + 6 * 20


def test_bytes_between_the_elements_of_an_array_are_not_moved() -> None:
    def moved(gap: int) -> int:
        part = Slice(allocation=0, offset=0, size=4 * (gap + 4))
        rows = View(slice=part, element_type=ElementType.FLOAT32, shape=(2, 4), strides=(gap, 1))
        step = dot(rows, dense((4, 3), 1), dense((2, 3), 2))
        return bytes_moved(matmul_program().model_copy(update={"steps": (step,)}))

    assert moved(1000) == moved(4)


@pytest.mark.parametrize(("columns", "ratio"), [(400, 1.0), (1200, 2.0)])
def test_iterations_read_weights_again_that_the_cache_does_not_hold(
    columns: int, ratio: float
) -> None:
    """Of many rows, each iteration reads as many weights as of one: a row of them costs less."""

    def cost_of_a_row(rows: int) -> float:
        x, w, y = dense((rows, 400), 0), dense((400, columns), 1), dense((rows, columns), 2)
        product = dot(x, w, y, operations=2 * rows * 400 * columns)
        program = matmul_program(rows)
        sizes = {index: view.slice.size for index, view in enumerate((x, w, y))}
        allocations = (
            a.model_copy(update={"size": sizes.get(a.index, a.size)}) for a in program.allocations
        )
        steps = (loop(product, trip_count=100),)
        changed = {"allocations": tuple(allocations), "steps": steps}
        return estimate_cost(program.model_copy(update=changed)) / rows

    assert cost_of_a_row(1) / cost_of_a_row(16) > ratio


def test_weights_beyond_the_cache_cost_more_than_what_steps_pass_on() -> None:
    """Steps read and write that in order; the input product of an LSTM took 17 times less than was estimated."""

    def cost(kind: str, columns: int) -> float:
        product = dot(dense((1, 512), 0), dense((512, columns), 1), dense((1, columns), 2))
        size = 512 * columns * 4
        program = matmul_program()
        allocations = (
            a.model_copy(update={"kind": kind, "size": size}) if a.index == 1 else a
            for a in program.allocations
        )
        changed = {"allocations": tuple(allocations), "steps": (product,)}
        return estimate_cost(program.model_copy(update=changed))

    near, far = 128, 8192
    assert cost("constant", near) < cost("output", near)
    assert cost("constant", far) > 2 * cost("output", far)


def test_each_iteration_costs_its_steps_and_weights() -> None:
    """Weights that a cache holds cost less in later iterations, but something."""

    def cost(trips: int, *, constant: bool) -> float:
        product = dot(dense((1, 64), 0), dense((64, 64), 1), dense((1, 64), 2))
        program = matmul_program()
        kind = "constant" if constant else "temporary"
        allocations = (
            a.model_copy(update={"kind": kind}) if a.index == 1 else a for a in program.allocations
        )
        steps = (loop(product, trip_count=trips),)
        changed = {"allocations": tuple(allocations), "steps": steps}
        return estimate_cost(program.model_copy(update=changed))

    weights, step = 64 * 64 * 4 / 40, 15 + 2 * 64 * 4 / 20
    assert cost(3, constant=True) - cost(1, constant=True) == pytest.approx(
        weights + 2 * step, 0.01
    )
    assert cost(3, constant=False) > cost(3, constant=True)


def test_rows_of_a_table_grow_with_the_batch() -> None:
    table = array((500, 256), (1, 0), 1, element_type=ElementType.UINT8)
    step = Step(
        op=ops.Lookup(wrap=500),
        inputs={"table": table, "indices": array((4,), (0,), 0, element_type=ElementType.INT32)},
        outputs={"output": array((4, 256), (1, 0), 2, element_type=ElementType.UINT8)},
    )
    result = array((4, 256), (1, 0), 2, element_type=ElementType.UINT8)
    program = matmul_program(4).model_copy(update={"steps": (step,), "results": (result,)})
    grows = partial_part(program, FirstRows(program, 4, [True])) * estimate_cost(program)
    assert grows == pytest.approx(0.99 * (2 * 4 * 256 + 4 * 4) / 20, 0.02)


def test_large_steps_have_work_for_threads() -> None:
    # By the roofline of the costs, 27 and 67 us: products with three columns are slower.
    assert [count_parts(_dot(n)) for n in (24, 300_000, 750_000)] == [1, 2, 5]
    assert count_parts(_dot(3_000_000), in_loop=True) == 5


@pytest.mark.parametrize("element", [ElementType.FLOAT16, ElementType.INT32])
def test_products_of_other_types_are_not_shared(element: ElementType) -> None:
    large = _dot(10_000_000)
    inputs = {
        role: view.model_copy(update={"element_type": element})
        for role, view in large.inputs.items()
    }
    assert count_parts(large) > 1
    assert count_parts(large.model_copy(update={"inputs": inputs})) == 1


def test_products_of_bytes_are_shared() -> None:
    assert count_parts(of_bytes(_dot(10_000_000))) > 1


@pytest.mark.parametrize("rows", [1, 2])
def test_what_follows_products_of_bytes_does_not_cost_their_threads(rows: int) -> None:
    shared = [count_parts(of_bytes(_dot(n, rows))) for n in (100_000, 200_000, 900_000)]
    assert [count_parts(byte_layer(_dot(n, rows))) for n in (100_000, 200_000, 900_000)] == shared
    assert shared[-1] > 1


@pytest.mark.parametrize(("rows", "parts"), [(1, 2), (2, 1)])
def test_products_of_one_row_are_shared_where_they_take_half_as_long(rows: int, parts: int) -> None:
    assert count_parts(_dot(150_000, rows)) == parts


def test_kernels_of_xla_are_not_shared() -> None:
    large = kernel(operations=10_000_000)
    assert count_parts(large) == 1


@pytest.mark.parametrize(
    ("step", "count"),
    [
        (_branches(120_000), 2),
        (_branches(40_000, count=5), 5),
        (_branches(10_000), 1),
        (_branches(10_000, trip_count=120), 2),
        (_branches(1_500_000, trip_count=1), 2),
        (branches((_loop(120_000),), ()), 1),
    ],
)
def test_branches_are_worth_a_thread_if_others_take_much_off_one(step: Step, count: int) -> None:
    assert count_branches(step) == count


@pytest.mark.parametrize(
    ("steps", "part"),
    [
        (matmul_program().steps, 0.0),
        # A step of 27 us saves next to nothing, and in a loop nothing; of 900 us, two threads save nearly a half.
        ((_dot(300_000),), 0.1),
        ((_loop(300_000),), 0.0),
        ((_dot(10_000_000),), 0.97),
        ((_loop(10_000_000),), 0.89),
        # All but one of the branches run in parallel with that.
        ((_branches(120_000),), 0.5),
        ((_branches(120_000, count=4),), 0.75),
        ((_branches(100),), 0.0),
        ((), 0.0),
    ],
)
def test_threads_share_large_steps_and_branches(steps: tuple[Step, ...], part: float) -> None:
    program = matmul_program().model_copy(update={"steps": steps})
    assert shared_part(program) == pytest.approx(part, abs=0.01)
