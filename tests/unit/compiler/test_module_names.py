"""Names of operations in the text of a module, from its locations."""

from __future__ import annotations

from modelwheel.compiler.stablehlo.module_names import with_names, without_names

PLAIN = """\
module @m {
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %cst = stablehlo.constant dense<1.0> : tensor<2xf32>
    %0 = stablehlo.add %arg0, %cst : tensor<2xf32>
    %1 = call @inner(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = stablehlo.multiply %n, %n : tensor<2xi32>
    %3 = stablehlo.negate %1 : tensor<2xf32>
    %4 = stablehlo.negate %3 : tensor<2xf32>
    return %4 : tensor<2xf32>
  }
}
"""
LOCATED = """\
#loc = loc(unknown)
module @m {
  func.func public @main(%arg0: tensor<2xf32> loc("x")) -> tensor<2xf32> {
    %cst = stablehlo.constant dense<1.0> : tensor<2xf32> loc(#loc2)
    %0 = stablehlo.add %arg0, %cst : tensor<2xf32> loc(#loc2)
    %1 = call @inner(%0) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)
    %2 = stablehlo.multiply %n, %n : tensor<2xi32> loc(#loc2)
    %3 = stablehlo.negate %1 : tensor<2xf32> loc(#loc4)
    %4 = stablehlo.negate %3 : tensor<2xf32> loc(#loc1)
    return %4 : tensor<2xf32> loc(#loc2)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("/home/me/net.py":3:4 to :9)
#loc2 = loc("jit(f)/a \\22b\\22"(#loc1))
#loc3 = loc("layer:head/mm":1:0)
#loc4 = loc(callsite(#loc3 at #loc2))
"""


def names(plain: str, located: str) -> list[str]:
    """What is added to the lines of a text."""
    named = with_names(plain, located)
    assert without_names(named) == plain
    pairs = zip(plain.split("\n"), named.split("\n"), strict=True)
    return [other[len(line) :] for line, other in pairs if line != other]


def test_only_operations_of_floats_get_names() -> None:
    assert names(PLAIN, LOCATED) == [
        ' loc("jit(f)/a \\22b\\22")',
        ' loc("jit(f)/a \\22b\\22")',
        ' loc("jit(f)/a \\22b\\22/head/mm")',
        ' loc("negate_1")',
    ]


def test_locations_that_lead_nowhere_or_on_and_on() -> None:
    ring = LOCATED.replace('#loc3 = loc("layer:head/mm":1:0)', "#loc3 = loc(fused[#loc4, #loc2])")
    assert without_names(with_names(PLAIN, ring)) == PLAIN
    chain = "".join(f"#loc{n} = loc(callsite(#loc{n + 1} at #loc{n + 1}))\n" for n in range(4, 999))
    long = with_names(PLAIN, LOCATED.partition("#loc4")[0] + chain)
    assert len(long) < 2 * len(PLAIN)
    assert with_names(PLAIN, "nothing\nof it") == PLAIN


def located(lines: list[tuple[str, str]]) -> tuple[str, str]:
    """A text without and with locations, from lines and the names of their locations."""
    plain = "\n".join(line for line, _ in lines)
    ends = [f" loc(#loc{number})" for number in range(len(lines))]
    body = [line + end for (line, _), end in zip(lines, ends, strict=True)]
    known = [f"#loc{n} = loc({name or 'unknown'})" for n, (_, name) in enumerate(lines)]
    return plain, "\n".join([*body, *known])


FUNCTIONS = [
    ("func.func public @main(%0: tensor<f32>) -> tensor<f32> {", ""),
    ("%1 = call @block(%0) : (tensor<f32>) -> tensor<f32>", '"encoder/block_0"'),
    ("%2 = call @relu(%1) : (tensor<f32>) -> tensor<f32>", '"encoder/first"'),
    ("%3 = func.call @relu(%2) : (tensor<f32>) -> tensor<f32>", '"encoder/second"'),
    ("%4 = stablehlo.tanh %3 : tensor<f32>", ""),
    ("%5 = stablehlo.tanh %4 : tensor<f32>", '"-":7:1'),
    ("func.func private @block(%0: tensor<f32>) -> tensor<f32> {", ""),
    ("%1 = stablehlo.exponential %0 : tensor<f32>", '"exp"'),
    ("%2 = call @unnamed(%1) : (tensor<f32>) -> tensor<f32>", ""),
    ("func.func private @relu(%0: tensor<f32>) -> tensor<f32> {", ""),
    ("%1 = stablehlo.maximum %0, %c : tensor<f32>", '"max"'),
    ("func.func private @unnamed(%0: tensor<f32>) -> tensor<f32> {", ""),
    ("%1 = stablehlo.cosine %0 : tensor<f32>", '"cos"'),
    ("%2 = call @unnamed(%1) : (tensor<f32>) -> tensor<f32>", ""),
]


def test_functions_are_in_the_layers_of_their_calls() -> None:
    assert names(*located(FUNCTIONS)) == [
        ' loc("encoder/block_0")',
        ' loc("encoder/first")',
        ' loc("encoder/second")',
        ' loc("tanh_1")',
        ' loc("tanh_2")',
        ' loc("encoder/block_0/exp")',
        ' loc("encoder/relu/max")',
        ' loc("unnamed/cos")',
    ]


def test_fused_locations_have_all_names() -> None:
    plain, text = located([("%1 = stablehlo.add %0, %0 : tensor<f32>", "fused[#locA, #locB]")])
    text += '\n#locA = loc("a/dot")\n#locB = loc("a/add")'
    assert names(plain, text) == [' loc("a/dot;a/add")']
