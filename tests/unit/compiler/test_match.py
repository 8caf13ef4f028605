"""Questions that readers ask of instructions."""

from __future__ import annotations

import math

import pytest

from modelwheel.compiler.ir.hlo import Instruction
from modelwheel.compiler.ir.hlo_text import read_text
from modelwheel.compiler.ir.match import (
    Value,
    behind_bitcasts,
    integer_of,
    is_row_major,
    keeps_memory,
    parameter_of,
    scalar_of,
)

FUSED = """
f {
  a = f32[6] parameter(0)
  b = f32[6] parameter(1)
  flat = f32[2,3] bitcast(b)
  ROOT sum = f32[2,3] add(flat, flat)
}

ENTRY main {
  x = f32[6] parameter(0)
  y = f32[6] negate(x)
  f = f32[2,3] fusion(x, y), kind=kLoop, calls=f
  ROOT result = f32[6] bitcast(f)
}
"""


def test_a_value_is_followed_through_bitcasts_parameters_and_fusions() -> None:
    """result = bitcast(fusion) => the fusion's add; its operand bitcast(parameter) => negate"""
    module = read_text(FUSED)
    value, names = Value(module.entry.root), []
    while (source := value.source()) is not None:
        value = source
        names.append(value.node.name)
    assert names == ["f", "sum"]
    value, inside = value.operands[0], []
    while (source := value.source()) is not None:
        value = source
        inside.append((value.node.name, value.fusion is not None))
    assert inside == [("b", True), ("y", False)]


def test_bitcasts_are_looked_through() -> None:
    module = read_text(FUSED)
    assert behind_bitcasts(module.entry.root) is module.instruction("f")
    flat, total = module.instruction("flat"), module.instruction("sum")
    assert flat is not None
    assert total is not None
    assert parameter_of(flat) == 1
    assert parameter_of(total) is None


def _root(*lines: str) -> Instruction:
    return read_text("ENTRY main {\n" + "\n".join(lines) + "\n}").entry.root


@pytest.mark.parametrize(
    ("lines", "number", "finite"),
    [
        (["c = f32[] constant(0.5)"], 0.5, 0.5),
        (["c = f32[1,1] constant({{0.5}})"], 0.5, 0.5),
        (["c = f32[] constant(0.5)", "d = f32[4] broadcast(c), dimensions={}"], 0.5, 0.5),
        (["c = f32[] constant(-inf)"], -math.inf, None),
        (["c = f32[2] constant({0.5, 0.5})"], None, None),
        (["c = f32[2] parameter(0)", "d = f32[2,4] broadcast(c), dimensions={0}"], None, None),
        (["c = f64[] constant(0.5)"], None, None),
        (["c = s32[] constant(1)"], None, None),
    ],
)
def test_the_number_that_all_elements_are(
    lines: list[str], number: float | None, finite: float | None
) -> None:
    assert scalar_of(_root(*lines)) == number
    assert scalar_of(_root(*lines), finite=True) == finite


@pytest.mark.parametrize(
    ("lines", "integer"),
    [
        (["c = s64[] constant(-3)", "d = s64[4] broadcast(c), dimensions={}"], -3),
        (["c = pred[] constant(true)"], 1),
        (["c = u8[] constant(3)"], None),
        (["c = f32[] constant(3)"], None),
    ],
)
def test_the_integer_that_all_elements_are(lines: list[str], integer: int | None) -> None:
    assert integer_of(_root(*lines)) == integer


@pytest.mark.parametrize(
    ("dimensions", "minor_to_major", "strict", "loose"),
    [
        ((2, 3), (1, 0), True, True),
        ((2, 3), (0, 1), False, False),
        ((6, 1), (0, 1), False, True),
        ((), (), True, True),
    ],
)
def test_row_major_arrays(
    dimensions: tuple[int, ...], minor_to_major: tuple[int, ...], strict: bool, loose: bool
) -> None:
    assert is_row_major(dimensions, minor_to_major) is strict
    assert is_row_major(dimensions, minor_to_major, ignoring_unit_axes=True) is loose


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("y = f32[2,1,3] transpose(x), dimensions={1,0,2}", True),
        ("y = f32[2,3,1] transpose(x), dimensions={1,2,0}", True),
        ("y = f32[1,3,2] transpose(x), dimensions={0,2,1}", False),
        ("y = f32[1,2,3]{1,0,2} copy(x)", False),
        ("y = f32[1,2,3] negate(x)", False),
    ],
)
def test_a_transpose_of_axes_with_one_element_moves_nothing(line: str, kept: bool) -> None:
    assert keeps_memory(_root("x = f32[1,2,3] parameter(0)", line)) is kept
