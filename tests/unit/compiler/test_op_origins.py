"""The operations of the model that instructions come from."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.hlo_text import read_text
from modelwheel.compiler.ir.op_origins import origin_of

_MODULE = read_text(
    """\
HloModule net

inside {
  p = f32[8,16] parameter(0)
  two = f32[] constant(2)
  twos = f32[8,16] broadcast(two), dimensions={}, metadata={op_name="net/scale"}
  a = f32[8,16] add(p, twos), metadata={op_name="jit(f)/net/dense/add"}
  ROOT t = f32[8,16] tanh(a), metadata={op_name="net/dense/tanh;net/gate/tanh"}
}

plain {
  p = f32[8,16] parameter(0)
  ROOT n = f32[8,16] negate(p)
}

ENTRY main {
  x = f32[8,16] parameter(0), metadata={op_name="XLA_Args"}
  first = f32[8,16] copy(x)
  fused = f32[8,16] fusion(first), kind=kLoop, calls=inside, metadata={op_name="net/dense/add"}
  moved = f32[8,16] copy(fused)
  unnamed = f32[8,16] fusion(moved), kind=kLoop, calls=plain, metadata={op_name="XlaCallModule"}
  fallback = f32[8,16] fusion(unnamed), kind=kLoop, calls=plain, metadata={op_name="net/out"}
  alone = f32[8,16] copy(x)
  ROOT both = (f32[8,16], f32[8,16]) tuple(fallback, alone)
}
"""
)


@pytest.mark.parametrize(
    ("names", "origin"),
    [
        # By arithmetic; what only names or repeats is left out where there is some.
        (["fused"], "net/dense/tanh;net/gate/tanh;net/dense/add"),
        (["twos"], "net/scale"),
        (["fallback"], "net/out"),
        (["fused", "fallback"], "net/dense/tanh;net/gate/tanh;net/dense/add;net/out"),
        # Without a name of its own: that of the operand, else that of the user.
        (["moved"], "net/dense/tanh"),
        (["unnamed"], "net/dense/tanh"),
        (["first"], "net/dense/tanh"),
        (["alone"], ""),
        (["n"], ""),
    ],
)
def test_origins(names: list[str], origin: str) -> None:
    instructions = [found for name in names if (found := _MODULE.instruction(name))]
    assert len(instructions) == len(names)
    assert origin_of(_MODULE, instructions) == origin
