"""Which steps compute only the first rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.codegen import CompiledVariant, level_source
from modelwheel.codegen.calls import CALLS
from modelwheel.codegen.cost import estimate_cost, partial_part
from modelwheel.codegen.rows.demand import FirstRows
from modelwheel.codegen.writer import StepWriter
from modelwheel.dtypes import ElementType
from modelwheel.levels import LEVELS
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.program import Program
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from modelwheel.program.walk import leaves
from tests.support.programs import (
    array,
    byte_layer,
    conditional,
    copy,
    dense,
    dot,
    kernel,
    loop,
    matmul_program,
)

ROWS = 4


def test_the_first_rows_of_a_product_need_those_of_its_left_factor() -> None:
    first, second = _product(0, 2), _product(2, 3)
    program = _program(first, second)
    assert _partial(program) == [first, second]
    assert _partial(program, per_row=False) == []
    assert FirstRows(program, ROWS, [True]).inputs == (True,)


def test_a_scalar_input_has_no_rows() -> None:
    program = _program(_product(0, 3))
    scaled = program.model_copy(update={"parameters": (*program.parameters, dense((), 5))})
    assert FirstRows(scaled, ROWS, [True]).inputs == (True, False)


def test_a_right_factor_is_needed_whole() -> None:
    computed, product = _product(0, 1), dot(dense((4, 4), 0), dense((4, 4), 1), dense((4, 4), 3))
    assert _partial(_program(computed, product)) == [product]


def test_what_nobody_knows_reads_everything() -> None:
    before, unknown, after = _product(0, 1), _kernel(1, 2), _product(2, 3)
    assert _partial(_program(before, unknown, after)) == [after]
    assert FirstRows(_program(before, unknown, after), ROWS, [True]).inputs == (False,)
    known = _kernel(1, 2, apart=8)
    # XLA's kernel computes all rows, some from what was in memory before.
    assert _partial(_program(before, known, after)) == [before, after]
    assert _partial(_program(before, _kernel(1, 2, apart=6), after)) == [after]


def test_reuse_of_memory_is_no_use() -> None:
    before, mixes, again = _product(0, 1), _kernel(1, 2), _product(2, 1)
    last = _product(1, 3)
    assert _partial(_program(before, mixes, again, last)) == [again, last]


def test_a_copy_of_some_bytes_is_none_of_rows() -> None:
    whole = Slice(allocation=1, offset=0, size=128)
    source = dense((4, 4), 1).model_copy(update={"slice": whole, "start": 16})
    moves = Step(
        op=ops.Copy(), inputs={"source": source}, outputs={"destination": dense((4, 4), 3)}
    )
    assert _partial(_program(_product(0, 1), moves)) == []
    plain = copy(Slice(allocation=1, offset=0, size=64), Slice(allocation=3, offset=0, size=64))
    assert _partial(_program(before := _product(0, 1), plain)) == [before, plain]


def test_columns_of_rows_are_apart() -> None:
    wide = [_columns(2, column) for column in (0, 2)]
    left, right = (
        dot(dense((4, 4), 0), dense((4, 2), 4), view.model_copy(update={"strides": (4, 1)}))
        for view in wide
    )
    last = _product(2, 3)
    assert _partial(_program(left, right, last)) == [left, right, last]


def test_rows_of_all_steps_of_a_sequence_are_apart() -> None:
    """Three steps of four rows each, with the steps first: the loop reads the rows of one, the product those of all."""
    steps = _program(_sequence(0, 1), _kernel_of_groups(1, 3, 3), columns=12)
    first = FirstRows(steps, ROWS, [True])
    product, moves = steps.steps
    assert product in first
    assert moves not in first
    assert first.groups(product) == 3
    writer = StepWriter(CALLS, prefix="b4", batch=4, first=first)
    (call, _) = writer.write(steps.steps)
    assert "first_rows(b4_dot_0, Groups{3}, 4, rounded_rows({4, 1}, " in call
    assert (
        "constexpr std::int64_t b4_constant_1 = least_rows<float>(b4_dot_0, Groups{3}, {4, 1});"
        in writer.tables
    )


def test_rows_of_one_step_after_the_other_are_no_rows_of_a_batch() -> None:
    batch_first = _program(_sequence(0, 1), _kernel_of_groups(1, 3, 1), columns=12)
    product, _ = batch_first.steps
    assert FirstRows(batch_first, ROWS, [True]).groups(product) == 1
    several = (_kernel_of_groups(1, 2, 3), _kernel_of_groups(1, 3, 1))
    both = _program(_sequence(0, 1), *several, _kernel_of_groups(2, 3, 1), columns=12)
    assert _partial(both) == []


def test_a_transposed_row_is_moved_alone() -> None:
    """The axis of the rows varies slowest in the result: the kernel leaves out the last ones."""
    turned = array((4, 2, 2), (1, 2, 0), 1)
    move = Step(
        op=ops.Copy(), inputs={"source": turned}, outputs={"destination": dense((4, 2, 2), 2)}
    )
    before, after = dot(dense((4, 4), 0), dense((4, 4), 4), dense((4, 4), 1)), _product(2, 3)
    program = _program(before, move, after)
    assert _partial(program) == [before, move, after]
    writer = StepWriter(CALLS, prefix="b4", batch=4, first=FirstRows(program, ROWS, [True]))
    (_, call, _) = writer.write(program.steps)
    assert "rearrange<float>(first_rows(b4_rearrangement_" in call
    assert ", &Rearrangement::rows, 4, rows), " in call
    assert any(
        table.endswith("= {4, 4, 4, {1, 1, 1, 1, 2, 2}, {0, 0, 0, 0, 1, 2}, {0, 0, 0, 0, 2, 1}};")
        for table in writer.tables
    )
    mixed = move.model_copy(update={"outputs": {"destination": array((4, 2, 2), (0, 1, 2), 2)}})
    assert mixed not in _partial(_program(before, mixed, after))


def test_loops_are_followed_until_nothing_changes() -> None:
    # What an iteration mixes, the next one reads.
    step, mixes = _product(1, 2), _kernel(2, 1)
    last = _product(2, 3)
    assert _partial(_program(_product(0, 1), loop(step, mixes), last)) == [last]
    back = _product(2, 1)
    first = _product(0, 1)
    assert _partial(_program(first, loop(step, back), last)) == [first, step, back, last]


def test_iterations_have_rows_of_their_own() -> None:
    places = Slice(allocation=5, offset=0, size=64, step=64, iterations=3)
    moving = dense((4, 4), 5).model_copy(update={"slice": places})
    write = dot(dense((4, 4), 0), dense((4, 4), 4), moving)
    read = dot(moving, dense((4, 4), 4), dense((4, 4), 3))
    both = (loop(write, trip_count=3), loop(read, trip_count=3))
    assert _partial(_program(*both)) == [write, read]
    # As one matrix of all iterations, a row is anywhere.
    all_rows = dot(dense((12, 4), 5), dense((4, 4), 4), dense((12, 4), 6))
    last = _product(6, 3)
    assert _partial(_program(loop(write, trip_count=3), all_rows, last)) == [last]


def test_a_choice_is_made_by_all_rows() -> None:
    index = _kernel(1, 2)
    before, one, other = _product(0, 1), _product(0, 3), _product(0, 3)
    choice = conditional(Slice(allocation=2, offset=0, size=4), (one,), (other,))
    assert _partial(_program(before, index, choice)) == [one, other]


def test_the_state_of_a_model_is_left_whole() -> None:
    step = _product(0, 3)
    program = _program(step)
    results = (*program.results, dense((4, 4), 3))
    allocations = [*program.allocations]
    allocations[0] = allocations[0].model_copy(update={"parameter": 0})
    kept = program.model_copy(
        update={"results": results, "parameters": (dense((4, 4), 0),) * 2, "state": (1,)}
    )
    assert _partial(kept) == []


def test_code_takes_the_number_of_rows() -> None:
    variants = [CompiledVariant(4, "b4", matmul_program(4), 30.5)]
    text = level_source(LEVELS["x86-64-v3"], variants, {"ab" * 32: 0}, 0, per_row=[True])
    assert "const Threads &threads, [[maybe_unused]] std::int64_t rows) {" in text
    assert "b4_constant_1 = least_rows<float>(b4_dot_0, &Dot::m, {4, 1});" in text
    assert (
        "dot<float>(first_rows(b4_dot_0, &Dot::m, 4, rounded_rows({4, 1}, b4_constant_1, rows)), "
        in text
    )
    assert "dot_rows_uses<float>(b4_dot_0, &Dot::m, {4, 1}, b4_constant_1, false)" in text
    assert "dot_scratch<float>(some); });" in text
    assert "constexpr bool reads_all_rows_b4[] = {false};" in text
    assert '#include "kernels/gemm/first_rows.h"' in text


def test_a_layer_of_bytes_takes_the_number_of_rows() -> None:
    program = _program(byte_layer(_product(0, 3)))
    writer = StepWriter(CALLS, prefix="b", batch=4, first=FirstRows(program, 4, [True]))
    text = "\n".join(writer.write(program.steps))
    assert "false>(first_rows(b_dot_0, &Dot::m, 4, rows), 0, as<const std::int8_t>(a0), " in text


def test_weights_cost_the_same_for_any_number_of_rows() -> None:
    program = matmul_program(4)
    assert partial_part(program, FirstRows()) == 0
    part = partial_part(program, FirstRows(program, 4, [True]))
    assert 0 < part * estimate_cost(program) < 4 * (16 + 12) * 4 / 20 + 96 / 30


@pytest.mark.parametrize("count", [1, 2, 3])
@given(data=st.data())
def test_first_rows_of_results_are_computed_from_what_is_there(
    count: int, data: st.DataObject
) -> None:
    steps = data.draw(st.lists(_STEPS, min_size=1, max_size=6))
    if data.draw(st.booleans()):
        body = data.draw(st.lists(_STEPS, min_size=1, max_size=4))
        steps.insert(data.draw(st.integers(0, len(steps))), loop(*body, trip_count=2))
    program = _program(*steps, data.draw(_products(dense((4, 4), 3))))
    _Memory(FirstRows(program, ROWS, [True]), count).check(program)


# --- programs -----------------------------------------------------------------------------------------


def _program(*steps: Step, columns: int = 4) -> Program:
    """Allocation 0 is the input, 3 the output, 4 weights, all others are temporary."""
    kinds = {0: "parameter", 3: "output", 4: "constant"}
    allocations = [
        Allocation.model_validate({"index": n, "size": 192, "kind": kinds.get(n, "temporary")})
        for n in range(7)
    ]
    return Program(
        triple="",
        cpu="",
        allocations=tuple(allocations),
        parameters=(dense((4, 4), 0),),
        results=(dense((4, columns), 3),),
        steps=steps,
    )


def _partial(program: Program, *, per_row: bool = True) -> list[Step]:
    first = FirstRows(program, ROWS, [per_row])
    return [step for step, _ in leaves(program.steps) if step in first]


def _product(source: int, target: int) -> Step:
    return dot(dense((4, 4), source), dense((4, 4), 4), dense((4, 4), target))


def _kernel(source: int, target: int, apart: int = 0, groups: int = 1, of_source: int = 1) -> Step:
    """Sixteen floats computed from as many, for each group; of so many chunks each by itself, if it is not 0."""
    size = 64 * max(groups, of_source)
    read, written = (Slice(allocation=n, offset=0, size=size) for n in (source, target))
    step = kernel(read, written)
    known = ops.RowsApart(count=apart, arguments=(0,), groups=groups, argument_groups=(of_source,))
    return step.model_copy(update={"op": ops.Kernel(symbol="k", apart=(known,) if apart else ())})


def _sequence(source: int, target: int) -> Step:
    """Twelve rows, of three steps of a sequence or of four rows of a batch first."""
    return dot(dense((12, 4), source), dense((4, 4), 4), dense((12, 4), target))


def _kernel_of_groups(source: int, target: int, groups: int) -> Step:
    """The rows of a batch put first, from so many groups."""
    read, written = (Slice(allocation=n, offset=0, size=192) for n in (source, target))
    known = ops.RowsApart(count=4, arguments=(0,), argument_groups=(groups,))
    step = kernel(read, written)
    return step.model_copy(update={"op": ops.Kernel(symbol="k", apart=(known,))})


def _columns(allocation: int, first: int, start: int = 0) -> View:
    """Two columns of a matrix with four."""
    place = Slice(allocation=allocation, offset=start + 4 * first, size=56)
    return View(slice=place, element_type=ElementType.FLOAT32, shape=(4, 2), strides=(4, 1))


# --- what is there ------------------------------------------------------------------------------------

_NUMBERS = st.sampled_from([1, 2])
_OFFSETS = st.sampled_from([0, 0, 16])


@st.composite
def _matrices(draw: st.DrawFn, columns: int, rows: int = 4) -> View:
    where, offset = draw(_NUMBERS), draw(_OFFSETS)
    if (rows, columns) == (4, 2) and draw(st.booleans()):
        return _columns(where, draw(st.sampled_from([0, 2])), offset)
    order = draw(st.sampled_from([(1, 0), (1, 0), (1, 0), (0, 1)]))
    return array((rows, columns), order, where, offset)


@st.composite
def _products(draw: st.DrawFn, target: View | None = None) -> Step:
    """Of four rows, or of eight: two for each of a batch, or a batch in each of two steps of a sequence."""
    rows = draw(st.sampled_from([4, 4, 8])) if target is None else target.shape[0]
    inner = draw(st.sampled_from([2, 4, 8] if rows == 4 else [2, 4]))
    columns = draw(st.sampled_from([2, 4])) if target is None else target.shape[1]
    weights = dense((inner, columns), draw(st.sampled_from([4, 4, 4, 1])))
    return dot(draw(_matrices(inner, rows)), weights, target or draw(_matrices(columns, rows)))


@st.composite
def _steps(draw: st.DrawFn) -> Step:
    match draw(st.integers(0, 3)):
        case 0:
            source, target = draw(_NUMBERS), draw(_NUMBERS)
            groups = draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from([1, 1, 2]))
            return _kernel(source, target, draw(st.sampled_from([0, 4, 8])), *groups)
        case 1:
            size = draw(st.sampled_from([32, 64, 128]))
            ends = [
                Slice(allocation=draw(_NUMBERS), offset=draw(_OFFSETS), size=size) for _ in "ab"
            ]
            return copy(*ends)
        case _:
            return draw(_products())


_STEPS = _steps()


class _Memory:
    """Which bytes hold what a run of all rows would have there, in a run of the first ones."""

    def __init__(self, first: FirstRows, count: int) -> None:
        self._first = first
        self._count = count
        self._right = [np.ones(400, bool) for _ in range(7)]

    def check(self, program: Program) -> None:
        """Runs a program, and requires that the first rows of its result are right."""
        self._run(program.steps)
        (result,) = program.results
        assert self._of(result)[: self._count].all()

    def _run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step.op, ops.While):
                for _ in range(2):
                    self._run(step.regions[1])
            else:
                self._compute(step)

    def _compute(self, step: Step) -> None:
        (target,) = step.outputs.values()
        places = self._places(target)
        right = self._rows_of(step)
        if step in self._first:
            right = right.reshape(self._first.groups(step), ROWS, -1)
            right[:, self._count :] = False
        of_rows = places.reshape(right.size, -1)
        for row, is_right in zip(of_rows, right.reshape(-1), strict=True):
            self._right[target.slice.allocation][row] = is_right

    def _rows_of(self, step: Step) -> Any:
        """For each row, in each of some groups, whether what it is computed from is right."""
        match step.op:
            case ops.Dot():
                weights = self._of(step.inputs["rhs"]).all()
                return self._of(step.inputs["lhs"]).all(axis=(1, 2)) & weights
            case ops.Copy():
                return self._of(step.inputs["source"]).reshape(ROWS, -1).all(axis=1)
            case ops.Kernel(apart=(known,)):
                (of_source,) = known.argument_groups
                chunks = self._of(step.inputs["argument0"]).reshape(of_source, ROWS, -1)
                rows = chunks.all(axis=(0, 2))
                return np.tile(rows, known.groups)
        return np.full(ROWS, all(self._of(view).all() for view in step.inputs.values()))

    def _of(self, view: View) -> Any:
        return self._right[view.slice.allocation][self._places(view)]

    @staticmethod
    def _places(view: View) -> Any:
        """The bytes of each element."""
        item = view.element_type.item_bytes
        axes = np.indices(view.shape)
        elements = sum(axis * stride for axis, stride in zip(axes, view.strides, strict=True))
        return view.slice.offset + (elements[..., None] + view.start) * item + np.arange(item)
