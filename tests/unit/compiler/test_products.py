"""Kernels of a matrix and a vector that are products for the runtime's kernels, with what they add."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.program.arrays import Slice
from tests.support.graphs import lines_after
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
AXES = "lhs_contracting=[0], rhs_contracting=[0]"
ORDERS = pytest.mark.parametrize("order", ["add(dot, addend)", "add(addend, dot)"])


def _graph(*changes: tuple[str, str], loops: bool = False) -> Graph:
    return Emission(SUM, *changes).graph(["f"], f="output", loops=loops)


def _in_place(*changes: tuple[str, str], loops: bool = False, at: str | Slice = "addend") -> Graph:
    """XLA has the sum where what is added to it was."""
    return Emission(SUM, *changes, at={"f": at}).graph(["f"], addend="temporary", loops=loops)


@ORDERS
def test_a_sum_beside_what_it_adds(order: str) -> None:
    """matrix * vector + addend => dot {bias=addend}"""
    graph = _graph(("add(dot, addend)", order))
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        (
            "%3 f32[8], accumulator=%3 f32[8] = dot %1 f32[3], %2 f32[3,8], bias=%0 f32[8] "
            f"{{{AXES}, epilogue={{}}}}"
        ),
    ]


@ORDERS
def test_a_sum_that_replaces_what_it_adds_has_its_product_elsewhere(order: str) -> None:
    """addend += matrix * vector => dot {addend=addend, accumulator=new memory}"""
    graph = _in_place(("add(dot, addend)", order))
    # The kernels may write sums before they read what is added to them.
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        (
            "%3 f32[8], accumulator=%4 f32[8] = dot %1 f32[3], %2 f32[3,8], addend=%0 f32[8] "
            f"{{{AXES}, epilogue={{}}}}"
        ),
    ]


def test_the_state_of_a_loop_is_added_to_in_its_place() -> None:
    """As in a recurrent layer: each iteration adds to what the one before left."""
    assert lines_after(RecogniseKernels(), _in_place(loops=True), rewrites=1) == [
        "%2 = while (undefined) {trip_count=2}",
        "  body(%3):",
        (
            "    %4 f32[8], accumulator=%5 f32[8] = dot %0 f32[3], %1 f32[3,8], addend=%3 f32[8] "
            f"{{{AXES}, epilogue={{}}}}"
        ),
        "    yield %4",
    ]


@pytest.mark.parametrize("offset", [4, 16, 28])
def test_a_sum_that_replaces_a_part_of_what_it_adds_stays_a_kernel(offset: int) -> None:
    part = Slice(allocation=0, offset=offset, size=32)
    (line,) = lines_after(RecogniseKernels(), _in_place(at=part), rewrites=0)
    assert " = kernel " in line


@pytest.mark.parametrize("place", ["vector", "matrix"])
def test_a_sum_over_what_is_multiplied_stays_a_kernel(place: str) -> None:
    graph = Emission(SUM, at={"f": place}).graph(["f"], vector="temporary", matrix="temporary")
    (line,) = lines_after(RecogniseKernels(), graph, rewrites=0)
    assert " = kernel " in line


def test_only_floats_have_epilogues() -> None:
    (line,) = lines_after(RecogniseKernels(), _graph(("f32", "f64")), rewrites=0)
    assert " = kernel " in line


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_a_product_alone(element: str) -> None:
    """matrix * vector => dot"""
    alone = (("  ROOT sum = f32[8] add(dot, addend)\n", ""), ("dot = f32[8]", "ROOT dot = f32[8]"))
    graph = _graph(*alone, ("f32", element))
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        f"%2 {element}[8] = dot %0 {element}[3], %1 {element}[3,8] {{{AXES}}}",
    ]
    assert graph.body.nodes[0].operations == 2 * 3 * 8


def test_a_vector_on_the_right_has_no_epilogue() -> None:
    right = ("dot(vector, matrix), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
             "dot(matrix, vector), lhs_contracting_dims={0}, rhs_contracting_dims={0}")  # fmt: skip
    (line,) = lines_after(RecogniseKernels(), _graph(right), rewrites=0)
    assert " = kernel " in line
