"""Poolings of images that XLA only pads: a product finishes the images, and the pooling knows what is around them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.compiler.passes.joining import join_epilogues
from tests.support.modules import Steps, shape
from tests.support.thunks import pooling

IMAGES, PADDED, POOLED, SCALAR = shape(2, 3, 4, 8), shape(2, 5, 7, 8), shape(2, 2, 3, 8), shape()
LAST = shape(2, 2, 3, 4)
WINDOWS: dict[str, Any] = {
    "batch": 2, "features": 8, "in_size": (5, 7), "out_size": (2, 3), "window": (3, 3), "stride": (2, 2),
}  # fmt: skip


def _axis(low: int = 0, high: int = 0, inner: int = 0) -> SimpleNamespace:
    return SimpleNamespace(edge_padding_low=low, edge_padding_high=high, interior_padding=inner)


AXES = (_axis(), _axis(1, 1), _axis(2, 1), _axis())


def _steps(
    *,
    axes: tuple[SimpleNamespace, ...] = AXES,
    number: float = 0.0,
    opcode: str = "pad",
    values: str = "relu",
    read: bool = False,
    over: bool = False,
    between: bool = False,
    **windows: Any,
) -> Steps:
    """A pooling of relu(v) with padding around it; its result may be written over that of the product."""
    steps = Steps()
    steps.given("x", IMAGES)
    steps.product("v", IMAGES, "x")
    steps.add("v", "parameter", IMAGES, within="f", parameter_number=0)
    for name, literal in (("zero", 0.0), ("number", number)):
        constant = SimpleNamespace(f32s=[literal])
        steps.add(name, "constant", SCALAR, within="f", literal=constant)
    steps.add("zeros", "broadcast", IMAGES, "zero", within="f")
    steps.add("relu", "maximum", IMAGES, "v", "zeros", within="f")
    config = SimpleNamespace(dimensions=list(axes))
    steps.add("pad", opcode, PADDED, values, "number", within="f", padding_config=config)
    steps.fusion("f", PADDED, "v")
    if between:
        steps.add("other", "copy", IMAGES, "x")
        steps.kernel("other", ("x",), steps.place("other"))
    steps.add("pool", "fusion", POOLED, "f", calls="f")
    target = steps.place("pool")
    if over:
        target = target.model_copy(update={"allocation": steps.place("v").allocation})
    pool = pooling(steps.place("f"), target, **{**WINDOWS, **windows})
    steps.emitted.append(Emitted(pool, "pool"))
    steps.product("y", LAST, "pool")
    last = steps.emitted[-1]
    assert isinstance(last.thunk, p.Dot)
    lhs = last.thunk.lhs.model_copy(update={"slice": target})
    last.thunk = last.thunk.model_copy(update={"lhs": lhs})
    steps.add("root", "tuple", SCALAR, "y", *(["f"] if read else []))
    return steps


def _joined(steps: Steps) -> tuple[list[p.Thunk], Memory]:
    memory = Memory(steps.kinds())
    return [one.thunk for one in join_epilogues(steps.build(), steps.emitted, memory)], memory


@pytest.mark.parametrize("number", [0.0, -0.5])
def test_a_pooling_reads_the_images_themselves(number: float) -> None:
    steps = _steps(number=number)
    (product, pool, _), _ = _joined(steps)
    assert isinstance(product, p.Dot)
    assert product.epilogue == p.Epilogue(result=steps.place("v"), low=0.0)
    assert isinstance(pool, p.Pooling)
    assert (pool.input, pool.output) == (steps.place("v"), steps.place("pool"))
    assert (pool.in_size, pool.pad_low, pool.padding) == ((3, 4), (1, 2), number)
    windows = {name: value for name, value in WINDOWS.items() if name != "in_size"}
    assert {name: getattr(pool, name) for name in windows} == windows


def test_a_result_over_the_images_moves() -> None:
    (_, pool, last), memory = _joined(_steps(over=True))
    assert isinstance(pool, p.Pooling)
    assert isinstance(last, p.Dot)
    assert memory.is_own(pool.output)
    assert last.lhs.slice == pool.output


@pytest.mark.parametrize(
    "changes",
    [
        {"number": float("inf")},
        {"number": float("nan")},
        {"axes": (_axis(), _axis(1, 1, 1), _axis(2, 1), _axis())},
        {"axes": (_axis(), _axis(-1, 1), _axis(2, 1), _axis())},
        {"opcode": "reverse"},
        {"values": "v"},
        {"read": True},
        {"between": True},
        {"pad_low": (1, 0)},
        {"out_size": (3, 3)},
        {"in_step": 16},
        {"padding": 1.0},
        {"reducer": "sum", "initial": 0.0},
        {"features": 4},
        {"in_size": (7, 5)},
    ],
)
def test_anything_else_stays_as_it_is(changes: dict[str, Any]) -> None:
    steps = _steps(**changes)
    before = [one.thunk for one in steps.emitted]
    assert _joined(steps)[0] == before


def test_a_pooling_whose_result_cannot_move_stays_as_it_is() -> None:
    steps = _steps(over=True)
    before = [one.thunk for one in steps.emitted]
    assert [one.thunk for one in join_epilogues(steps.build(), steps.emitted)] == before
