"""The batch sizes of models whose specs name none."""

from __future__ import annotations

import pytest

from modelwheel.assembly.batch_sizes import SIZING_ROWS, choose_sizes
from modelwheel.program.arrays import Allocation
from modelwheel.program.program import Program
from modelwheel.program.steps import Step
from modelwheel.workers.outcomes import Sizing
from tests.support.programs import dense, dot, kernel


def _product(inner: int, columns: int, *, whole: bool = False, operations: int = 0) -> Program:
    """A product of so many rows with weights; `whole`: behind it is a kernel that needs all rows."""
    x, w, y = (
        dense((SIZING_ROWS, inner), 0),
        dense((inner, columns), 1),
        dense((SIZING_ROWS, columns), 2),
    )
    product = dot(x, w, y, operations=operations or 2 * SIZING_ROWS * inner * columns)
    steps: tuple[Step, ...] = (product,)
    if whole:
        steps = (*steps, kernel(reads=(y.slice,), writes=y.slice))
    return Program(
        triple="x86_64-unknown-linux-gnu",
        cpu="x86-64-v3",
        allocations=(
            Allocation(index=0, size=x.slice.size, kind="parameter", parameter=0),
            Allocation(
                index=1, size=w.slice.size, kind="constant", constant_offset=0, sha256="ab" * 32
            ),
            Allocation(index=2, size=y.slice.size, kind="output"),
        ),
        parameters=(x,),
        results=(y,),
        steps=steps,
    )


def _sizes(program: Program) -> tuple[int, ...]:
    return choose_sizes(Sizing(program=program)).batch_sizes


def test_a_model_of_much_arithmetic_for_its_weights_has_single_rows() -> None:
    assert _sizes(_product(8, 8, operations=10_000_000)) == (1,)


def test_a_model_that_reads_more_than_it_computes_has_more_rows_at_once() -> None:
    chosen = choose_sizes(Sizing(program=_product(512, 512)))
    assert chosen.batch_sizes == (1, 16)
    finding = chosen.finding
    assert finding is not None
    assert finding.message.startswith("batch sizes: 1, 16 (16 rows at once take an estimated 0.")


@pytest.mark.parametrize(("operations", "rows"), [(10_000_000, 16), (10**12, 4)])
def test_few_rows_are_compared_where_one_takes_long(operations: int, rows: int) -> None:
    program = _product(8, 8, operations=operations)
    assert choose_sizes(Sizing(program=program)).compared_rows == rows


def test_runs_that_compute_all_rows_need_sizes_between() -> None:
    assert 4 in _sizes(_product(512, 512, whole=True))


@pytest.mark.parametrize(
    ("sizing", "why"),
    [(Sizing(), ""), (Sizing(refusal="no"), "16 rows at once cannot be compiled: no")],
)
def test_without_a_program_it_is_single_rows(sizing: Sizing, why: str) -> None:
    chosen = choose_sizes(sizing)
    assert (chosen.batch_sizes, chosen.why) == ((1,), why)
    assert (chosen.finding is None) == (not why)
