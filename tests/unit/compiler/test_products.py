"""Kernels of a matrix and a vector that are products for the runtime's kernels, with what they add."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.passes.recognise.products import vector_product
from modelwheel.dtypes import ElementType
from modelwheel.program.arrays import Allocation, Slice
from tests.support.modules import Steps, shape

FLOAT, DOUBLE = ElementType.FLOAT32, ElementType.FLOAT64
DEPTH, WIDTH = 3, 8
ALLOCATIONS = tuple(Allocation(index=index, size=96, kind="temporary") for index in range(4))


def _part(allocation: int, count: int, kind: ElementType, offset: int = 0) -> Slice:
    return Slice(allocation=allocation, offset=offset, size=count * kind.item_bytes)


def _found(
    addend: Slice, result: Slice, kind: ElementType = FLOAT, *, dot_first: bool = True
) -> p.Dot | None:
    """What a kernel computes that adds `addend` to the product of a vector of 3 and a matrix of 3 x 8."""
    steps = Steps()
    sums = shape(WIDTH, element=kind)
    matrix, vector = shape(DEPTH, WIDTH, element=kind), shape(DEPTH, element=kind)
    operands = {"addend": sums, "vector": vector, "matrix": matrix}
    for number, (name, of) in enumerate(operands.items()):
        steps.add(name, "parameter", of)
        steps.add(name, "parameter", of, within="f", parameter_number=number)
    axes = SimpleNamespace(
        lhs_batch_dimensions=[],
        rhs_batch_dimensions=[],
        lhs_contracting_dimensions=[0],
        rhs_contracting_dimensions=[0],
    )
    steps.add("dot", "dot", sums, "vector", "matrix", within="f", dot_dimension_numbers=axes)
    both = ("dot", "addend") if dot_first else ("addend", "dot")
    steps.add("sum", "add", sums, *both, within="f")
    steps.add("f", "fusion", sums, *operands, calls="f")
    hlo = steps.build()
    kernel = p.Kernel(
        operations=56,
        symbol="dot_add_fusion",
        workgroups=(1, 1, 1),
        arguments=(addend, _part(1, DEPTH, kind), _part(2, DEPTH * WIDTH, kind)),
        results=(result,),
    )
    return vector_product(hlo, hlo.instruction("f"), kernel, Memory(ALLOCATIONS))


@pytest.mark.parametrize("dot_first", [True, False])
def test_a_sum_beside_what_it_adds(dot_first: bool) -> None:
    addend, result = _part(0, WIDTH, FLOAT), _part(3, WIDTH, FLOAT)
    dot = _found(addend, result, dot_first=dot_first)
    assert dot is not None
    assert dot.epilogue == p.Epilogue(result=result, bias=addend)
    assert dot.out.slice == result
    assert (dot.lhs.shape, dot.rhs.shape, dot.out.shape) == ((DEPTH,), (DEPTH, WIDTH), (WIDTH,))


@pytest.mark.parametrize("dot_first", [True, False])
def test_a_sum_that_replaces_what_it_adds_has_its_product_elsewhere(dot_first: bool) -> None:
    place = _part(3, WIDTH, FLOAT)
    dot = _found(place, place, dot_first=dot_first)
    assert dot is not None
    assert dot.epilogue == p.Epilogue(result=place, addend=place)
    # The kernels may write sums before they read what is added to them.
    assert dot.out.slice == Slice(allocation=len(ALLOCATIONS), offset=0, size=place.size)


@pytest.mark.parametrize("offset", [4, 16, 28])
def test_a_sum_that_replaces_a_part_of_what_it_adds_stays_a_kernel(offset: int) -> None:
    assert _found(_part(3, WIDTH, FLOAT), _part(3, WIDTH, FLOAT, offset)) is None


def test_only_floats_have_epilogues() -> None:
    assert _found(_part(0, WIDTH, DOUBLE), _part(3, WIDTH, DOUBLE), DOUBLE) is None
