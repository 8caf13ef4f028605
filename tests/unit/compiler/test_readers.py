"""Values that several nodes read: computed once, in memory for as long as anybody needs them, and where they belong."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.fuse_epilogues import FuseEpilogues
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.compiler.passes.sums_in_results import SumInResults
from modelwheel.compiler.passes.write_concatenations import WriteConcatenations
from modelwheel.compiler.passes.write_pieces import WritePieces
from modelwheel.program.arrays import overlap
from tests.support.graphs import lines_after
from tests.support.modules import Emission

DOT = "{lhs_contracting=[1], rhs_contracting=[0]"

RESIDUAL = """
f1 {
  v = f32[4,4] parameter(0)
  bias = f32[4] parameter(1)
  x = f32[4,4] parameter(2)
  biases = f32[4,4] broadcast(bias), dimensions={1}
  biased = f32[4,4] add(v, biases)
  sum = f32[4,4] add(x, biased)
  zero = f32[] constant(0)
  zeros = f32[4,4] broadcast(zero), dimensions={}
  ROOT relu = f32[4,4] maximum(sum, zeros)
}

f2 {
  v = f32[4,4] parameter(0)
  bias = f32[4] parameter(1)
  x = f32[4,4] parameter(2)
  w = f32[4,4] parameter(3)
  other = f32[4] parameter(4)
  biases = f32[4,4] broadcast(bias), dimensions={1}
  biased = f32[4,4] add(v, biases)
  sum = f32[4,4] add(x, biased)
  zero = f32[] constant(0)
  zeros = f32[4,4] broadcast(zero), dimensions={}
  relu = f32[4,4] maximum(sum, zeros)
  others = f32[4,4] broadcast(other), dimensions={1}
  w_biased = f32[4,4] add(w, others)
  w_sum = f32[4,4] add(relu, w_biased)
  ROOT w_relu = f32[4,4] maximum(w_sum, zeros)
}

ENTRY main {
  x = f32[4,4] parameter(0)
  bias = f32[4] parameter(1)
  other = f32[4] parameter(2)
  m1 = f32[4,4] parameter(3)
  m2 = f32[4,4] parameter(4)
  m3 = f32[4,4] parameter(5)
  v1 = f32[4,4] dot(x, m1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f1 = f32[4,4] fusion(v1, bias, x), kind=kLoop, calls=f1
  v2 = f32[4,4] dot(f1, m2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f2 = f32[4,4] fusion(v1, bias, x, v2, other), kind=kLoop, calls=f2
  y = f32[4,4] dot(f2, m3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT results = (f32[4,4]) tuple(y)
}
"""
"""Two blocks with a residual each: XLA computes the first sum again in the second fusion."""


def _kinds(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.body.nodes]


def _residual(*changes: tuple[str, str], rewrites: int = 2, **at: str) -> tuple[Graph, list[str]]:
    graph = Emission(RESIDUAL, *changes, at=at).graph(["y"])
    return graph, lines_after(FuseEpilogues(), graph, rewrites=rewrites)


def test_a_finished_value_is_taken_from_memory() -> None:
    """relu(dot + bias + x) in two fusions => dot {bias, addend=x, low}, and its value is the other's addend"""
    _, lines = _residual()
    assert lines == [
        f"%6 f32[4,4], accumulator=%7 f32[4,4] = dot %0 f32[4,4], %3 f32[4,4], shift=%1 f32[4], addend=%0 f32[4,4] {DOT}, epilogue={{low=0.0}}}}",
        f"%8 f32[4,4], accumulator=%9 f32[4,4] = dot %6 f32[4,4], %4 f32[4,4], shift=%2 f32[4], addend=%6 f32[4,4] {DOT}, epilogue={{low=0.0}}}}",
        f"%10 f32[4,4] = dot %8 f32[4,4], %5 f32[4,4] {DOT}}}",
    ]


def test_a_value_moves_if_its_memory_is_used_again() -> None:
    graph, _ = _residual(f2="f1")
    SumInResults().run(graph)
    ((first, second, last), _) = assign(graph)
    kept = first.outputs["out"].slice
    assert kept == second.inputs["lhs"].slice == second.inputs["addend"].slice
    # Sums over what is multiplied would spoil it.
    assert not overlap(kept, second.outputs["accumulator"].slice)
    assert last.inputs["lhs"].slice == second.outputs["out"].slice


def test_a_value_that_differs_is_computed_again() -> None:
    changed = ("fusion(v1, bias, x, v2", "fusion(v1, other, x, v2")
    graph, _ = _residual(changed, rewrites=0)
    assert _kinds(graph) == ["dot", "kernel", "dot", "kernel", "dot"]


def test_loops_take_finished_values_too() -> None:
    graph = Emission(RESIDUAL).graph(["y"], loops=True)
    lines = lines_after(FuseEpilogues(), graph, rewrites=2)
    assert sum(" = dot " in line for line in lines) == 3


def test_a_value_that_is_overwritten_before_it_is_needed_again_is_computed_again() -> None:
    """What a kernel changes in its place, nobody can read any more."""
    text = RESIDUAL.replace("dot(f1, m2)", "dot(g, m2)").replace(
        "  v2 =", "  g = f32[4,4] negate(f1)\n  v2 ="
    )
    graph = Emission(text, at={"g": "f1"}).graph(["y"])
    lines_after(FuseEpilogues(), graph, rewrites=0)


def test_two_products_in_one_fusion_have_an_epilogue_each() -> None:
    """dot * scale + (dot + bias) => dot {scale}, dot {bias, addend}"""
    text = """
        f {
          v = f32[4,4] parameter(0)
          w = f32[4,4] parameter(1)
          bias = f32[4] parameter(2)
          biases = f32[4,4] broadcast(bias), dimensions={1}
          scaled = f32[4,4] multiply(v, biases)
          biased = f32[4,4] add(w, biases)
          ROOT sum = f32[4,4] add(scaled, biased)
        }

        ENTRY main {
          x = f32[4,4] parameter(0)
          bias = f32[4] parameter(1)
          m1 = f32[4,4] parameter(2)
          m2 = f32[4,4] parameter(3)
          v = f32[4,4] dot(x, m1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          w = f32[4,4] dot(x, m2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          f = f32[4,4] fusion(v, w, bias), kind=kLoop, calls=f
          ROOT results = (f32[4,4]) tuple(f)
        }
    """
    graph = Emission(text).graph(["f"])
    assert lines_after(FuseEpilogues(), graph, rewrites=1) == [
        f"%4 f32[4,4], accumulator=%4 f32[4,4] = dot %0 f32[4,4], %2 f32[4,4], scale=%1 f32[4] {DOT}, epilogue={{}}}}",
        f"%5 f32[4,4], accumulator=%6 f32[4,4] = dot %0 f32[4,4], %3 f32[4,4], shift=%1 f32[4], addend=%4 f32[4,4] {DOT}, epilogue={{}}}}",
    ]


def test_a_product_finishes_what_a_mean_is_of() -> None:
    """mean(dot + x) => dot {addend=x}, pooling"""
    text = """
        add {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT total = f32[] add(a, b)
        }

        f {
          v = f32[2,3,4,8] parameter(0)
          x = f32[2,3,4,8] parameter(1)
          sum = f32[2,3,4,8] add(v, x)
          zero = f32[] constant(0)
          ROOT mean = f32[2,8] reduce(sum, zero), dimensions={1,2}, to_apply=add
        }

        ENTRY main {
          x = f32[2,3,4,8] parameter(0)
          m = f32[8,8] parameter(1)
          v = f32[2,3,4,8] dot(x, m), lhs_contracting_dims={3}, rhs_contracting_dims={0}
          f = f32[2,8] fusion(v, x), kind=kLoop, calls=f
          ROOT results = (f32[2,8]) tuple(f)
        }
    """
    graph = Emission(text).graph(["f"])
    assert lines_after(FuseEpilogues(), graph, rewrites=1) == [
        "%2 f32[2,3,4,8], accumulator=%2 f32[2,3,4,8] = dot %0 f32[2,3,4,8], %1 f32[8,8], addend=%0 f32[2,3,4,8] {lhs_contracting=[3], rhs_contracting=[0], epilogue={}}",
        "%3 f32[2,1,1,8] = pooling %2 f32[2,3,4,8] {reducer=sum, initial=0.0, window=[3,4], stride=[1,1], pad_low=[0,0]}",
    ]


# --- concatenations -------------------------------------------------------------------------------

CONCATENATED = """
g {
  w = f32[4,4] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[4,4] broadcast(zero), dimensions={}
  ROOT relu = f32[4,4] maximum(w, zeros)
}

f {
  v = f32[4,4] parameter(0)
  w = f32[4,4] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[4,4] broadcast(zero), dimensions={}
  v_relu = f32[4,4] maximum(v, zeros)
  w_relu = f32[4,4] maximum(w, zeros)
  ROOT whole = f32[4,8] concatenate(v_relu, w_relu), dimensions={1}
}

ENTRY main {
  x = f32[4,4] parameter(0)
  m1 = f32[4,4] parameter(1)
  m2 = f32[4,4] parameter(2)
  w = f32[4,4] dot(x, m1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[4,4] fusion(w), kind=kLoop, calls=g
  v = f32[4,4] dot(g, m2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[4,8] fusion(v, w), kind=kLoop, calls=f
  y = f32[4,8] negate(f)
  ROOT results = (f32[4,8]) tuple(y)
}
"""
"""relu(v) beside relu(w) in wider rows, and relu(w) for another reader, too."""


def _concatenated(
    *changes: tuple[str, str], loops: bool = False, **kinds: str
) -> tuple[Graph, list[str]]:
    graph = Emission(CONCATENATED, *changes).graph(["y"], loops=loops, **kinds)
    return graph, lines_after(WriteConcatenations(), graph, rewrites=1)


def test_products_write_pieces_of_a_concatenation() -> None:
    """concatenate(relu(dot), value) => dot {low} into columns, copy"""
    graph, lines = _concatenated()
    assert lines == [
        f"%3 f32[4,4] = dot %0 f32[4,4], %1 f32[4,4] {DOT}}}",
        "%4 u8[64] = kernel %3 u8[64] {symbol=g}",
        f"%5 f32[4,4]{{8,1}}, accumulator=%5 f32[4,4]{{8,1}} = dot %4 f32[4,4], %2 f32[4,4] {DOT}, epilogue={{low=0.0}}}}",
        "%6+16 f32[4,4]{8,1} into %5 = copy %4 f32[4,4]",
        "%7 u8[128] = kernel %6 u8[128] {symbol=y}",
    ]
    assert [node.covers for node in graph.body.nodes] == [{"w"}, {"g"}, {"v"}, {"f"}, {"y"}]
    # What is copied is no longer read for the concatenation.
    product, *_ = lines_after(FuseEpilogues(), graph, rewrites=1)
    assert product.endswith("epilogue={low=0.0}}")


def test_a_loop_writes_pieces_too() -> None:
    _, lines = _concatenated(loops=True)
    assert [line.strip() for line in lines[4:6]] == [
        f"%7 f32[4,4]{{8,1}}, accumulator=%7 f32[4,4]{{8,1}} = dot %6 f32[4,4], %2 f32[4,4] {DOT}, epilogue={{low=0.0}}}}",
        "%8+16 f32[4,4]{8,1} into %7 = copy %6 f32[4,4]",
    ]


def test_a_scale_and_a_shift_of_all_columns_are_those_of_the_pieces() -> None:
    """concatenate(relu(dot), value) * vector + vector => dot {low, factors, offsets} into columns, elementwise"""
    vectors = (
        "  m2 = f32[4,4] parameter(2)",
        "  m2 = f32[4,4] parameter(2)\n  vector = f32[8] parameter(3)",
    )
    scaled = (
        "  ROOT whole = f32[4,8] concatenate(v_relu, w_relu), dimensions={1}",
        """
        whole = f32[4,8] concatenate(v_relu, w_relu), dimensions={1}
        vector = f32[8] parameter(2)
        rows = f32[4,8] broadcast(vector), dimensions={1}
        product = f32[4,8] multiply(whole, rows)
        ROOT sum = f32[4,8] add(product, rows)
        """,
    )
    call = ("fusion(v, w), kind=kLoop, calls=f", "fusion(v, w, vector), kind=kLoop, calls=f")
    _, lines = _concatenated(vectors, scaled, call)
    product, other = lines[2:4]
    assert product.startswith("%6 f32[4,4]{8,1}, accumulator=%6 f32[4,4]{8,1} = dot %5 ")
    assert product.endswith(f"factors=%3 f32[4], offsets=%3 f32[4] {DOT}, epilogue={{low=0.0}}}}")
    assert other == (
        "%7+16 f32[4,4]{8,1} into %6 = elementwise %5 f32[4,4], %3+16 f32[4,4]{0,1} "
        "{code=(add(multiply(read0, read1), read1))}"
    )


@pytest.mark.parametrize("kind", ["output", "parameter"])
def test_what_callers_see_is_written_where_it_is(kind: str) -> None:
    graph, _ = _concatenated(f=kind)
    (_, _, product, copy, last), _ = assign(graph)
    assert product.outputs["out"].slice.allocation == last.inputs["argument0"].slice.allocation
    assert copy.outputs["destination"].slice.allocation == product.outputs["out"].slice.allocation


def test_pieces_that_are_all_in_memory_are_concatenated_by_the_kernel() -> None:
    graph = Emission(CONCATENATED).graph(["y", "v"])
    lines_after(WriteConcatenations(), graph, rewrites=0)


def test_rows_that_do_not_follow_each_other_are_concatenated_by_the_kernel() -> None:
    rows = (
        "concatenate(v_relu, w_relu), dimensions={1}",
        "concatenate(v_relu, w_relu), dimensions={0}",
    )
    graph = Emission(CONCATENATED, rows, ("f32[4,8]", "f32[8,4]")).graph(["y"])
    lines_after(WriteConcatenations(), graph, rewrites=0)


# --- poolings of scaled values --------------------------------------------------------------------

POOLED = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT larger = f32[] maximum(a, b)
}

p {
  images = f32[1,2,2,4] parameter(0)
  start = f32[] parameter(1)
  ROOT pooled = f32[1,2,2,4] reduce-window(images, start), window={size=1x1x1x1}, to_apply=REDUCER
}
"""
"""A pooling whose windows have one element."""

SCALED = (
    POOLED.replace("REDUCER", "add")
    + """
g {
  s = f32[4,4] parameter(0)
  half = f32[] constant(0.5)
  halves = f32[4,4] broadcast(half), dimensions={}
  ROOT scaled = f32[4,4] multiply(halves, s)
}

ENTRY main {
  x = f32[4,4] parameter(0)
  s = f32[4,4] copy(x)
  start = f32[] constant(0)
  g = f32[4,4] fusion(s), kind=kLoop, calls=g
  images = f32[1,2,2,4] bitcast(g)
  pool = f32[1,2,2,4] fusion(images, start), kind=kLoop, calls=p
  ROOT results = (f32[1,2,2,4]) tuple(pool)
}
"""
)
SPOILED = (
    "  images = f32[1,2,2,4] bitcast",
    "  other = f32[4,4] negate(s)\n  images = f32[1,2,2,4] bitcast",
)


def _scaled(*changes: tuple[str, str], results: tuple[str, ...] = ("pool",), **at: str) -> Graph:
    """A pooling of what a kernel multiplies by a half."""
    graph = Emission(SCALED, *changes, at=at).graph(results)
    RecogniseKernels().run(graph)
    return graph


def test_a_pooling_multiplies_what_it_adds_up() -> None:
    """pooling of s * 0.5 => pooling {in_factor=0.5}"""
    graph = _scaled()
    assert lines_after(FuseEpilogues(), graph, rewrites=1)[-1] == (
        "%2 f32[1,2,2,4] = pooling %1 f32[1,2,2,4] {reducer=sum, initial=0.0, window=[1,1], "
        "stride=[1,1], pad_low=[0,0], in_factor=0.5}"
    )


def test_a_scaled_value_that_is_needed_stays() -> None:
    lines_after(FuseEpilogues(), _scaled(results=("pool", "g")), rewrites=0)


def test_what_is_scaled_may_not_be_overwritten_before_it_is_added_up() -> None:
    graph = _scaled(SPOILED, other="s", results=("pool", "other"))
    lines_after(FuseEpilogues(), graph, rewrites=0)


LIMITED = (
    POOLED.replace("REDUCER", "maximum")
    + """
g {
  s = f32[1,2,2,4] parameter(0)
  one = f32[] constant(0.25)
  ones = f32[1,2,2,4] broadcast(one), dimensions={}
  ROOT limited = f32[1,2,2,4] maximum(s, ones)
}

ENTRY main {
  x = f32[4,4] parameter(0)
  start = f32[] constant(-inf)
  images = f32[1,2,2,4] bitcast(x)
  pool = f32[1,2,2,4] fusion(images, start), kind=kLoop, calls=p
  ROOT g = f32[1,2,2,4] fusion(pool), kind=kLoop, calls=g
}
"""
)


def _limited(*changes: tuple[str, str], results: tuple[str, ...] = ("g",), **at: str) -> Graph:
    """A kernel that takes the maximum of a number and what a pooling has computed."""
    graph = Emission(LIMITED, *changes, at=at).graph(results)
    RecogniseKernels().run(graph)
    return graph


def test_windows_of_maxima_begin_with_a_lower_limit() -> None:
    """max(pooling, 0.25) => pooling {initial=0.25}: ReLU after a pooling."""
    assert lines_after(FuseEpilogues(), _limited(), rewrites=1) == [
        (
            "%1 f32[1,2,2,4] = pooling %0 f32[1,2,2,4] {reducer=maximum, initial=0.25, window=[1,1], "
            "stride=[1,1], pad_low=[0,0]}"
        )
    ]


@pytest.mark.parametrize(
    "change",
    [
        ("maximum(s, ones)", "minimum(s, ones)"),
        ("constant(0.25)", "constant(nan)"),
        ("to_apply=maximum", "to_apply=add"),
    ],
)
def test_other_limits_stay(change: tuple[str, str]) -> None:
    lines_after(FuseEpilogues(), _limited(change), rewrites=0)


def test_maxima_that_are_needed_without_their_limit_stay() -> None:
    lines_after(FuseEpilogues(), _limited(results=("g", "pool")), rewrites=0)


# --- copies of what poolings read too -------------------------------------------------------------

WRITTEN = POOLED.replace("REDUCER", "maximum") + CONCATENATED.replace(
    "v = f32[4,4] dot(g",
    """start = f32[] constant(-inf)
  images = f32[1,2,2,4] bitcast(g)
  pool = f32[1,2,2,4] fusion(images, start), kind=kLoop, calls=p
  pooled = f32[4,4] bitcast(pool)
  v = f32[4,4] dot(pooled""",
)


def _written(
    *changes: tuple[str, str], results: tuple[str, ...] = ("y",), rewrites: int
) -> list[str]:
    graph = Emission(WRITTEN, *changes).graph(results)
    for one in (RecogniseKernels(), WriteConcatenations(), FuseEpilogues()):
        one.run(graph)
    return lines_after(WritePieces(), graph, rewrites=rewrites)


def test_what_only_poolings_read_too_is_written_at_once() -> None:
    """dot, pooling, dot into columns, copy => dot into columns, pooling of columns, dot into columns"""
    assert _written(rewrites=1) == [
        f"%3+16 f32[4,4]{{8,1}}, accumulator=%3+16 f32[4,4]{{8,1}} = dot %0 f32[4,4], %1 f32[4,4] {DOT}, epilogue={{low=0.0}}}}",
        "%4 f32[1,2,2,4] = pooling %3+16 f32[1,2,2,4]{32,16,8,1} {reducer=maximum, initial=null, window=[1,1], stride=[1,1], pad_low=[0,0]}",
        f"%5 f32[4,4]{{8,1}} into %3, accumulator=%5 f32[4,4]{{8,1}} = dot %4 f32[4,4], %2 f32[4,4] {DOT}, epilogue={{low=0.0}}}}",
        "%6 u8[128] = kernel %5 u8[128] {symbol=y}",
    ]


def test_what_others_read_is_copied() -> None:
    assert "copy" in "".join(_written(results=("y", "g"), rewrites=0))
    _written(("dot(pooled", "dot(g"), rewrites=0)
