"""Kernels of a matrix and a vector that are products for the runtime's kernels, with what they add."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.passes.recognise.products import vector_product
from modelwheel.program.arrays import Slice
from tests.support.modules import Emission

SUM = """
f {
  addend = f32[8] parameter(0)
  vector = f32[3] parameter(1)
  matrix = f32[3,8] parameter(2)
  dot = f32[8] dot(vector, matrix), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT sum = f32[8] add(dot, addend)
}

ENTRY main {
  addend = f32[8] parameter(0)
  vector = f32[3] parameter(1)
  matrix = f32[3,8] parameter(2)
  ROOT f = f32[8] fusion(addend, vector, matrix), kind=kLoop, calls=f
}
"""
ORDERS = pytest.mark.parametrize("order", ["add(dot, addend)", "add(addend, dot)"])


def _product(emission: Emission) -> p.Dot | None:
    instruction, kernel = emission.kernel()
    return vector_product(instruction, kernel, emission.memory())


@ORDERS
def test_a_sum_beside_what_it_adds(order: str) -> None:
    """matrix * vector + addend => dot {bias=addend}"""
    emission = Emission(SUM, ("add(dot, addend)", order))
    dot = _product(emission)
    assert dot is not None
    assert dot.epilogue == p.Epilogue(result=emission.place("f"), bias=emission.place("addend"))
    assert dot.out.slice == emission.place("f")
    assert (dot.lhs.shape, dot.rhs.shape, dot.out.shape) == ((3,), (3, 8), (8,))


@ORDERS
def test_a_sum_that_replaces_what_it_adds_has_its_product_elsewhere(order: str) -> None:
    """addend += matrix * vector => dot {addend=addend, out=new memory}"""
    emission = Emission(SUM, ("add(dot, addend)", order), at={"f": "addend"})
    place = emission.place("addend")
    dot = _product(emission)
    assert dot is not None
    assert dot.epilogue == p.Epilogue(result=place, addend=place)
    # The kernels may write sums before they read what is added to them.
    assert dot.out.slice == Slice(allocation=3, offset=0, size=place.size)


@pytest.mark.parametrize("offset", [4, 16, 28])
def test_a_sum_that_replaces_a_part_of_what_it_adds_stays_a_kernel(offset: int) -> None:
    part = Slice(allocation=0, offset=offset, size=32)
    assert _product(Emission(SUM, at={"f": part})) is None


def test_only_floats_have_epilogues() -> None:
    assert _product(Emission(SUM, ("f32", "f64"))) is None
