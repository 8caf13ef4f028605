"""What the first rows of a kernel's results are computed from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from modelwheel.compiler.ir.hlo import Instruction
from modelwheel.compiler.ir.hlo_text import read_text
from modelwheel.compiler.passes.find_rows import FindRows
from modelwheel.compiler.passes.match.kernel_rows import rows_apart
from modelwheel.program import ops
from tests.support.modules import Emission

SUM = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
"""
SOFTMAX = f"""{SUM}
f {{
  x = f32[16,10] parameter(0)
  largest = f32[16] parameter(1)
  bias = f32[10] parameter(2)
  biases = f32[16,10] broadcast(bias), dimensions={{1}}
  biased = f32[16,10] add(x, biases)
  wide = f32[16,10] broadcast(largest), dimensions={{0}}
  less = f32[16,10] subtract(biased, wide)
  shares = f32[16,10] exponential(less)
  zero = f32[] constant(0)
  ROOT sums = f32[16] reduce(shares, zero), dimensions={{1}}, to_apply=add
}}

ENTRY main {{
  x = f32[16,10] parameter(0)
  largest = f32[16] parameter(1)
  bias = f32[10] parameter(2)
  ROOT f = f32[16] fusion(x, largest, bias), kind=kInput, calls=f
}}
"""

GATHER = (
    "f32[16,5] gather(a, b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,5}"
)


def _one(line: str, *shapes: str) -> list[tuple[object, ...]]:
    """The facts about a module's only instruction, whose operands are `a`, `b`, ... of these shapes.

    By groups: those of the result and of the arguments, where these are not 1.
    """
    lines = [
        f"  {name} = {shape} parameter({n})"
        for n, (name, shape) in enumerate(zip("abc", shapes, strict=False))
    ]
    module = read_text("\n".join([SUM, "ENTRY main {", *lines, f"  ROOT r = {line}", "}"]))
    return _known(module.entry.root)


def _known(instruction: Instruction) -> list[tuple[object, ...]]:
    return [(one.count, one.arguments, *_groups(one)) for one in rows_apart(instruction)]


def _groups(one: ops.RowsApart) -> Iterator[object]:
    if one.groups > 1 or one.argument_groups:
        yield one.groups
        yield one.argument_groups


def test_a_fusion_is_followed_from_its_result() -> None:
    module = read_text(SOFTMAX)
    assert _known(module.entry.root)[0] == (16, (0, 1))


@pytest.mark.parametrize(
    ("line", "shapes", "expected"),
    [
        (
            "f32[16,3] add(a, b)",
            ["f32[16,3]", "f32[16,3]"],
            [(16, (0, 1)), (3, (0, 1), 16, (16, 16))],
        ),
        (
            "f32[16,3]{0,1} add(a, b)",
            ["f32[16,3]{0,1}", "f32[16,3]"],
            [(3, (0, 1), 1, (1, 16)), (16, (0, 1), 3, (3, 1))],
        ),
        (
            "f32[16,100]{1,0} copy(a)",
            ["f32[16,100]{0,1}"],
            [(16, (0,), 1, (100,)), (100, (0,), 16, ())],
        ),
        ("f32[48] reshape(a)", ["f32[16,3]"], [(48, (0,)), (3, (0,), 16, (16,))]),
        (
            "f32[16,3,5] transpose(a), dimensions={0,2,1}",
            ["f32[16,5,3]"],
            [(16, (0,)), (3, (0,), 16, (80,)), (5, (0,), 48, (16,))],
        ),
        (
            "f32[16,3,5] transpose(a), dimensions={1,0,2}",
            ["f32[3,16,5]"],
            [(16, (0,), 1, (3,)), (3, (0,), 16, ()), (5, (0,), 48, (48,))],
        ),
        ("f32[16,3] broadcast(a), dimensions={0}", ["f32[16]"], [(16, (0,))]),
        ("f32[16,3] broadcast(a), dimensions={1}", ["f32[3]"], [(3, (0,), 16, ())]),
        (
            "f32[1,16,3] broadcast(a), dimensions={1,2}",
            ["f32[16,3]"],
            [(16, (0,)), (3, (0,), 16, (16,))],
        ),
        (
            "f32[16] reduce(a, b), dimensions={1}, to_apply=add",
            ["f32[16,3]", "f32[]"],
            [(16, (0,))],
        ),
        (
            "f32[3] reduce(a, b), dimensions={0}, to_apply=add",
            ["f32[16,3]", "f32[]"],
            [(3, (0,), 1, (16,))],
        ),
        ("f32[16,5] concatenate(a, b), dimensions={1}", ["f32[16,2]", "f32[16,3]"], [(16, (0, 1))]),
        (
            "f32[16,5] concatenate(a, b), dimensions={0}",
            ["f32[8,5]", "f32[8,5]"],
            [(5, (0, 1), 16, (8, 8))],
        ),
        ("f32[16,5] pad(a, b), padding=0_0x1_1", ["f32[16,3]", "f32[]"], [(16, (0,))]),
        (
            "f32[16,3] pad(a, b), padding=1_-1x0_0",
            ["f32[16,3]", "f32[]"],
            [(3, (0,), 16, (16,))],
        ),
        ("f32[16,2] slice(a), slice={[0:16], [1:3]}", ["f32[16,3]"], [(16, (0,))]),
        ("f32[8,3] slice(a), slice={[8:16], [0:3]}", ["f32[16,3]"], [(3, (0,), 8, (16,))]),
        (
            "f32[1,16,3] slice(a), slice={[1:2], [0:16], [0:3]}",
            ["f32[2,16,3]"],
            [(16, (0,), 1, (2,)), (3, (0,), 16, (32,))],
        ),
        ("f32[16,3] reverse(a), dimensions={1}", ["f32[16,3]"], [(16, (0,))]),
        ("f32[16,3] reverse(a), dimensions={0}", ["f32[16,3]"], [(3, (0,), 16, (16,))]),
        (
            GATHER,
            ["f32[7,5]", "s32[16,1]"],
            [(16, (1,))],
        ),
        ("f32[16] sort(a), dimensions={0}, to_apply=add", ["f32[16]"], []),
    ],
)
def test_each_operation_has_a_rule(
    line: str, shapes: list[str], expected: list[tuple[object, ...]]
) -> None:
    assert _one(line, *shapes) == expected


def test_steps_say_what_is_known() -> None:
    graph = Emission(SOFTMAX).graph(["f"], f="output")
    assert FindRows().run(graph) == 1
    (node,) = graph.walk()
    assert isinstance(node.op, ops.Kernel)
    assert node.op.apart == (ops.RowsApart(count=16, arguments=(0, 1)),)
