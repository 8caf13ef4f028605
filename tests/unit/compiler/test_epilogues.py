"""Fusions that become part of a product: only those that the kernels compute in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.fuse_epilogues import FuseEpilogues
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.compiler.passes.sums_in_results import SumInResults
from modelwheel.program import ops
from modelwheel.program.arrays import Slice, overlap
from tests.support.graphs import lines_after
from tests.support.modules import Emission

FUSED = """
f {
  p0 = f32[2,8] parameter(0)
  p1 = f32[8] parameter(1)
  p2 = f32[2,8] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[2,8] broadcast(zero), dimensions={}
  bias = f32[2,8] broadcast(p1), dimensions={1}
  STEPS
}

ENTRY main {
  x = f32[2,4] parameter(0)
  w = f32[4,8] parameter(1)
  vector = f32[8] parameter(2)
  array = f32[2,8] parameter(3)
  spare = f32[2,8] parameter(4)
  dot = f32[2,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[2,8] fusion(dot, vector, array), kind=kLoop, calls=f
  ROOT results = (f32[2,8]) tuple(f)
}
"""
"""x @ w, and a fusion of it, a vector and an array."""
BIAS = "s0 = f32[2,8] add(p0, bias)"
BIAS_RELU = f"{BIAS}\n  s1 = f32[2,8] maximum(s0, zeros)"
RELU = "s0 = f32[2,8] maximum(p0, zeros)"
RESIDUAL = "s0 = f32[2,8] add(p0, p2)"


DOT = "{lhs_contracting=[1], rhs_contracting=[0], epilogue="


def _graph(
    steps: str,
    *changes: tuple[str, str],
    at: Mapping[str, str | Slice] | None = None,
    results: tuple[str, ...] = ("f",),
    loops: bool = False,
    **kinds: str,
) -> Graph:
    """The product, and a fusion with some instructions."""
    emission = Emission(FUSED, ("STEPS", steps), *changes, at=at)
    return emission.graph(results, loops=loops, **kinds)


def _fused(graph: Graph, *, rewrites: int = 1) -> list[str]:
    return lines_after(FuseEpilogues(), graph, rewrites=rewrites)


def test_bias_and_clamp_become_part_of_the_product() -> None:
    """relu(dot + bias) => dot {shift, low}"""
    graph = _graph(BIAS_RELU, f="output")
    operations = sum(node.operations for node in graph.body.nodes)
    assert _fused(graph) == [
        f"%3 f32[2,8], accumulator=%4 f32[2,8] = dot %0 f32[2,4], %1 f32[4,8], shift=%2 f32[8] {DOT}{{low=0.0}}}}",
    ]
    (node,) = graph.body.nodes
    assert node.operations == operations > 2 * 2 * 4 * 8
    assert node.covers == {"dot", "f"}


def test_parts_are_known_by_their_order() -> None:
    """(dot + bias) * scale + shift + addend => dot {bias, scale, shift, addend}"""
    graph = _graph("""
        s0 = f32[2,8] add(p0, bias)
        s1 = f32[2,8] multiply(s0, bias)
        s2 = f32[2,8] add(s1, bias)
        s3 = f32[2,8] add(s2, p2)
    """)
    (line,) = _fused(graph)
    assert line.endswith(
        "bias=%2 f32[8], scale=%2 f32[8], shift=%2 f32[8], addend=%3 f32[2,8] " + DOT + "{}}"
    )


@pytest.mark.parametrize(
    "steps",
    [
        f"{RELU}\n  s1 = f32[2,8] add(s0, p2)",
        f"{RELU}\n  s1 = f32[2,8] add(s0, bias)\n  s2 = f32[2,8] multiply(s1, bias)",
        f"{BIAS}\n  s1 = f32[2,8] add(s0, bias)\n  s2 = f32[2,8] add(s1, bias)",
        "s0 = f32[2,8] multiply(p0, zeros)\n  s1 = f32[2,8] multiply(s0, bias)",
        "s0 = f32[2,8] subtract(p0, bias)",
        "s0 = f32[2,8] add(p0, p0)",
    ],
)
def test_anything_else_stays_a_kernel(steps: str) -> None:
    assert len(_fused(_graph(steps), rewrites=0)) == 2


ADDED = """
add {
  x = f32[4] parameter(0)
  w = f32[4,8] parameter(1)
  other = f32[8] parameter(2)
  dot = f32[8] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT sum = f32[8] add(dot, other)
}

f {
  p0 = f32[8] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[8] broadcast(zero), dimensions={}
  ROOT after = f32[8] maximum(p0, zeros)
}

ENTRY main {
  x = f32[4] parameter(0)
  w = f32[4,8] parameter(1)
  other = f32[8] parameter(2)
  sum = f32[8] fusion(x, w, other), kind=kOutput, calls=add
  f = f32[8] fusion(sum), kind=kLoop, calls=f
  ROOT results = (f32[8]) tuple(f)
}
"""
"""A kernel that multiplies a vector and adds another one, and a fusion of that."""


def _added(
    *changes: tuple[str, str], rewrites: int = 1, at: Mapping[str, str] | None = None
) -> list[str]:
    graph = Emission(ADDED, *changes, at=at).graph(["f"])
    RecogniseKernels().run(graph)
    return lines_after(FuseEpilogues(), graph, rewrites=rewrites)


@pytest.mark.parametrize("place", ["other", "f"])
def test_what_a_product_adds_already_is_followed_by_more(place: str) -> None:
    """relu(dot {bias}) => dot {bias, low}"""
    (line,) = _added(at={"sum": "f"} if place == "f" else {})
    assert "bias=%2 f32[8]" in line
    assert "epilogue={low=0.0}" in line


def test_what_is_applied_before_that_stays_a_kernel() -> None:
    two = ("  zero = f32[] constant(0)", "  two = f32[] constant(2)")
    twos = ("zeros = f32[8] broadcast(zero)", "twos = f32[8] broadcast(two)")
    doubled = ("maximum(p0, zeros)", "multiply(p0, twos)")
    (line,) = _added(doubled, two, twos)
    assert "bias=%2 f32[8]" in line
    assert "epilogue={factor=2.0}" in line
    above = (
        "  ROOT after = f32[8] maximum(p0, zeros)",
        "  once = f32[8] multiply(p0, twos)\n  ROOT after = f32[8] maximum(once, twos)",
    )
    assert len(_added(above, two, twos, rewrites=0)) == 2


def test_a_kernel_may_follow_what_another_one_has_become() -> None:
    """relu(dot + bias) in two fusions => dot {shift, low}"""
    again = (
        "  ROOT results = (f32[2,8]) tuple(f)",
        "  ROOT g = f32[2,8] fusion(f), kind=kLoop, calls=g",
    )
    relu = (
        "ENTRY",
        """g {
          x = f32[2,8] parameter(0)
          zero = f32[] constant(0)
          zeros = f32[2,8] broadcast(zero), dimensions={}
          ROOT above = f32[2,8] maximum(x, zeros)
        }

        ENTRY""",
    )
    (line,) = _fused(_graph(BIAS, again, relu, results=("g",)), rewrites=2)
    assert f"shift=%2 f32[8] {DOT}{{low=0.0}}" in line


def test_a_product_that_something_else_reads_keeps_its_result() -> None:
    used = ("ROOT results = (f32[2,8]) tuple(f)", "ROOT other = f32[2,8] negate(dot)")
    assert len(_fused(_graph(BIAS_RELU, used, results=("f", "other")), rewrites=0)) == 3
    assert len(_fused(_graph(BIAS_RELU, results=("f", "dot")), rewrites=0)) == 2


# --- in one place ---------------------------------------------------------------------------------

SQUARE = (("f32[2,4]", "f32[2,8]"), ("f32[4,8]", "f32[8,8]"))
"""The product has the shape of what it multiplies."""


def test_a_loop_fuses_too() -> None:
    assert _fused(_graph(BIAS_RELU, loops=True)) == [
        "%3 = while (undefined) {trip_count=2}",
        "  body(%4):",
        f"    %5 f32[2,8], accumulator=%6 f32[2,8] = dot %0 f32[2,4], %1 f32[4,8], shift=%2 f32[8] {DOT}{{low=0.0}}}}",
        "    yield %5",
    ]


def test_a_state_is_written_over_what_it_was_computed_from() -> None:
    """The sums have other memory: all elements of the old state are read for each of the new one."""
    graph = _graph(RELU, *SQUARE, at={"f": "x"}, loops=True, results=("x",), x="temporary")
    assert _fused(graph) == [
        "%1 = while (undefined) {trip_count=2}",
        "  body(%2):",
        f"    %3 f32[2,8], accumulator=%4 f32[2,8] = dot %2 f32[2,8], %0 f32[8,8] {DOT}{{low=0.0}}}}",
        "    yield %3",
    ]
    SumInResults().run(graph)
    ((loop,), _) = assign(graph)
    (step,) = loop.regions[1]
    assert step.outputs["out"].slice == step.inputs["lhs"].slice
    assert not overlap(step.outputs["out"].slice, step.outputs["accumulator"].slice)


def test_an_addend_may_be_the_result() -> None:
    graph = _graph(RESIDUAL, at={"f": "array"}, loops=True, results=("array",), array="temporary")
    assert _fused(graph) == [
        "%2 = while (undefined) {trip_count=2}",
        "  body(%3):",
        f"    %4 f32[2,8], accumulator=%5 f32[2,8] = dot %0 f32[2,4], %1 f32[4,8], addend=%3 f32[2,8] {DOT}{{}}}}",
        "    yield %4",
    ]


def test_a_part_of_an_addend_may_not_be_the_result() -> None:
    state = 3
    parts = {
        name: Slice(allocation=state, offset=offset, size=64)
        for name, offset in (("array", 0), ("f", 32))
    }
    wide = ("spare = f32[2,8]", "spare = f32[4,8]")
    graph = _graph(RESIDUAL, wide, at=parts, loops=True, results=("spare",), spare="temporary")
    assert sum(" = kernel " in line for line in _fused(graph, rewrites=0)) == 1


# --- nodes in between -----------------------------------------------------------------------------

BEFORE = "  f = f32[2,8] fusion"


def _between(text: str) -> tuple[str, str]:
    return BEFORE, f"  {text}\n{BEFORE}"


def test_a_product_stays_where_it_is_if_all_that_it_adds_is_there() -> None:
    product, other = _fused(_graph(BIAS_RELU, _between("other = f32[2,8] negate(array)")))
    assert (" = dot " in product, " = kernel " in other) == (True, True)


def test_a_product_waits_for_what_it_adds() -> None:
    late = ("vector = f32[8] parameter(2)\n", "")
    given = ("ENTRY main {", "ENTRY main {\n  given = f32[8] parameter(2)")
    kernel, product = _fused(
        _graph(BIAS_RELU, late, given, _between("vector = f32[8] negate(given)"))
    )
    assert (" = kernel " in kernel, " = dot " in product) == (True, True)


def test_a_product_waits_for_those_that_read_what_it_overwrites() -> None:
    graph = _graph(
        BIAS_RELU,
        _between("other = f32[2,8] negate(spare)"),
        at={"f": "spare"},
        loops=True,
        results=("spare", "other"),
        spare="temporary",
    )
    _, _, kernel, product, _ = _fused(graph)
    assert (" = kernel " in kernel, " = dot " in product) == (True, True)


def test_a_product_whose_operand_is_overwritten_meanwhile_does_not_wait() -> None:
    """Nor can it run before: the fusion adds what is computed in between."""
    late = ("vector = f32[8] parameter(2)\n", "")
    graph = _graph(
        BIAS_RELU,
        *SQUARE,
        late,
        ("ENTRY main {", "ENTRY main {\n  given = f32[8] parameter(2)"),
        _between("vector = f32[8] negate(given)\n  next = f32[2,8] negate(array)"),
        at={"next": "x"},
        loops=True,
        results=("x", "f"),
        x="temporary",
    )
    lines = _fused(graph, rewrites=0)
    assert sum(" = kernel " in line for line in lines) == 3


def test_an_addend_is_not_put_where_the_operands_still_are() -> None:
    """XLA has it, and the sum, over the old state, which the product has read by then."""
    late = ("array = f32[2,8] parameter(3)\n", "")
    graph = _graph(
        RESIDUAL,
        *SQUARE,
        late,
        _between("array = f32[2,8] negate(spare)"),
        at={"array": "x", "f": "x"},
        loops=True,
        results=("x",),
        x="temporary",
    )
    _, _, kernel, product, _ = _fused(graph)
    assert (" = kernel " in kernel, " = dot " in product) == (True, True)
    ((loop,), _) = assign(graph)
    _, step = loop.regions[1]
    assert not overlap(step.inputs["addend"].slice, step.inputs["lhs"].slice)


# --- products with a vector -----------------------------------------------------------------------

VECTOR = """
f {
  p0 = f32[2,8] parameter(0)
  p1 = f32[8] parameter(1)
  values = f32[2,8] tanh(p0)
  ROOT product = f32[2] dot(values, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY main {
  x = f32[2,4] parameter(0)
  w = f32[4,8] parameter(1)
  vector = f32[8] parameter(2)
  dot = f32[2,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[2] fusion(dot, vector), kind=kLoop, calls=f
  ROOT results = (f32[2]) tuple(f)
}
"""


def _vector(
    *changes: tuple[str, str], results: tuple[str, ...] = ("f",), rewrites: int = 1
) -> list[str]:
    graph = Emission(VECTOR, *changes).graph(results)
    return lines_after(FuseEpilogues(), graph, rewrites=rewrites)


def test_what_a_product_with_a_vector_computes_first_becomes_part_of_the_one_before() -> None:
    """dot(tanh(dot), vector) => dot {activation=tanh}, dot"""
    assert _vector() == [
        f"%3 f32[2,8], accumulator=%3 f32[2,8] = dot %0 f32[2,4], %1 f32[4,8] {DOT}{{activation=tanh}}}}",
        "%4 f32[2] = dot %3 f32[2,8], %2 f32[8] {lhs_contracting=[1], rhs_contracting=[0]}",
    ]


def test_a_product_of_other_values_stays_a_kernel() -> None:
    assert " = kernel " in _vector(("tanh(p0)", "erf(p0)"), rewrites=0)[1]
    assert " = kernel " in _vector(results=("f", "dot"), rewrites=0)[1]


# --- activations ----------------------------------------------------------------------------------

SIGMOID = """
    minus = f32[2,8] negate(x)
    power = f32[2,8] exponential(minus)
    sum = f32[2,8] add(power, one)
    sigmoid = f32[2,8] divide(one, sum)
"""
SILU = f"{SIGMOID}\n  silu = f32[2,8] multiply(sigmoid, x)"
GELU = """
    halved = f32[2,8] multiply(half, x)
    inner = f32[2,8] multiply(x, root)
    erf = f32[2,8] erf(inner)
    sum = f32[2,8] add(one, erf)
    gelu = f32[2,8] multiply(sum, halved)
"""
HARD_SWISH = """
    raised = f32[2,8] add(x, three)
    limited = f32[2,8] clamp(zeros, raised, six)
    gated = f32[2,8] multiply(x, limited)
"""


def _activated(steps: str, **numbers: float) -> ops.Activation | None:
    """The activation of the product plus bias that a fusion has, whose instructions are of `x`."""
    constants: dict[str, Any] = {
        "one": 1.0, "half": 0.5, "root": 0.5**0.5, "three": 3.0, "six": 6.0, "sixth": 1 / 6, **numbers
    }  # fmt: skip
    lines = (
        f"{name}.1 = f32[] constant({value!r})\n"
        f"{name} = f32[2,8] broadcast({name}.1), dimensions={{}}"
        for name, value in constants.items()
    )
    graph = _graph("\n".join((*lines, "x = f32[2,8] add(p0, bias)", steps)))
    FuseEpilogues().run(graph)
    node = graph.body.nodes[-1]
    if isinstance(node.op, ops.Kernel):
        return None
    assert isinstance(node.op, ops.Dot)
    assert len(graph.body.nodes) == 1
    assert node.op.epilogue is not None
    assert "shift" in node.inputs
    return node.op.epilogue.activation


@pytest.mark.parametrize(
    ("steps", "before"), [(RELU, "low=0.0"), ("s0 = f32[2,8] tanh(p0)", "activation=tanh")]
)
def test_batch_norm_may_follow_an_activation(steps: str, before: str) -> None:
    """relu(dot) * vector + vector => dot {low, factors, offsets}"""
    (line,) = _fused(
        _graph(f"{steps}\n  s1 = f32[2,8] multiply(s0, bias)\n  s2 = f32[2,8] add(s1, bias)")
    )
    assert line.endswith(f"factors=%2 f32[8], offsets=%2 f32[8] {DOT}{{{before}}}}}")


def test_numbers_and_columns_may_follow_an_addend() -> None:
    """(dot + array) * vector + 0 => dot {addend, factors, offset}"""
    (line,) = _fused(
        _graph(f"{RESIDUAL}\n  s1 = f32[2,8] multiply(s0, bias)\n  s2 = f32[2,8] add(s1, zeros)")
    )
    assert line.endswith(f"addend=%3 f32[2,8], factors=%2 f32[8] {DOT}{{offset=0.0}}}}")


def test_a_scale_and_a_shift_may_follow_an_activation() -> None:
    """tanh(dot) * 3 + 2 => dot {activation=tanh, factor=3, offset=2}"""
    affine = """
        three = f32[] constant(3)
        threes = f32[2,8] broadcast(three), dimensions={}
        two = f32[] constant(2)
        twos = f32[2,8] broadcast(two), dimensions={}
    """
    (line,) = _fused(
        _graph(f"""{affine}
            s0 = f32[2,8] tanh(p0)
            s1 = f32[2,8] multiply(s0, threes)
            s2 = f32[2,8] add(s1, twos)
        """)
    )
    assert line.endswith(f"{DOT}{{activation=tanh, factor=3.0, offset=2.0}}}}")
    # No activation, and no other factor, comes after them.
    for steps in (
        "s0 = f32[2,8] multiply(p0, threes)\n  s1 = f32[2,8] tanh(s0)",
        "s0 = f32[2,8] tanh(p0)\n  s1 = f32[2,8] add(s0, twos)\n  s2 = f32[2,8] multiply(s1, threes)",
    ):
        assert len(_fused(_graph(f"{affine}{steps}"), rewrites=0)) == 2


def test_activations_are_known_by_their_definition() -> None:
    """f(dot + bias) => dot {shift, activation=f}"""
    assert _activated("y = f32[2,8] tanh(x)") == "tanh"
    assert _activated(SIGMOID) == "sigmoid"
    assert _activated(SILU) == "silu"
    assert _activated(GELU) == "gelu"


def test_hard_swish_is_known_with_and_without_its_factor() -> None:
    assert _activated(HARD_SWISH) == "hard_swish_6"
    assert _activated(f"{HARD_SWISH}\n  y = f32[2,8] multiply(gated, sixth)") == "hard_swish"
    assert _activated(HARD_SWISH, six=5.0) is None


RECTIFIED = """
    slope = f32[] constant(0.25)
    slopes = f32[2,8] broadcast(slope), dimensions={}
    two = f32[] constant(2)
    twos = f32[2,8] broadcast(two), dimensions={}
    one = f32[] constant(1)
    ones = f32[2,8] broadcast(one), dimensions={}
    above = pred[2,8] compare(p0, zeros), direction=GT
    least = f32[2,8] minimum(p0, zeros)
    curve = f32[2,8] exponential-minus-one(p0)
    line = f32[2,8] multiply(p0, slopes)
"""


@pytest.mark.parametrize(
    ("steps", "activation"),
    [
        ("y = f32[2,8] select(above, p0, curve)", "activation=elu, slope=1.0"),
        ("y = f32[2,8] select(above, p0, line)", "activation=leaky_relu, slope=0.25"),
        ("y = f32[2,8] maximum(line, p0)", "activation=leaky_relu, slope=0.25"),
        (
            (
                "below = pred[2,8] compare(zeros, p0), direction=GE\n"
                "y = f32[2,8] select(below, curve, p0)"
            ),
            "activation=elu, slope=1.0",
        ),
        (
            (
                "safe = f32[2,8] select(above, zeros, p0)\n"
                "curved = f32[2,8] exponential-minus-one(safe)\n"
                "scaled = f32[2,8] multiply(slopes, curved)\n"
                "y = f32[2,8] select(above, p0, scaled)"
            ),
            "activation=elu, slope=0.25",
        ),
        (
            (
                "power = f32[2,8] exponential(least)\n"
                "less = f32[2,8] subtract(power, ones)\n"
                "y = f32[2,8] select(above, p0, less)"
            ),
            "activation=elu, slope=1.0",
        ),
        (
            (
                "high = f32[2,8] multiply(p0, twos)\n"
                "low = f32[2,8] multiply(curve, slopes)\n"
                "y = f32[2,8] select(above, high, low)"
            ),
            "activation=elu, slope=0.125, factor=2.0",
        ),
        # Below 0 the other way round, beyond another number, of another argument, a steeper slope.
        ("y = f32[2,8] select(above, curve, p0)", None),
        (
            "over = pred[2,8] compare(p0, ones), direction=GT\ny = f32[2,8] select(over, p0, curve)",
            None,
        ),
        ("y = f32[2,8] select(above, p2, curve)", None),
        ("steep = f32[2,8] multiply(p0, twos)\ny = f32[2,8] maximum(p0, steep)", None),
    ],
)
def test_rectifiers_are_known_in_all_their_forms(steps: str, activation: str | None) -> None:
    graph = _graph(f"{RECTIFIED}\n{steps}")
    if activation is None:
        assert len(_fused(graph, rewrites=0)) == 2
    else:
        (line,) = _fused(graph)
        assert line.endswith(f"{DOT}{{{activation}}}}}")


@pytest.mark.parametrize(
    "steps",
    [
        "y = f32[2,8] erf(x)",
        GELU.replace("root", "half"),
        SIGMOID.replace("negate(x)", "negate(one)"),
        SILU.replace("negate(x)", "negate(p0)"),  # of two arguments
    ],
)
def test_what_only_looks_like_an_activation_stays_a_kernel(steps: str) -> None:
    assert _activated(steps) is None
