"""Steps that become attention: only the softmax of scores, in memory that nothing else needs."""

from __future__ import annotations

import math

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.passes.joining import join_steps
from modelwheel.program.arrays import Slice
from tests.support.modules import Emission

OUTER, INNER, QUERIES, KEYS, DEPTH, FEATURES = 2, 3, 4, 64, 6, 7
WIDTH = INNER * DEPTH

ATTENTION = """
maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT larger = f32[] maximum(a, b)
}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

queries {
  product = f32[8,18] parameter(0)
  bias = f32[3,6] parameter(1)
  split = f32[2,4,3,6] bitcast(product)
  biases = f32[2,4,3,6] broadcast(bias), dimensions={2,3}
  sum = f32[2,4,3,6] add(split, biases)
  moved = f32[2,3,4,6] transpose(sum), dimensions={0,2,1,3}
  ROOT heads = f32[2,3,4,6] copy(moved)
}

keys {
  product = f32[128,18] parameter(0)
  bias = f32[3,6] parameter(1)
  split = f32[2,64,3,6] bitcast(product)
  biases = f32[2,64,3,6] broadcast(bias), dimensions={2,3}
  sum = f32[2,64,3,6] add(split, biases)
  moved = f32[2,3,6,64] transpose(sum), dimensions={0,2,3,1}
  ROOT heads = f32[2,3,6,64] copy(moved)
}

values {
  product = f32[128,21] parameter(0)
  bias = f32[3,7] parameter(1)
  split = f32[2,64,3,7] bitcast(product)
  biases = f32[2,64,3,7] broadcast(bias), dimensions={2,3}
  sum = f32[2,64,3,7] add(split, biases)
  moved = f32[2,3,64,7] transpose(sum), dimensions={0,2,1,3}
  ROOT heads = f32[2,3,64,7] copy(moved)
}

scaled {
  scores = f32[2,3,4,64] parameter(0)
  tokens = s32[2,64] parameter(1)
  scale = f32[] constant(0.5)
  scales = f32[2,3,4,64] broadcast(scale), dimensions={}
  scaled = f32[2,3,4,64] multiply(scores, scales)
  MASKED
}

windows {
  x = f32[2,3,4,64] parameter(0)
  start = f32[] parameter(1)
  ROOT windows = f32[2,3,4,2] reduce-window(x, start), window={size=1x1x1x32 stride=1x1x1x32}, to_apply=maximum
}

largest {
  x = f32[2,3,4,2] parameter(0)
  start = f32[] parameter(1)
  ROOT largest = f32[2,3,4] reduce(x, start), dimensions={3}, to_apply=maximum
}

powers {
  largest = f32[2,3,4] parameter(0)
  scores = f32[2,3,4,64] parameter(1)
  tokens = s32[2,64] parameter(2)
  other_scale = f32[] constant(0.5)
  scales = f32[2,3,4,64] broadcast(other_scale), dimensions={}
  scaled = f32[2,3,4,64] multiply(scores, scales)
  MASKED_AGAIN
  rows = f32[2,3,4,64] broadcast(largest), dimensions={0,1,2}
  less = f32[2,3,4,64] subtract(masked, rows)
  ROOT powers = f32[2,3,4,64] exponential(less)
}

window_sums {
  x = f32[2,3,4,64] parameter(0)
  start = f32[] parameter(1)
  ROOT windows = f32[2,3,4,2] reduce-window(x, start), window={size=1x1x1x32 stride=1x1x1x32}, to_apply=add
}

sums {
  x = f32[2,3,4,2] parameter(0)
  start = f32[] parameter(1)
  ROOT sums = f32[2,3,4] reduce(x, start), dimensions={3}, to_apply=add
}

shares {
  powers = f32[2,3,4,64] parameter(0)
  sums = f32[2,3,4] parameter(1)
  rows = f32[2,3,4,64] broadcast(sums), dimensions={0,1,2}
  ROOT shares = f32[2,3,4,64] divide(powers, rows)
}

joined {
  heads = f32[2,3,4,7] parameter(0)
  moved = f32[2,4,3,7] transpose(heads), dimensions={0,2,1,3}
  ordered = f32[2,4,3,7] copy(moved)
  ROOT rows = f32[8,21] bitcast(ordered)
}

ENTRY main {
  tokens = s32[2,64] parameter(0)
  xq = f32[8,8] parameter(1)
  wq = f32[8,18] parameter(2)
  bq = f32[3,6] parameter(3)
  vq = f32[8,18] dot(xq, wq), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[2,3,4,6] fusion(vq, bq), kind=kLoop, calls=queries
  xk = f32[128,8] parameter(4)
  wk = f32[8,18] parameter(5)
  bk = f32[3,6] parameter(6)
  vk = f32[128,18] dot(xk, wk), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = f32[2,3,6,64] fusion(vk, bk), kind=kLoop, calls=keys
  xv = f32[128,8] parameter(7)
  wv = f32[8,21] parameter(8)
  bv = f32[3,7] parameter(9)
  vv = f32[128,21] dot(xv, wv), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[2,3,64,7] fusion(vv, bv), kind=kLoop, calls=values
  qk = f32[2,3,4,64] dot(q, k), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  scaled = f32[2,3,4,64] fusion(qk, tokens), kind=kLoop, calls=scaled
  least = f32[] constant(-inf)
  window_largest = f32[2,3,4,2] fusion(scaled, least), kind=kLoop, calls=windows
  largest = f32[2,3,4] fusion(window_largest, least), kind=kLoop, calls=largest
  powers = f32[2,3,4,64] fusion(largest, qk, tokens), kind=kLoop, calls=powers
  zero = f32[] constant(0)
  window_sums = f32[2,3,4,2] fusion(powers, zero), kind=kLoop, calls=window_sums
  sums = f32[2,3,4] fusion(window_sums, zero), kind=kLoop, calls=sums
  shares = f32[2,3,4,64] fusion(powers, sums), kind=kLoop, calls=shares
  pv = f32[2,3,4,7] dot(shares, v), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  joined = f32[8,21] fusion(pv), kind=kLoop, calls=joined
  wo = f32[21,8] parameter(10)
  y = f32[8,8] dot(joined, wo), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT results = (f32[8,8]) tuple(y)
}
"""
UNMASKED = "masked = f32[2,3,4,64] bitcast(scaled)"


def _joined(
    *changes: tuple[str, str], masked: str = UNMASKED, again: str | None = None
) -> list[p.Thunk]:
    """The steps of attention whose scores are masked, differently before they are raised to powers if `again` is given."""
    masks = (("MASKED_AGAIN", again or masked), ("MASKED", masked))
    emission = Emission(ATTENTION, *masks, *changes)
    joined = join_steps(emission.hlo, emission.emitted, emission.memory(["y"]))
    return [one.thunk for one in joined]


def test_scores_softmax_and_values_are_one_step() -> None:
    """dot(softmax(dot(q + bias, k + bias) * scale), v + bias), with copied heads => three dots {shift}, attention {scale}"""
    *products, attention, last = _joined()
    assert isinstance(attention, p.Attention)
    assert (attention.heads, attention.queries, attention.keys) == ((OUTER, INNER), QUERIES, KEYS)
    assert (attention.depth, attention.features, attention.scale) == (DEPTH, FEATURES, 0.5)
    assert attention.operations == 2 * OUTER * INNER * QUERIES * KEYS * (DEPTH + FEATURES)
    assert isinstance(last, p.Dot)
    assert last.lhs.slice == attention.output.slice
    # Each head is read from, and written to, rows of all heads.
    wide = INNER * FEATURES
    assert attention.query.steps == (QUERIES * WIDTH, DEPTH, WIDTH, 1)
    assert attention.key.steps == (KEYS * WIDTH, DEPTH, WIDTH, 1)
    assert attention.value.steps == (KEYS * wide, FEATURES, wide, 1)
    assert attention.output.steps == (QUERIES * wide, FEATURES, wide, 1)
    results: list[Slice] = []
    for product in products:
        assert isinstance(product, p.Dot)
        assert product.epilogue is not None
        assert product.epilogue.shift is not None
        results.append(product.epilogue.result)
    assert results == [part.slice for part in (attention.query, attention.key, attention.value)]


def test_heads_are_read_where_they_are() -> None:
    """Heads that no kernel has copied are operands as they are."""
    inputs = {
        "q = f32[2,3,4,6] fusion(vq, bq), kind=kLoop, calls=queries": "q = f32[2,3,4,6] parameter(11)",
        "k = f32[2,3,6,64] fusion(vk, bk), kind=kLoop, calls=keys": "k = f32[2,3,6,64] parameter(12)",
        "v = f32[2,3,64,7] fusion(vv, bv), kind=kLoop, calls=values": "v = f32[2,3,64,7] parameter(13)",
    }
    *_, attention, _ = _joined(*inputs.items())
    assert isinstance(attention, p.Attention)
    assert attention.key.steps == (INNER * DEPTH * KEYS, DEPTH * KEYS, 1, KEYS)
    assert attention.query.steps == (INNER * QUERIES * DEPTH, QUERIES * DEPTH, DEPTH, 1)


@pytest.mark.parametrize(
    "changes",
    [
        [("other_scale = f32[] constant(0.5)", "other_scale = f32[] constant(0.25)")],
        [("  scale = f32[] constant(0.5)", "  scale = f32[] constant(0.25)")],
        [("scale = f32[] constant(0.5)", "scale = f32[] constant(inf)")],  # both
        [("to_apply=maximum", "to_apply=add")],
        [("fusion(powers, zero)", "fusion(scaled, zero)")],
        [("tuple(y)", "tuple(y, powers)")],
    ],
)
def test_anything_else_is_not(changes: list[tuple[str, str]]) -> None:
    assert not any(isinstance(thunk, p.Attention) for thunk in _joined(*changes))


# --- masks ----------------------------------------------------------------------------------------

HERE = """
  none = s32[] constant(0)
  nones = s32[2,64] broadcast(none), dimensions={}
  there = pred[2,64] compare(tokens, nones), direction=NE
  condition = pred[2,3,4,64] broadcast(there), dimensions={0,3}
"""
"""Which tokens are not 0, for all scores."""
CAUSAL = """
  query = s32[4,64] iota(), iota_dimension=0
  key = s32[4,64] iota(), iota_dimension=1
  behind = pred[4,64] compare(query, key), direction=GE
  condition = pred[2,3,4,64] broadcast(behind), dimensions={2,3}
"""
"""Whether a key is not behind the query, for all scores."""
CHOSEN = """
  low = f32[] constant(-2e38)
  lows = f32[2,3,4,64] broadcast(low), dimensions={}
  masked = f32[2,3,4,64] select(condition, scaled, lows)
"""
"""The scores where the condition is true."""
NEGATED = CHOSEN.replace("(condition, scaled, lows)", "(condition, lows, scaled)")
LOWERED = """
  factor = f32[2,3,4,64] convert(condition)
  large = f32[] constant(-1e9)
  larges = f32[2,3,4,64] broadcast(large), dimensions={}
  penalty = f32[2,3,4,64] multiply(factor, larges)
  masked = f32[2,3,4,64] add(scaled, penalty)
"""
"""The scores, less a large number where the condition is true."""


def _masked(masked: str) -> tuple[p.Mask, p.Attention]:
    steps = [one for one in _joined(masked=masked) if isinstance(one, p.Mask | p.Attention)]
    mask, attention = steps
    assert isinstance(mask, p.Mask)
    assert isinstance(attention, p.Attention)
    return mask, attention


def test_a_condition_chooses_scores() -> None:
    """softmax(select(tokens != 0, scores, low)) => mask, attention {kept, replacement}"""
    mask, attention = _masked(HERE + CHOSEN)
    assert (mask.extents, mask.step) == ((OUTER, 1, 1, KEYS), KEYS)
    assert [one.opcode for one in mask.code.operations] == ["read", "constant", "ne"]
    assert mask.code.operations[0].steps == (KEYS, 0, 0, 1)
    assert attention.added is None
    assert attention.replacement == pytest.approx(-2e38)
    assert attention.kept == p.Heads(slice=mask.output, start=0, steps=(KEYS, 0, 0, 1))


def test_a_condition_may_be_the_opposite() -> None:
    mask, attention = _masked(HERE + NEGATED.replace("-2e38", "-inf"))
    assert [one.opcode for one in mask.code.operations] == ["read", "constant", "ne", "not"]
    assert attention.replacement is None


def test_indices_are_compared() -> None:
    """softmax(select(query >= key, scores, low)) => mask of indices, attention {kept}"""
    mask, attention = _masked(CAUSAL + CHOSEN)
    assert mask.extents == (1, 1, QUERIES, KEYS)
    assert [one.steps for one in mask.code.operations[:2]] == [(0, 0, 1, 0), (0, 0, 0, 1)]
    assert mask.code.operations[-1].opcode == "ge"
    assert attention.kept is not None
    assert attention.kept.steps == (0, 0, KEYS, 1)


def test_a_computed_value_is_added() -> None:
    """softmax(scores + (tokens != 0) * low) => mask, attention {added}"""
    mask, attention = _masked(HERE + LOWERED)
    opcodes = [one.opcode for one in mask.code.operations]
    assert opcodes == ["read", "constant", "ne", "convert", "constant", "multiply"]
    assert not mask.code.is_condition
    assert attention.kept is None
    assert attention.added == p.Heads(slice=mask.output, start=0, steps=(KEYS, 0, 0, 1))


@pytest.mark.parametrize(
    "again",
    [
        CAUSAL + CHOSEN,
        HERE + CHOSEN.replace("-2e38", "-1e38"),
        HERE + NEGATED,
        HERE + LOWERED,
        UNMASKED,
    ],
)
def test_the_largest_must_be_that_of_the_same_scores(again: str) -> None:
    found = _joined(masked=HERE + CHOSEN, again=again)
    assert not any(isinstance(thunk, p.Attention) for thunk in found)


@pytest.mark.parametrize("number", [math.inf, math.nan])
def test_a_replacement_is_no_upper_limit(number: float) -> None:
    found = _joined(masked=HERE + CHOSEN.replace("-2e38", str(number)))
    assert not any(isinstance(thunk, p.Attention) for thunk in found)
