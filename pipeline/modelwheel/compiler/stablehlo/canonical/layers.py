"""Products and convolutions with constant weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op, TensorType
from .dot_general import Contraction, has_known_shapes, read_contraction

_COMPUTED = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "broadcast_in_dim", "concatenate", "convert", "divide", "multiply", "negate"),
        *("reduce", "reshape", "reverse", "rsqrt", "slice", "sqrt", "subtract", "transpose"),
    )
)  # fmt: skip
"""What constants are computed with: XLA computes it while it compiles."""
_CONVOLUTION = re.compile(r"dim_numbers = \[[^]]*\]x\[(?P<kernel>[^]]*)\]->\[(?P<result>[^]]*)\]")
_PADDING = re.compile(r"pad = \[(\[-?\d+, -?\d+\](?:, \[-?\d+, -?\d+\])*)\]")
_SPREAD = re.compile(r"lhs_dilate = \[([\d, ]*)\]")
_BATCH_GROUPS = re.compile(r"batch_group_count = (\d+)")


def is_constant(graph: BlockGraph, name: str, constants: Collection[str]) -> bool:
    """Whether a value follows from constants of this block.

    Args:
        graph: The block.
        name: The value.
        constants: Arguments that are constants.
    """
    waiting, seen = [name], {name}
    for current in waiting:  # grows while it is walked
        op = graph.own.get(current)
        if current in constants or (op is not None and op.name == "stablehlo.constant"):
            continue
        if op is None or op.name not in _COMPUTED:
            return False
        new = [operand for operand in graph.operands(op) if operand not in seen]
        seen.update(new)
        waiting += new
    return True


@dataclass(frozen=True)
class Layer:
    """A product of what a model computes with its weights."""

    data: str
    weights: str
    features: Mapping[int, int]
    """Axes of the weights by those of the result along which they are the same."""
    summed: tuple[int, ...]
    """Axes of the weights along which products are added up."""
    takes_sums: bool
    """Whether each result is a sum over all weights of its feature: no window reaches beyond the data."""
    text: str
    """With `{data}` and `{weights}` for the operands, and `{types}` for their types."""
    result: TensorType

    def write(self, data: str, weights: str, kinds: tuple[TensorType, TensorType]) -> str:
        """The operation with other operands of these types, the one before the other as in the text."""
        first = "{data}" in self.text.partition("{weights}")[0]
        left, right = kinds if first else kinds[::-1]
        types = f"({o.written(left)}, {o.written(right)}) -> {o.written(self.result)}"
        pairs = {"{data}": f"%{data}", "{weights}": f"%{weights}", "{types}": types}
        text = self.text
        for mark, value in pairs.items():
            text = text.replace(mark, value)
        return text


def read_layer(graph: BlockGraph, op: Op, constants: Collection[str]) -> Layer | None:
    """A product of 32-bit or 64-bit floats with constants; None for another operation."""
    if op.name not in ("stablehlo.convolution", "stablehlo.dot_general"):
        return None
    if not has_known_shapes(graph, op):
        return None
    if graph.types[op.results[0][0]].element not in ("f32", "f64"):
        return None
    kinds = {graph.types[name].element for name in graph.operands(op)}
    if kinds != {graph.types[op.results[0][0]].element}:
        return None
    if op.name == "stablehlo.convolution":
        return _convolution(graph, op, constants)
    product = read_contraction(graph, op)
    if product is None:
        return None
    constant = [is_constant(graph, name, constants) for name in product.operands]
    return None if constant[0] == constant[1] else _product(graph, op, product, int(constant[1]))


def _product(graph: BlockGraph, op: Op, product: Contraction, side: int) -> Layer:
    features = dict(enumerate(product.batch[side]))
    features |= dict(zip(product.result_axes(side), product.free(side), strict=True))
    result = graph.types[op.results[0][0]]
    marks = ("{data}", "{weights}") if side else ("{weights}", "{data}")
    # The names of operands are written behind a percent sign.
    text = replace(product, operands=marks).write([result, result], result)
    text = text.replace("%{", "{").rpartition(" : ")[0] + " : {types}"
    return Layer(
        product.operands[1 - side],
        product.operands[side],
        features,
        product.contracting[side],
        takes_sums=True,
        text=text,
        result=result,
    )


def _convolution(graph: BlockGraph, op: Op, constants: Collection[str]) -> Layer | None:
    match, operands = _CONVOLUTION.search(op.text), graph.operands(op)
    if match is None or len(operands) != 2 or not is_constant(graph, operands[1], constants):
        return None
    if is_constant(graph, operands[0], constants):
        return None
    axes = {name: match[name].split(", ") for name in ("kernel", "result")}
    groups = _BATCH_GROUPS.search(op.text)
    if groups is not None and groups[1] != "1":
        return None
    kernel, padding = axes["kernel"], _PADDING.search(op.text)
    padded = padding is not None and any(o.numbers(re.sub(r"[][]", "", padding[1])))
    spread = _SPREAD.search(op.text)
    padded = padded or (spread is not None and any(n != 1 for n in o.numbers(spread[1])))
    front, _, attributes = op.text.partition(")")
    assert front.startswith("(")
    return Layer(
        operands[0],
        operands[1],
        {axes["result"].index("f"): kernel.index("o")},
        tuple(axis for axis, name in enumerate(kernel) if name != "o"),
        takes_sums=not padded,
        text=f"{op.name}({{data}}, {{weights}}){attributes.rpartition(' : ')[0]} : {{types}}",
        result=graph.types[op.results[0][0]],
    )
