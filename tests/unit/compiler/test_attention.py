"""Nodes that become attention: only the softmax of scores, of which nothing else reads anything."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.attention import FuseAttention
from tests.support.graphs import lines_after
from tests.support.modules import Emission

OUTER, INNER, QUERIES, KEYS, DEPTH, FEATURES = 2, 3, 4, 64, 6, 7

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


def _graph(
    *changes: tuple[str, str], masked: str = UNMASKED, again: str | None = None, loops: bool = False
) -> Graph:
    """Attention whose scores are masked, differently before they are raised to powers if `again` is given."""
    masks = (("MASKED_AGAIN", again or masked), ("MASKED", masked))
    return Emission(ATTENTION, *masks, *changes).graph(["y"], loops=loops)


def _lines(*changes: tuple[str, str], **options: Any) -> list[str]:
    """Its lines when it is one node."""
    return lines_after(FuseAttention(), _graph(*changes, **options), rewrites=1)


FUSED = [
    (
        "%10 f32[8,18], accumulator=%11 f32[8,18] = dot %0 f32[8,8], %1 f32[8,18], shift=%2 f32[18]"
        " {lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
    ),
    (
        "%12 f32[128,18], accumulator=%13 f32[128,18] = dot %3 f32[128,8], %4 f32[8,18], shift=%5 f32[18]"
        " {lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
    ),
    (
        "%14 f32[128,21], accumulator=%15 f32[128,21] = dot %6 f32[128,8], %7 f32[8,21], shift=%8 f32[21]"
        " {lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
    ),
    (
        "%16 f32[2,3,4,7]{84,7,21,1} = attention %10 f32[2,3,4,6]{72,6,18,1}, %12 f32[2,3,64,6]{1152,6,18,1},"
        " %14 f32[2,3,64,7]{1344,7,21,1} {scale=0.5}"
    ),
    "%17 f32[8,8] = dot %16 f32[8,21], %9 f32[21,8] {lhs_contracting=[1], rhs_contracting=[0]}",
]
"""Each head is read from, and written to, rows of all heads."""


def test_scores_softmax_and_values_are_one_node() -> None:
    """dot(softmax(dot(q + bias, k + bias) * scale), v + bias), with copied heads => three dots {shift}, attention {scale}"""
    assert _lines() == FUSED


def test_the_node_has_the_work_and_the_names_of_all() -> None:
    graph = _graph()
    FuseAttention().run(graph)
    (query, _, _, attention, _) = graph.body.nodes
    # Queries, keys and values are kernels that their products do the work of.
    assert query.covers == {"vq", "q"}
    softmax = {"scaled", "window_largest", "largest", "powers", "window_sums", "sums", "shares"}
    assert attention.covers == {"qk", *softmax, "pv", "joined"}
    assert attention.operations == 2 * OUTER * INNER * QUERIES * KEYS * (DEPTH + FEATURES)


def test_a_layer_in_a_loop_is_one_node_too() -> None:
    """A transformer may be a loop over its layers."""
    lines = _lines(loops=True)
    assert [line.split(" = ")[1].split(" ")[0] for line in lines if " = " in line] == [
        "while",
        *["dot"] * 3,
        "attention",
        "dot",
    ]


def test_heads_are_read_where_they_are() -> None:
    """Heads that no kernel has copied are operands as they are."""
    inputs = {
        "q = f32[2,3,4,6] fusion(vq, bq), kind=kLoop, calls=queries": "q = f32[2,3,4,6] parameter(11)",
        "k = f32[2,3,6,64] fusion(vk, bk), kind=kLoop, calls=keys": "k = f32[2,3,6,64] parameter(12)",
        "v = f32[2,3,64,7] fusion(vv, bv), kind=kLoop, calls=values": "v = f32[2,3,64,7] parameter(13)",
    }
    (attention,) = (line for line in _lines(*inputs.items()) if " = attention " in line)
    (_, operands) = attention.split(" = attention ")
    assert re.sub(r"%\d+ ", "", operands) == (
        "f32[2,3,4,6], f32[2,3,64,6]{1152,384,1,64}, f32[2,3,64,7] {scale=0.5}"
    )


def _cut(name: str, heads: str, first: int, depth: int) -> tuple[tuple[str, str], ...]:
    """Queries, keys or values that are columns of one product of all of them."""
    rows, width = ("8" if name == "queries" else "128"), 3 * depth
    return (
        (f"product = f32[{rows},{width}] parameter(0)\n  bias = f32[3,{depth}] parameter(1)\n  split = f32[2,{heads},3,{depth}] bitcast(product)\n  biases = f32[2,{heads},3,{depth}] broadcast(bias), dimensions={{2,3}}\n  sum = f32[2,{heads},3,{depth}] add(split, biases)",
         f"product = f32[128,57] parameter(0)\n  bias = f32[57] parameter(1)\n  biases = f32[128,57] broadcast(bias), dimensions={{1}}\n  all = f32[128,57] add(product, biases)\n  cut = f32[128,{width}] slice(all), slice={{[0:128], [{first}:{first + width}]}}\n  sum = f32[2,64,3,{depth}] bitcast(cut)"),
    )  # fmt: skip


ONE_PRODUCT = (
    *_cut("queries", "4", 0, 6),
    *_cut("keys", "64", 18, 6),
    *_cut("values", "64", 36, 7),
    ("2,3,4,", "2,3,64,"), ("f32[2,3,4]", "f32[2,3,64]"), ("2,4,3,7]", "2,64,3,7]"),
    ("xq = f32[8,8]", "xq = f32[128,8]"), ("wq = f32[8,18]", "wq = f32[8,57]"), ("bq = f32[3,6]", "bq = f32[57]"),
    ("vq = f32[8,18]", "vq = f32[128,57]"), ("fusion(vk, bk)", "fusion(vq, bq)"),
    ("fusion(vv, bv)", "fusion(vq, bq)"), ("f32[8,21] bitcast", "f32[128,21] bitcast"),
    ("f32[8,21] fusion", "f32[128,21] fusion"), ("y = f32[8,8]", "y = f32[128,8]"), ("(f32[8,8])", "(f32[128,8])"),
)  # fmt: skip
"""Queries, keys and values are columns of one product, as one matrix of weights for all three makes them."""


def test_one_product_may_be_queries_keys_and_values() -> None:
    """Heads cut out of one dot + bias => one dot {shift}, and attention that reads its rows"""
    lines = [line for line in _lines(*ONE_PRODUCT) if "shift=" in line or " = attention " in line]
    finished, attention = (re.sub(r"%\d+ ", "", line.split(" = ")[1]) for line in lines)
    assert finished == (
        "dot f32[128,8], f32[8,57], shift=f32[57] {lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
    )
    assert attention == (
        "attention f32[2,3,64,6]{3648,6,57,1}, f32[2,3,64,6]{3648,6,57,1}@18, "
        "f32[2,3,64,7]{3648,7,57,1}@36 {scale=0.5}"
    )


@pytest.mark.parametrize(
    "change",
    [
        # Values have a bias of their own, or somebody else reads the product.
        [("v = f32[2,3,64,7] fusion(vq, bq)", "own = f32[57] parameter(11)\n  v = f32[2,3,64,7] fusion(vq, own)")],
        [("ROOT results = (f32[128,8]) tuple(y)", "other = f32[128,57] negate(vq)\n  ROOT results = (f32[128,8]) tuple(y)")],
    ],
)  # fmt: skip
def test_a_product_of_several_has_one_epilogue(change: list[tuple[str, str]]) -> None:
    lines = _lines(*ONE_PRODUCT, *change)
    assert not any("shift=" in line for line in lines)
    (attention,) = (line for line in lines if " = attention " in line)
    assert "@" not in attention


def test_queries_and_keys_may_be_the_same() -> None:
    """dot(heads, heads): the product that both are is finished once."""
    same = (
        ("2,4,3,6]", "2,64,3,6]"), ("2,3,4,6]", "2,3,64,6]"), ("f32[8,18] dot(xq", "f32[128,18] dot(xq"),
        ("product = f32[8,18]", "product = f32[128,18]"), ("xq = f32[8,8]", "xq = f32[128,8]"),
        ("2,3,4,64]", "2,3,64,64]"), ("f32[2,3,4,2]", "f32[2,3,64,2]"), ("f32[2,3,4]", "f32[2,3,64]"),
        ("2,3,4,7]", "2,3,64,7]"), ("2,4,3,7]", "2,64,3,7]"), ("f32[8,21]", "f32[128,21]"),
        ("wv = f32[128,21]", "wv = f32[8,21]"), ("y = f32[8,8]", "y = f32[128,8]"), ("(f32[8,8])", "(f32[128,8])"),
        ("dot(q, k), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}",
         "dot(q, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}"),
    )  # fmt: skip
    lines = _lines(*same)
    (attention,) = (line.split(" = attention ")[1] for line in lines if " = attention " in line)
    query, key, _ = attention.split(", %")
    assert f"%{key}" == query
    assert sum("shift=" in line for line in lines) == 2


@pytest.mark.parametrize(
    "changes",
    [
        [("other_scale = f32[] constant(0.5)", "other_scale = f32[] constant(0.25)")],
        [("  scale = f32[] constant(0.5)", "  scale = f32[] constant(0.25)")],
        [("scale = f32[] constant(0.5)", "scale = f32[] constant(inf)")],  # both
        [("to_apply=maximum", "to_apply=add")],
        [("fusion(powers, zero)", "fusion(scaled, zero)")],
        [("wo = f32[21,8] parameter(10)", "wo = f32[21,8] parameter(10)\n  z = f32[2,3,4,64] copy(powers)")],
    ],
)  # fmt: skip
def test_anything_else_is_not(changes: list[tuple[str, str]]) -> None:
    lines = lines_after(FuseAttention(), _graph(*changes), rewrites=0)
    assert not any(" = attention " in line for line in lines)


def test_what_callers_read_stays() -> None:
    graph = Emission(ATTENTION, ("MASKED_AGAIN", UNMASKED), ("MASKED", UNMASKED))
    lines = lines_after(FuseAttention(), graph.graph(["y", "powers"]), rewrites=0)
    assert not any(" = attention " in line for line in lines)


def test_memory_that_changes_before_is_not_read_later() -> None:
    """Queries that XLA overwrites when its own kernel has read them: attention would read something else."""
    changes = (
        ("q = f32[2,3,4,6] fusion(vq, bq), kind=kLoop, calls=queries", "q = f32[2,3,4,6] copy(x)"),
        ("tokens = s32[2,64] parameter(0)", ("tokens = s32[2,64] parameter(0)\n  before = f32[2,3,4,6] parameter(11)\n"
         "  x = f32[2,3,4,6]{3,1,2,0} negate(before)")),
        ("zero = f32[] constant(0)\n  w", "zero = f32[] constant(0)\n  late = f32[2,3,4,6]{3,1,2,0} negate(x)\n  w"),
        ("MASKED_AGAIN", UNMASKED), ("MASKED", UNMASKED),
    )  # fmt: skip
    kept = Emission(ATTENTION, *changes).graph(["y", "late"])
    lines = lines_after(FuseAttention(), kept, rewrites=1)
    assert any(" = attention %" in line and "f32[2,3,4,6]{72,6,18,1}" in line for line in lines)
    changed = Emission(ATTENTION, *changes, at={"late": "x"}).graph(["y", "late"])
    assert lines_after(FuseAttention(), changed, rewrites=0)


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


def _masked(masked: str) -> tuple[str, str]:
    """The mask, and what attention has more than without one."""
    (mask, attention) = (
        line for line in _lines(masked=masked) if re.search(r" = (mask|attention) ", line)
    )
    _, operands = attention.split("}, %")[-1], attention.split("f32[2,3,64,7]{1344,7,21,1}")[1]
    return re.sub(r"%\d+ ", "", mask), re.sub(r"%\d+ ", "", operands)


def test_a_condition_chooses_scores() -> None:
    """softmax(select(tokens != 0, scores, low)) => mask, attention {kept, replacement}"""
    mask, attention = _masked(HERE + CHOSEN)
    assert mask == "s32[2,1,1,64] = mask s32[2,1,1,64] {code=(ne(read0, 0.0))}"
    assert attention == (
        ", kept=s32[2,3,4,64]{64,0,0,1} {scale=0.5, replacement=-1.9999999360571385e+38}"
    )


def test_a_condition_may_be_the_opposite() -> None:
    mask, attention = _masked(HERE + NEGATED.replace("-2e38", "-inf"))
    assert mask == "s32[2,1,1,64] = mask s32[2,1,1,64] {code=(not(ne(read0, 0.0)))}"
    assert attention == ", kept=s32[2,3,4,64]{64,0,0,1} {scale=0.5}"


def test_indices_are_compared() -> None:
    """softmax(select(query >= key, scores, low)) => mask of indices, attention {kept}"""
    mask, attention = _masked(CAUSAL + CHOSEN)
    assert mask == (
        "s32[1,1,4,64] = mask {code=(ge(index(0, [0, 0, 1, 0]), index(0, [0, 0, 0, 1])))}"
    )
    assert attention.startswith(", kept=s32[2,3,4,64]{0,0,64,1} {")


def test_a_computed_value_is_added() -> None:
    """softmax(scores + (tokens != 0) * low) => mask, attention {added}"""
    mask, attention = _masked(HERE + LOWERED)
    assert mask == (
        "f32[2,1,1,64] = mask s32[2,1,1,64]"
        " {code=(multiply(convert_f32(ne(read0, 0.0)), -1000000000.0))}"
    )
    assert attention == ", added=f32[2,3,4,64]{64,0,0,1} {scale=0.5}"


def test_a_loop_computes_its_mask_once() -> None:
    """All iterations have the same tokens: the mask is before the loop."""
    lines = _lines(masked=HERE + CHOSEN, loops=True)
    kinds = [line.split(" = ")[1].split(" ")[0] for line in lines if " = " in line]
    assert kinds == ["mask", "while", *["dot"] * 3, "attention", "dot"]


def test_layers_with_equal_masks_share_one() -> None:
    """softmax(select(tokens != 0, ..)) twice => one mask, two nodes of attention"""
    (entry,) = re.findall(r"  vq = .*  y = [^\n]*\n", ATTENTION, re.DOTALL)
    names = set(re.findall(r"^  (\w+) = (?!.*parameter)", entry, re.MULTILINE))
    second = "".join(line for line in entry.splitlines(keepends=True) if " parameter(" not in line)
    second = re.sub(rf"(?<!calls=)\b({'|'.join(names)})\b", r"\1_2", second)
    masks = (("MASKED_AGAIN", HERE + CHOSEN), ("MASKED", HERE + CHOSEN))
    both = Emission(ATTENTION, *masks, (entry, entry + second)).graph(["y", "y_2"])
    lines = lines_after(FuseAttention(), both, rewrites=2)
    assert sum(" = mask " in line for line in lines) == 1


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
    graph = _graph(masked=HERE + CHOSEN, again=again)
    assert lines_after(FuseAttention(), graph, rewrites=0)


@pytest.mark.parametrize("number", [math.inf, math.nan])
def test_a_replacement_is_no_upper_limit(number: float) -> None:
    graph = _graph(masked=HERE + CHOSEN.replace("-2e38", str(number)))
    assert lines_after(FuseAttention(), graph, rewrites=0)
