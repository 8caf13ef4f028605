"""Products of 8-bit integers with constants stay products of 8-bit integers.

    %y = dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x48xi8>, tensor<48x96xi8>) -> tensor<4x96xi32>
->
    %x8 = reduce_window(%x, -128) maximum, window_dimensions = [1, 2], window_strides = [1, 2], base_dilations = [1, 2]
    %w8 = optimization_barrier %w
    %y = dot_general %x8, %w8, contracting_dims = [1] x [0]

XLA converts both factors to 32 bits before it fuses anything: constants grow fourfold, and factors are computed inside of kernels
of products. What is put before them here are identities: each window of the first has one element and a hole. XLA fuses neither
with what is before it, so that both factors are in memory as bytes, where the runtime's own product reads them;
the pass `narrow-products` leaves the identities out.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op, TensorType
from .dot_general import read_contraction
from .draft import Draft, Replacement

_WINDOW, _BARRIER = "stablehlo.reduce_window", "stablehlo.optimization_barrier"
_CONVOLUTION, _PAD = "stablehlo.convolution", "stablehlo.pad"
_LOWEST = -128


def keep_bytes(graph: BlockGraph, op: Op, constants: Collection[str] = ()) -> Replacement | None:
    """A product or convolution whose factors are in memory as bytes."""
    names = _factors(graph, op)
    if names is None:
        return None
    elements = [graph.types[name].element for name in (*names, op.results[0][0])]
    if elements != ["i8", "i8", "i32"]:
        return None
    makers = [graph.ops.get(name) for name in names]
    if makers[1] is not None and makers[1].name == _BARRIER:
        return None
    known = [_is_known(graph, name, constants) for name in names]
    if known != [False, True] or not all(graph.types[names[0]].shape):
        return None
    draft = Draft(graph, op)
    first, maker = names[0], makers[0]
    if maker is not None and maker.name == _PAD:
        # What surrounds images is added to them in memory, where the runtime's convolution adds it by itself.
        source, _ = graph.operands(maker)
        text = _with(maker, source, _window(draft, graph, source))
        first = draft.add(text, graph.types[first])
    kept = _window(draft, graph, first)
    text = _with(op, names[0], kept)
    text = _renamed(text, names[1], _barrier(draft, names[1]))
    return draft.finish(text)


def _factors(graph: BlockGraph, op: Op) -> tuple[str, str] | None:
    """The factors of a product of one matrix, or of a convolution; None of anything else."""
    if op.name == _CONVOLUTION:
        first, second = graph.operands(op)
        return first, second
    product = read_contraction(graph, op)
    return None if product is None or product.batch[0] else product.operands


def _with(op: Op, name: str, other: str) -> str:
    """An operation that reads another value in the place of one."""
    return _renamed(f"{op.name}{_gap(op)}{op.text.strip()}", name, other)


def _gap(op: Op) -> str:
    """The blank between the name of an operation and its text, if there is one."""
    return "" if op.text.startswith("(") else " "


def _renamed(text: str, name: str, other: str) -> str:
    """A text that has another value in the place of one, where that is first."""
    return re.sub(rf"%{re.escape(name)}(?![\w$.-])", f"%{other}", text, count=1)


def _is_known(graph: BlockGraph, name: str, constants: Collection[str]) -> bool:
    """Whether a value follows from constants alone."""
    if name in constants:
        return True
    op = graph.ops.get(name)
    if op is None or op.regions:
        return False
    return all(_is_known(graph, operand, constants) for operand in graph.operands(op))


def _barrier(draft: Draft, name: str) -> str:
    kind = draft.type(name)
    return draft.add(f"{_BARRIER} %{name} : {o.written(kind)}", kind)


def _window(draft: Draft, graph: BlockGraph, name: str) -> str:
    maker = graph.ops.get(name)
    if maker is not None and maker.name == _WINDOW:
        return name
    kind = draft.type(name)
    scalar = TensorType((), kind.element)
    lowest = draft.add(f"stablehlo.constant dense<{_LOWEST}> : {o.written(scalar)}", scalar)
    ones = [1] * (len(kind.shape) - 1)
    twos = ", ".join(map(str, [*ones, 2]))
    pads = ", ".join(["[0, 0]"] * len(ones) + ["[0, 1]"])
    item = o.written(scalar)
    attributes = (
        f"base_dilations = array<i64: {twos}>, "
        f"padding = dense<[{pads}]> : tensor<{len(kind.shape)}x2xi64>, "
        f"window_dimensions = array<i64: {twos}>, window_strides = array<i64: {twos}>"
    )
    region = (
        f"^bb0(%a: {item}, %b: {item}): "
        f'%m = "stablehlo.maximum"(%a, %b) : ({item}, {item}) -> {item} '
        f'"stablehlo.return"(%m) : ({item}) -> ()'
    )
    types = f"({o.written(kind)}, {item}) -> {o.written(kind)}"
    return draft.add(
        f'"{_WINDOW}"(%{name}, %{lowest}) <{{{attributes}}}> ({{ {region} }}) : {types}', kind
    )
