"""Products of the parts of one array with one matrix: text before and after."""

from __future__ import annotations

import pytest

from modelwheel.compiler.stablehlo.canonical import canonical_form

_X, _W = "tensor<4x2x8xf32>", "tensor<8x6xf32>"
_PART, _ROWS, _MADE = "tensor<1x2x8xf32>", "tensor<2x8xf32>", "tensor<2x6xf32>"


def _unrolled(steps: list[int], matrices: dict[int, str] | None = None) -> str:
    """The input products of an unrolled loop over axis 0, as exporters write them; their sum is the result."""
    lines = []
    for n in steps:
        matrix = (matrices or {}).get(n, "%arg1")
        lines += [
            f"%s{n} = stablehlo.slice %arg0 [{n}:{n + 1}, 0:2, 0:8] : ({_X}) -> {_PART}",
            f"%r{n} = stablehlo.reshape %s{n} : ({_PART}) -> {_ROWS}",
            f"%y{n} = stablehlo.dot_general %r{n}, {matrix}, contracting_dims = [1] x [0] : ({_ROWS}, {_W}) -> {_MADE}",
            f"%t{n} = stablehlo.tanh %y{n} : {_MADE}",
        ]
    total = f"%t{steps[0]}"
    for n in steps[1:]:
        lines.append(f"%a{n} = stablehlo.add {total}, %t{n} : {_MADE}")
        total = f"%a{n}"
    body = "\n".join(f"    {line}" for line in lines)
    arguments = f"%arg0: {_X}, %arg1: {_W}, %arg2: {_W}"
    return (
        f"module {{\n  func.func public @main({arguments}) -> {_MADE} {{\n{body}\n"
        f"    return {total} : {_MADE}\n  }}\n}}\n"
    )


def test_each_product_is_a_part_of_that_of_the_whole_array() -> None:
    found = canonical_form(_unrolled([0, 1, 2, 3]))
    lines = [line.strip() for line in found.split("\n")]
    whole = "tensor<4x2x6xf32>"
    product = f"stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : ({_X}, {_W}) -> {whole}"
    assert [line.partition(" = ")[2] for line in lines if "dot_general" in line] == [product] * 4
    parts = [line.partition(" [")[2] for line in lines if "slice" in line]
    made = f"({whole}) -> tensor<1x2x6xf32>"
    assert parts == [f"{n}:{n + 1}, 0:2, 0:6] : {made}" for n in range(4)]
    assert canonical_form(found) == found


def test_parts_may_have_their_axis() -> None:
    """Chunks of a sequence, along an axis in the middle."""
    x, part, made = "tensor<2x6x8xf32>", "tensor<2x2x8xf32>", "tensor<2x2x6xf32>"
    lines = []
    for n in range(3):
        lines += [
            f"%s{n} = stablehlo.slice %arg0 [0:2, {2 * n}:{2 * n + 2}, 0:8] : ({x}) -> {part}",
            f"%y{n} = stablehlo.dot_general %s{n}, %arg1, contracting_dims = [2] x [0] : ({part}, {_W}) -> {made}",
        ]
    lines.append(f"%a = stablehlo.add %y0, %y1 : {made}")
    lines.append(f"%b = stablehlo.add %a, %y2 : {made}")
    body = "\n".join(f"    {line}" for line in lines)
    text = (
        f"module {{\n  func.func public @main(%arg0: {x}, %arg1: {_W}) -> {made} {{\n{body}\n"
        f"    return %b : {made}\n  }}\n}}\n"
    )
    found = canonical_form(text)
    assert found.count("dot_general %arg0, %arg1, contracting_dims = [2] x [0]") == 3
    assert "[0:2, 4:6, 0:6] : (tensor<2x6x6xf32>) -> tensor<2x2x6xf32>" in found


@pytest.mark.parametrize(
    ("steps", "matrices"),
    [
        ([0, 1], None),  # half of the array would be multiplied in vain
        ([0, 1, 2, 3], {0: "%arg2", 1: "%arg2"}),  # other weights
    ],
)
def test_few_parts_are_kept(steps: list[int], matrices: dict[int, str] | None) -> None:
    text = _unrolled(steps, matrices)
    assert canonical_form(text) == text
