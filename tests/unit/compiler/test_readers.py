"""Values that several steps read: computed once, and in memory for as long as anybody needs them."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.memory import Memory
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.compiler.passes.joining import join_epilogues
from tests.support.modules import Emission
from tests.support.thunks import pooling

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


def _joined(emission: Emission) -> tuple[list[Emitted], Memory]:
    memory = emission.memory()
    return join_epilogues(emission.hlo, emission.emitted, memory), memory


def test_a_finished_value_is_taken_from_memory() -> None:
    """relu(dot + bias + x) in two fusions => dot {bias, addend=x, low}, and its value is the other's addend"""
    emission = Emission(RESIDUAL)
    joined, _ = _joined(emission)
    v1, v2, _ = (one.thunk for one in joined)
    assert isinstance(v1, p.Dot)
    assert isinstance(v2, p.Dot)
    assert v1.epilogue is not None
    assert v2.epilogue is not None
    assert v1.epilogue.result == v2.lhs.slice == v2.epilogue.addend == emission.place("f1")
    assert v1.epilogue.addend == emission.place("x")
    assert v2.epilogue.result == emission.place("f2")
    assert joined[0].is_kept
    assert not joined[1].is_kept


def test_a_value_moves_if_its_memory_is_used_again() -> None:
    emission = Emission(RESIDUAL, at={"f2": "f1"})
    joined, memory = _joined(emission)
    v1, v2, y = (one.thunk for one in joined)
    assert isinstance(v1, p.Dot)
    assert isinstance(v2, p.Dot)
    assert v1.epilogue is not None
    assert v2.epilogue is not None
    assert isinstance(y, p.Dot)
    moved = v1.epilogue.result
    assert memory.is_own(moved)
    assert moved == v2.lhs.slice == v2.epilogue.addend
    assert v2.epilogue.result == y.lhs.slice == emission.place("f1")


def test_a_value_that_differs_is_computed_again() -> None:
    changed = Emission(RESIDUAL, ("fusion(v1, bias, x, v2", "fusion(v1, other, x, v2"))
    assert [one.thunk.kind for one in _joined(changed)[0]] == [
        *("dot", "kernel", "dot", "kernel", "dot")
    ]


def test_values_of_loops_do_not_move() -> None:
    emission = Emission(RESIDUAL)
    joined = join_epilogues(emission.hlo, emission.emitted)
    assert [one.thunk.kind for one in joined] == ["dot", "kernel", "dot", "kernel", "dot"]


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
    emission = Emission(text)
    v, w = (one.thunk for one in _joined(emission)[0])
    place = emission.place
    assert isinstance(v, p.Dot)
    assert isinstance(w, p.Dot)
    assert v.epilogue == p.Epilogue(result=place("v"), scale=place("bias"))
    assert w.epilogue == p.Epilogue(result=place("f"), shift=place("bias"), addend=place("v"))


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
    emission = Emission(text)
    v, mean = (one.thunk for one in _joined(emission)[0])
    assert isinstance(v, p.Dot)
    assert isinstance(mean, p.Pooling)
    assert v.epilogue == p.Epilogue(result=emission.place("v"), addend=emission.place("x"))
    assert (mean.input, mean.output) == (emission.place("v"), emission.place("f"))
    assert (mean.batch, mean.features, mean.in_size, mean.out_size) == (2, 8, (3, 4), (1, 1))


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


def test_products_write_pieces_of_a_concatenation() -> None:
    """concatenate(relu(dot), value) => dot {low} into columns, copy_rows"""
    emission = Emission(CONCATENATED)
    joined, memory = _joined(emission)
    w, v, copy, y = (one.thunk for one in joined)
    assert isinstance(w, p.Dot)
    assert isinstance(v, p.Dot)
    assert isinstance(copy, p.CopyRows)
    assert isinstance(y, p.Kernel)
    (whole,) = y.arguments
    assert memory.is_own(whole)
    assert v.epilogue is not None
    assert v.out.slice == v.epilogue.result == whole.model_copy(update={"size": 112})
    assert v.out.strides == (8, 1)
    assert v.epilogue.low == 0.0
    assert (copy.rows, copy.columns, copy.step) == (4, 4, 8)
    assert copy.source == emission.place("g")
    assert copy.destination == whole.model_copy(update={"offset": 16, "size": 112})
    assert w.epilogue is not None
    assert w.epilogue.result == emission.place("g")


def test_what_only_poolings_read_too_is_written_at_once() -> None:
    pooled = "pool = f32[4,4] fusion(g), kind=kLoop, calls=g\n  v = f32[4,4] dot(pool"
    emission = Emission(CONCATENATED, ("v = f32[4,4] dot(g", pooled))
    emission.step("pool").thunk = pooling(emission.place("g"), emission.place("pool"))
    w, pool, v, y = (one.thunk for one in _joined(emission)[0])
    assert isinstance(w, p.Dot)
    assert isinstance(pool, p.Pooling)
    assert isinstance(v, p.Dot)
    assert isinstance(y, p.Kernel)
    assert w.out.strides == v.out.strides == (8, 1)
    place = y.arguments[0].model_copy(update={"offset": 16, "size": 112})
    assert w.out.slice == pool.input == place
    assert pool.in_step == 8


@pytest.mark.parametrize("kind", ["output", "parameter"])
def test_what_callers_see_stays_where_it_is(kind: str) -> None:
    emission = Emission(CONCATENATED)
    joined = join_epilogues(emission.hlo, emission.emitted, emission.memory(f=kind))
    assert [one.thunk.kind for one in joined] == ["dot", "kernel", "dot", "kernel", "kernel"]


# --- poolings of scaled values --------------------------------------------------------------------

SCALED = """
g {
  s = f32[4,4] parameter(0)
  half = f32[] constant(0.5)
  halves = f32[4,4] broadcast(half), dimensions={}
  ROOT scaled = f32[4,4] multiply(halves, s)
}

ENTRY main {
  x = f32[4,4] parameter(0)
  s = f32[4,4] copy(x)
  g = f32[4,4] fusion(s), kind=kLoop, calls=g
  pool = f32[4,4] fusion(g), kind=kLoop, calls=g
  ROOT results = (f32[4,4]) tuple(pool)
}
"""
SPOILED = ("  pool = f32", "  other = f32[4,4] copy(x)\n  pool = f32")


def _scaled(*changes: tuple[str, str], **at: str) -> Emission:
    """A pooling of what a kernel multiplies by a half."""
    emission = Emission(SCALED, *changes, at=at)
    pool = pooling(emission.place("g"), emission.place("pool"))
    emission.step("pool").thunk = pool.model_copy(update={"reducer": "sum", "initial": 0.0})
    return emission


def test_a_pooling_multiplies_what_it_adds_up() -> None:
    """pooling of s * 0.5 => pooling {in_factor=0.5}"""
    emission = _scaled()
    _, pool = (one.thunk for one in _joined(emission)[0])
    assert isinstance(pool, p.Pooling)
    assert (pool.input, pool.in_factor) == (emission.place("s"), 0.5)


@pytest.mark.parametrize(
    ("change", "at"), [(("tuple(pool)", "tuple(pool, g)"), {}), (SPOILED, {"other": "s"})]
)
def test_a_scaled_value_that_is_needed_stays(change: tuple[str, str], at: dict[str, str]) -> None:
    assert "g" in [one.instruction for one in _joined(_scaled(change, **at))[0]]
