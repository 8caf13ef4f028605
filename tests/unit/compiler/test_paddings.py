"""Poolings of images that XLA only pads: a product finishes the images, and the pooling knows what is around them."""

from __future__ import annotations

from typing import Any

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.passes.joining import join_epilogues
from tests.support.modules import Emission
from tests.support.thunks import pooling

PADDED = """
pad {
  v = f32[2,3,4,8] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[2,3,4,8] broadcast(zero), dimensions={}
  relu = f32[2,3,4,8] maximum(v, zeros)
  around = f32[] constant(0)
  ROOT padded = f32[2,5,7,8] pad(relu, around), padding=0_0x1_1x2_1x0_0
}

pool {
  ROOT padded = f32[2,5,7,8] parameter(0)
}

ENTRY main {
  x = f32[2,3,4,8] parameter(0)
  w = f32[8,8] parameter(1)
  v = f32[2,3,4,8] dot(x, w), lhs_contracting_dims={3}, rhs_contracting_dims={0}
  f = f32[2,5,7,8] fusion(v), kind=kLoop, calls=pad
  pool = f32[2,2,3,8] fusion(f), kind=kLoop, calls=pool
  u = f32[8,4] parameter(2)
  y = f32[2,2,3,4] dot(pool, u), lhs_contracting_dims={3}, rhs_contracting_dims={0}
  ROOT results = (f32[2,2,3,4]) tuple(y)
}
"""
WINDOWS: dict[str, Any] = {
    "batch": 2, "features": 8, "in_size": (5, 7), "out_size": (2, 3), "window": (3, 3), "stride": (2, 2),
}  # fmt: skip
BETWEEN = ("  pool = f32", "  other = f32[2,3,4,8] copy(x)\n  pool = f32")
AROUND = "around = f32[] constant(0)"


def _padded(*changes: tuple[str, str], over: bool = False, **windows: Any) -> Emission:
    """A pooling of relu(v) with padding around it; its result may be written over that of the product."""
    emission = Emission(PADDED, *changes, at={"pool": "v"} if over else {})
    places = map(emission.place, ("f", "pool"))
    emission.step("pool").thunk = pooling(*places, **{**WINDOWS, **windows})
    return emission


def _joined(emission: Emission) -> list[p.Thunk]:
    joined = join_epilogues(emission.hlo, emission.emitted, emission.memory())
    return [one.thunk for one in joined]


@pytest.mark.parametrize("number", [0.0, -0.5])
def test_a_pooling_reads_the_images_themselves(number: float) -> None:
    """pooling of pad(relu(dot)) => dot {low}, pooling {padding}"""
    emission = _padded((AROUND, f"around = f32[] constant({number})"))
    product, pool, _ = _joined(emission)
    assert isinstance(product, p.Dot)
    assert product.epilogue == p.Epilogue(result=emission.place("v"), low=0.0)
    assert isinstance(pool, p.Pooling)
    assert (pool.input, pool.output) == (emission.place("v"), emission.place("pool"))
    assert (pool.in_size, pool.pad_low, pool.padding) == ((3, 4), (1, 2), number)
    windows = {name: value for name, value in WINDOWS.items() if name != "in_size"}
    assert {name: getattr(pool, name) for name in windows} == windows


def test_a_result_over_the_images_moves() -> None:
    emission = _padded(over=True)
    memory = emission.memory()
    _, pool, last = (one.thunk for one in join_epilogues(emission.hlo, emission.emitted, memory))
    assert isinstance(pool, p.Pooling)
    assert isinstance(last, p.Dot)
    assert memory.is_own(pool.output)
    assert last.lhs.slice == pool.output


@pytest.mark.parametrize(
    "change",
    [
        (AROUND, "around = f32[] constant(inf)"),
        (AROUND, "around = f32[] constant(nan)"),
        ("x1_1x2_1x", "x1_1_1x2_1x"),
        ("x1_1x2_1x", "x-1_1x2_1x"),
        ("pad(relu, around)", "reverse(relu, around)"),
        ("pad(relu, around)", "pad(v, around)"),
        ("tuple(y)", "tuple(y, f)"),
        BETWEEN,
    ],
)
def test_anything_else_stays_as_it_is(change: tuple[str, str]) -> None:
    emission = _padded(change)
    before = [one.thunk for one in emission.emitted]
    assert _joined(emission) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"pad_low": (1, 0)},
        {"out_size": (3, 3)},
        {"in_step": 16},
        {"padding": 1.0},
        {"reducer": "sum", "initial": 0.0},
        {"features": 4},
        {"in_size": (7, 5)},
    ],
)
def test_other_poolings_stay_as_they_are(changes: dict[str, Any]) -> None:
    emission = _padded(**changes)
    before = [one.thunk for one in emission.emitted]
    assert _joined(emission) == before


def test_a_pooling_whose_result_cannot_move_stays_as_it_is() -> None:
    emission = _padded(over=True)
    before = [one.thunk for one in emission.emitted]
    assert [one.thunk for one in join_epilogues(emission.hlo, emission.emitted)] == before
