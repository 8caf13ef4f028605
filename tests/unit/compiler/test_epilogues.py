"""Fusions that become part of a product: only those that the kernels compute in the same order, in memory that is free."""

from __future__ import annotations

from typing import Any

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.memory import Memory
from modelwheel.compiler.passes.epilogues import Steps
from modelwheel.compiler.passes.joining import join_epilogues
from modelwheel.program import ops
from modelwheel.program.arrays import Slice
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
USED_TWICE = ("tuple(f)", "tuple(f, dot)")


def _emission(
    steps: str,
    *changes: tuple[str, str],
    at: dict[str, str | Slice] | None = None,
    before: p.Epilogue | None = None,
) -> Emission:
    """The product, with the epilogue `before`, and a fusion with some instructions."""
    emission = Emission(FUSED, ("STEPS", steps), *changes, at=at)
    if before is not None:
        step = emission.step("dot")
        step.thunk = step.thunk.model_copy(update={"epilogue": before})
        _, kernel = emission.kernel("f")
        arguments = (before.result, *kernel.arguments[1:])
        emission.step("f").thunk = kernel.model_copy(update={"arguments": arguments})
    return emission


def _joined(emission: Emission) -> list[p.Thunk]:
    return [one.thunk for one in join_epilogues(emission.hlo, emission.emitted)]


def _epilogue(emission: Emission) -> p.Epilogue:
    (dot,) = _joined(emission)
    assert isinstance(dot, p.Dot)
    assert dot.epilogue is not None
    assert dot.operations > 2 * 2 * 4 * 8
    return dot.epilogue


def test_bias_and_clamp_become_part_of_the_product() -> None:
    """relu(dot + bias) => dot {shift, low}"""
    emission = _emission(BIAS_RELU)
    assert _epilogue(emission) == p.Epilogue(
        result=emission.place("f"), shift=emission.place("vector"), low=0.0
    )


def test_parts_are_known_by_their_order() -> None:
    """(dot + bias) * scale + shift + addend => dot {bias, scale, shift, addend}"""
    emission = _emission("""
        s0 = f32[2,8] add(p0, bias)
        s1 = f32[2,8] multiply(s0, bias)
        s2 = f32[2,8] add(s1, bias)
        s3 = f32[2,8] add(s2, p2)
    """)
    found = _epilogue(emission)
    assert found.bias == found.scale == found.shift == emission.place("vector")
    assert found.addend == emission.place("array")


@pytest.mark.parametrize(
    "steps",
    [
        f"{RELU}\n  s1 = f32[2,8] add(s0, bias)",
        f"{RESIDUAL}\n  s1 = f32[2,8] multiply(s0, bias)",
        "s0 = f32[2,8] subtract(p0, bias)",
        "s0 = f32[2,8] add(p0, p0)",
        "s0 = f32[2,8] multiply(p0, zeros)",
        f"{BIAS}\n  s1 = f32[2,8] add(s0, bias)",
    ],
)
def test_anything_else_stays_a_kernel(steps: str) -> None:
    assert len(_joined(_emission(steps))) == 2


@pytest.mark.parametrize("place", ["spare", "dot"])
def test_what_a_product_adds_already_is_followed_by_more(place: str) -> None:
    """relu(dot {bias}) => dot {bias, low}"""
    plain = Emission(FUSED, ("STEPS", RELU))
    bias = plain.place("vector")
    emission = _emission(RELU, before=p.Epilogue(result=plain.place(place), bias=bias))
    assert _epilogue(emission) == p.Epilogue(result=plain.place("f"), bias=bias, low=0.0)


def test_what_is_applied_before_that_stays_a_kernel() -> None:
    plain = Emission(FUSED, ("STEPS", RELU))
    before = p.Epilogue(result=plain.place("dot"), addend=plain.place("array"))
    assert len(_joined(_emission(BIAS, before=before))) == 2


def test_a_product_that_something_else_reads_keeps_its_result() -> None:
    assert len(_joined(_emission(BIAS_RELU, USED_TWICE))) == 2


def test_an_addend_may_be_the_result_but_not_a_part_of_it() -> None:
    whole = _emission(RESIDUAL, at={"f": "array"})
    assert _epilogue(whole).addend == whole.place("array")
    moved = whole.place("array").model_copy(update={"offset": 32})
    assert len(_joined(_emission(RESIDUAL, at={"f": moved}))) == 2
    within = Emission(FUSED, ("STEPS", BIAS_RELU)).place("dot").model_copy(update={"offset": 4})
    assert len(_joined(_emission(BIAS_RELU, at={"f": within}))) == 2


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


def test_what_a_product_with_a_vector_computes_first_becomes_part_of_the_one_before() -> None:
    """dot(tanh(dot), vector) => dot {activation=tanh}, dot"""
    emission = Emission(VECTOR)
    first, second = _joined(emission)
    assert isinstance(first, p.Dot)
    assert isinstance(second, p.Dot)
    assert first.epilogue == p.Epilogue(result=first.out.slice, activation="tanh")
    assert second.lhs == first.out
    assert (second.rhs, second.out) == (emission.array("vector"), emission.array("f"))
    assert second.epilogue is None


@pytest.mark.parametrize("change", [("tanh(p0)", "erf(p0)"), USED_TWICE])
def test_a_product_of_other_values_stays_a_kernel(change: tuple[str, str]) -> None:
    assert isinstance(_joined(Emission(VECTOR, change))[1], p.Kernel)


# --- steps in between -----------------------------------------------------------------------------


def _kernel(reads: Slice, writes: Slice) -> p.Kernel:
    return p.Kernel(
        operations=0, symbol="other", workgroups=(1, 1, 1), arguments=(reads,), results=(writes,)
    )


@pytest.mark.parametrize(
    ("reads", "writes", "position"),
    [
        ("spare", "array", 0),  # has nothing to do with both
        ("spare", "vector", 1),  # makes what the fusion reads: the product waits
        ("f", "array", 1),  # reads what the fusion overwrites: the product waits
        ("f", "x", None),  # overwrites what the product reads, too
    ],
)
def test_kernels_in_between_keep_their_place(reads: str, writes: str, position: int | None) -> None:
    emission = _emission(BIAS_RELU, ("fusion(dot, vector, array)", "fusion(dot, vector)"))
    emission.insert("f", _kernel(emission.place(reads), emission.place(writes)))
    thunks = _joined(emission)
    joined = [n for n, t in enumerate(thunks) if isinstance(t, p.Dot) and t.epilogue is not None]
    assert joined == ([] if position is None else [position])
    assert len(thunks) == (3 if position is None else 2)


def test_a_product_may_wait_if_its_operands_can_move() -> None:
    plain = _emission(BIAS_RELU)
    x = plain.place("x")
    makes_x = _kernel(plain.place("spare"), x)
    spoils_both = _kernel(plain.place("f"), x)

    def joined(*first: p.Thunk, results: tuple[str, ...] = ()) -> tuple[list[p.Thunk], Memory]:
        emission = _emission(BIAS_RELU)
        emission.insert("dot", *first)
        emission.insert("f", spoils_both)
        memory = emission.memory(results, x="temporary")
        steps = Steps(emission.hlo, emission.emitted, memory)
        steps.join(emission.step("f"))
        return [one.thunk for one in steps.all], memory

    (first, between, dot), memory = joined(makes_x)
    assert isinstance(first, p.Kernel)
    assert isinstance(dot, p.Dot)
    assert dot.epilogue is not None
    assert between == spoils_both
    assert first.results == (dot.lhs.slice,)
    assert memory.is_own(dot.lhs.slice)
    # What comes from elsewhere, was written in parts, or is read in the end stays where it is.
    in_parts = makes_x.model_copy(update={"results": (x.model_copy(update={"size": 16}),)})
    for thunks, _ in (joined(), joined(in_parts), joined(makes_x, results=("x",))):
        assert all(getattr(thunk, "epilogue", None) is None for thunk in thunks)


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
    emission = _emission("\n".join((*lines, "x = f32[2,8] add(p0, bias)", steps)))
    (*_, after) = thunks = _joined(emission)
    assert isinstance(after, p.Dot | p.Kernel)
    if isinstance(after, p.Kernel):
        return None
    assert len(thunks) == 1
    assert after.epilogue is not None
    assert after.epilogue.shift == emission.place("vector")
    return after.epilogue.activation


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
