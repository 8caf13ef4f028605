"""What graphs programs become, as text."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.graph_text import graph_text
from modelwheel.compiler.ir.lift import lift
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.programs import (
    FLOAT,
    branches,
    conditional,
    copy,
    dense,
    dot,
    kernel,
    loop,
    part,
    pooling,
)

A, X, W, Y = range(4)
ALLOCATIONS = (
    Allocation(index=A, size=4096, kind="temporary"),
    Allocation(index=X, size=1024, kind="parameter", parameter=0),
    Allocation(index=W, size=1024, kind="constant", sha256="ab" * 32),
    Allocation(index=Y, size=1024, kind="output"),
)


def _text(steps: Sequence[Step], *results: Slice) -> str:
    graph = lift(steps, ALLOCATIONS, results)
    check(graph)
    return graph_text(graph)


def _is(text: str, expected: str) -> bool:
    """Compares texts without the lines of parameters and constants, and shows both if they differ."""
    lines = [
        line
        for line in text.splitlines()
        if " = parameter" not in line and " = constant" not in line
    ]
    assert "\n".join(lines) == dedent(expected).strip()
    return True


def test_memory_that_is_used_again_is_another_value() -> None:
    steps = [
        kernel(part(X), part(A), symbol="f"),
        kernel(part(A), part(A, 64), symbol="g"),
        kernel(part(X), part(A), symbol="h"),
        kernel((part(A), part(A, 64)), part(Y), symbol="k"),
    ]
    assert _is(
        _text(steps, part(Y)),
        """
        %1 u8[64] = kernel %0 u8[64] {symbol=f}
        %2 u8[64] = kernel %1 u8[64] {symbol=g}
        %3 u8[64] = kernel %0 u8[64] {symbol=h}
        %4 u8[64] = kernel %3 u8[64], %2 u8[64] {symbol=k}
        return %4
        """,
    )


def test_a_part_of_a_value_and_a_whole_of_several() -> None:
    steps = [
        kernel(part(X), part(A, 0, 128), symbol="f"),
        kernel(part(A, 64), part(A, 0), symbol="g"),
        kernel(part(A, 0, 128), part(Y), symbol="h"),
    ]
    assert _is(
        _text(steps, part(Y)),
        """
        %1 u8[128] = kernel %0 u8[64] {symbol=f}
        %2 u8[64] = kernel %1+64 u8[64] {symbol=g}
        %3 u8[128] = join %2 u8[64], %1+64 u8[64]
        %4 u8[64] = kernel %3 u8[128] {symbol=h}
        return %4
        """,
    )


def test_a_kernel_that_changes_its_operand_has_it_as_a_base() -> None:
    steps = [kernel(part(X), part(A)), kernel((part(A), part(X)), part(A))]
    assert _is(
        _text(steps, part(A)),
        """
        %1 u8[64] = kernel %0 u8[64] {symbol=k}
        %2 u8[64] into %1 = kernel %1 u8[64], %0 u8[64] {symbol=k}
        return %2
        """,
    )


def test_columns_of_one_array_are_values_of_it() -> None:
    """Poolings read some of them before all are there; what was in the memory before does not matter."""

    def columns(first: int, source: int) -> Step:
        size = (3 * 12 + 4) * 4
        there = Slice(allocation=A, offset=first * 4, size=size)
        view = View(slice=there, element_type=FLOAT, shape=(4, 4), strides=(12, 1))
        return Step(
            op=ops.Copy(),
            inputs={"source": dense((4, 4), X, source)},
            outputs={"destination": view},
        )

    read = View(
        slice=Slice(allocation=A, offset=16, size=160), element_type=FLOAT,
        shape=(1, 2, 2, 4), strides=(48, 24, 12, 1),
    )  # fmt: skip
    pool = pooling(part(A), part(Y, 256))
    pool = pool.model_copy(update={"inputs": {"input": read}})
    steps = [
        kernel(part(X), part(A, 0, 256)),
        kernel(part(A, 0, 256), part(A, 1024)),
        columns(4, 0),
        pool,
        columns(0, 64),
        columns(8, 128),
        kernel((part(A, 0, 192), part(A, 1024)), part(Y)),
    ]
    attributes = "{reducer=maximum, initial=null, window=[1,1], stride=[1,1], pad_low=[0,0]}"
    assert _is(
        _text(steps, part(Y), part(Y, 256)),
        f"""
        %1 u8[256] = kernel %0 u8[64] {{symbol=k}}
        %2 u8[64] = kernel %1 u8[256] {{symbol=k}}
        %3+16 f32[4,4]{{12,1}} = copy %0 f32[4,4]
        %4 f32[1,2,2,4] = pooling %3+16 f32[1,2,2,4]{{48,24,12,1}} {attributes}
        %5 f32[4,4]{{12,1}} into %3 = copy %0+64 f32[4,4]
        %6+32 f32[4,4]{{12,1}} into %5 = copy %0+128 f32[4,4]
        %7 u8[64] = kernel %6 u8[192], %2 u8[64] {{symbol=k}}
        return %7, %4
        """,
    )


def test_products_write_columns_with_their_sums_in_the_same_place() -> None:
    def columns(first: int) -> Step:
        there = Slice(allocation=A, offset=first * 4, size=112)
        out = View(slice=there, element_type=FLOAT, shape=(4, 4), strides=(8, 1))
        factors = (dense((4, 4), X), dense((4, 4), W))
        return dot(*factors, out, epilogue=ops.Epilogue(), accumulator=out)

    steps = [columns(0), columns(4), kernel(part(A, 0, 128), part(Y))]
    attributes = "{lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
    rows = "f32[4,4]{8,1}"
    assert _is(
        _text(steps, part(Y)),
        f"""
        %2 {rows}, accumulator=%2 {rows} = dot %0 f32[4,4], %1 f32[4,4] {attributes}
        %3+16 {rows} into %2, accumulator=%3+16 {rows} = dot %0 f32[4,4], %1 f32[4,4] {attributes}
        %4 u8[64] = kernel %3 u8[128] {{symbol=k}}
        return %4
        """,
    )


def test_a_loop_carries_what_outlives_an_iteration() -> None:
    """What it only works in is a value of the body, and what it reads from before is not carried."""
    window = Slice(allocation=X, offset=0, size=64, step=64, iterations=3)
    body = (
        kernel((part(A), window), part(A, 64), symbol="f"),
        kernel((part(A, 64), part(A, 128)), part(A), symbol="g"),
    )
    steps = [
        kernel(part(X), part(A), symbol="begin"),
        kernel(part(X), part(A, 128), symbol="before"),
        loop(*body, trip_count=3),
        kernel(part(A), part(Y), symbol="end"),
    ]
    assert _is(
        _text(steps, part(Y)),
        """
        %1 u8[64] = kernel %0 u8[64] {symbol=begin}
        %2 u8[64] = kernel %0 u8[64] {symbol=before}
        %3 = while (%1) {trip_count=3}
          body(%4):
            %5 u8[64] = kernel %4 u8[64], %0+64i u8[64] {symbol=f}
            %6 u8[64] = kernel %5 u8[64], %2 u8[64] {symbol=g}
            yield %6
        %7 u8[64] = kernel %3 u8[64] {symbol=end}
        return %7
        """,
    )


def test_what_all_iterations_write_needs_no_value_before() -> None:
    into = Slice(allocation=Y, offset=0, size=64, step=64, iterations=3)
    steps = [loop(copy(part(X), into), trip_count=3)]
    assert _is(
        _text(steps, part(Y, 0, 192)),
        """
        %1 = while (undefined) {trip_count=3}
          body(%2):
            %3+64i u8[64] into %2 = copy %0 u8[64]
            yield %3
        return %1
        """,
    )
    # Another number of iterations leaves some of it.
    steps = [kernel(part(X), part(Y, 0, 192)), loop(copy(part(X), into), trip_count=2)]
    assert "while (%1)" in _text(steps, part(Y, 0, 192))


def test_a_loop_with_a_condition_goes_through_it() -> None:
    condition = (kernel(part(A), part(A, 64, 1), symbol="goes_on"),)
    body = (kernel(part(A), part(A), symbol="f"),)
    steps = [
        kernel(part(X), part(A)),
        loop(*body, trip_count=None, condition=condition, value=part(A, 64, 1)),
    ]
    assert _is(
        _text(steps, part(A)),
        """
        %1 u8[64] = kernel %0 u8[64] {symbol=k}
        %2 = while condition=%3 pred[] (%1) {trip_count=null}
          condition(%4):
            %3 u8[1] = kernel %4 u8[64] {symbol=goes_on}
            yield %4
          body(%5):
            %6 u8[64] into %5 = kernel %5 u8[64] {symbol=f}
            yield %6
        return %2
        """,
    )


def test_the_body_may_compute_the_condition_of_the_next_iteration() -> None:
    """XLA leaves the condition empty then."""
    flag = part(A, 64, 1)
    body = (kernel(part(A), part(A), symbol="f"), kernel(part(A), flag, symbol="goes_on"))
    steps = [
        kernel(part(X), part(A)),
        kernel(part(X), flag, symbol="begins"),
        loop(*body, trip_count=None, value=flag),
    ]
    assert _is(
        _text(steps, part(A)),
        """
        %1 u8[64] = kernel %0 u8[64] {symbol=k}
        %2 u8[1] = kernel %0 u8[64] {symbol=begins}
        %3, %4 = while condition=%5 pred[] (%1, %2) {trip_count=null}
          condition(%6, %5):
            yield %6
          body(%7, %8):
            %9 u8[64] into %7 = kernel %7 u8[64] {symbol=f}
            %10 u8[1] = kernel %9 u8[64] {symbol=goes_on}
            yield %9, %10
        return %3
        """,
    )


def test_scratch_memory_in_the_place_of_a_state_is_no_state() -> None:
    """XLA needs no other place for it while nobody needs the state."""
    flag, scratch, state = part(A, 16, 1), part(A, 0, 256), part(A, 192)
    condition = (kernel(state, flag, symbol="goes_on"),)
    body = (
        kernel(state, part(A, 256), symbol="f"),
        kernel(part(A, 256), scratch, symbol="g"),
        kernel(part(A, 256), part(A, 64), symbol="h"),
        kernel((part(A, 0, 192), part(A, 256)), state, symbol="k"),
    )
    steps = [
        kernel(part(X), scratch, symbol="others"),
        kernel(part(X), state, symbol="begin"),
        loop(*body, trip_count=None, condition=condition, value=flag),
    ]
    assert _is(
        _text(steps, state),
        """
        %1 u8[256] = kernel %0 u8[64] {symbol=others}
        %2 u8[64] = kernel %0 u8[64] {symbol=begin}
        %3 = while condition=%4 pred[] (%2) {trip_count=null}
          condition(%5):
            %4 u8[1] = kernel %5 u8[64] {symbol=goes_on}
            yield %5
          body(%6):
            %7 u8[64] = kernel %6 u8[64] {symbol=f}
            %8 u8[256] = kernel %7 u8[64] {symbol=g}
            %9 u8[64] = kernel %7 u8[64] {symbol=h}
            %10 u8[192] = join %8 u8[64], %9 u8[64], %8+128 u8[64]
            %11 u8[64] = kernel %10 u8[192], %7 u8[64] {symbol=k}
            yield %11
        return %3
        """,
    )


def test_a_state_of_several_pieces_stays_one_where_it_is_read_as_one() -> None:
    body = (
        kernel(part(A, 0, 128), part(A, 192, 128), symbol="f"),
        kernel(part(A, 192, 128), part(A, 0, 160), symbol="scratch"),
        kernel(part(A, 192, 128), part(A, 64), symbol="g"),
    )
    steps = [kernel(part(X), part(A, 0, 320)), loop(*body, trip_count=3)]
    assert _is(
        _text(steps, part(A, 0, 128)),
        """
        %1 u8[320] = kernel %0 u8[64] {symbol=k}
        %2 = while (%1) {trip_count=3}
          body(%3):
            %4 u8[128] = kernel %3 u8[128] {symbol=f}
            %5 u8[160] = kernel %4 u8[128] {symbol=scratch}
            %6 u8[64] = kernel %4 u8[128] {symbol=g}
            %7 u8[128] = join %5 u8[64], %6 u8[64]
            yield %7
        return %2
        """,
    )


def test_branches_leave_what_they_write() -> None:
    """A branch that leaves memory alone hands on what was there."""
    index = part(X, 0, 4)
    steps = [
        kernel(part(X), part(A), symbol="f"),
        conditional(index, (kernel(part(X), part(A), symbol="g"),), (copy(part(X), part(A, 64)),)),
    ]
    assert _is(
        _text(steps, part(A)),
        """
        %1 u8[64] = kernel %0 u8[64] {symbol=f}
        %2 = conditional %0 s32[]
          branch 0:
            %3 u8[64] = kernel %0 u8[64] {symbol=g}
            yield %3
          branch 1:
            %4 u8[64] = copy %0 u8[64]
            yield %1
        return %2
        """,
    )
    steps = [branches((copy(part(X), part(A)),), (copy(part(X), part(A, 64)),))]
    assert _is(
        _text(steps, part(A, 0, 128)),
        """
        %1, %2 = branches
          branch 0:
            %3 u8[64] = copy %0 u8[64]
            yield %3
          branch 1:
            %4 u8[64] = copy %0 u8[64]
            yield %4
        %5 u8[128] = join %1 u8[64], %2 u8[64]
        return %5
        """,
    )


def test_sums_and_addends_share_memory_with_results_where_they_do() -> None:
    x, w = dense((4, 4), X), dense((4, 4), W)
    y = dense((4, 4), A)
    steps = [
        kernel(part(X), part(A)),
        dot(x, w, y, epilogue=ops.Epilogue(), accumulator=y, addend=y),
        dot(x, w, y, epilogue=ops.Epilogue(), accumulator=dense((4, 4), A, 64), addend=y),
    ]
    attributes = "{lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
    assert _is(
        _text(steps, part(A)),
        f"""
        %2 u8[64] = kernel %0 u8[64] {{symbol=k}}
        %3 f32[4,4], accumulator=%3 f32[4,4] = dot %0 f32[4,4], %1 f32[4,4], addend=%2 f32[4,4] {attributes}
        %4 f32[4,4], accumulator=%5 f32[4,4] = dot %0 f32[4,4], %1 f32[4,4], addend=%3 f32[4,4] {attributes}
        return %4
        """,
    )
