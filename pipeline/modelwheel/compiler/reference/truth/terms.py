"""How many products are added for each element where a weight is multiplied: each addition rounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeAlias

from ...graphs.graphs import is_control, node_name
from ...stablehlo.mlir_text import Block, Function, Op, tensor_types

_Shape: TypeAlias = tuple[int, ...]


# --- graphs ---------------------------------------------------------------------------------------


def _of_product(first: str, second: str) -> Callable[[Any, int, _Shape], int]:
    """For a product of matrices whose attributes of such names say that an operand is transposed."""

    def terms(node: Any, place: int, shape: _Shape) -> int:
        name = (first, second)[place]
        turned = name in node.attr and node.attr[name].b
        return shape[-1 if turned == bool(place) else -2]

    return terms


_OPERATIONS: Mapping[str, Callable[[Any, int, _Shape], int]] = {
    "MatMul": _of_product("transpose_a", "transpose_b"),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2"), _of_product("adj_x", "adj_y")),
    **dict.fromkeys(("Conv2D", "Conv3D"), lambda _node, _place, shape: prod(shape[:-1])),
    "DepthwiseConv2dNative": lambda _node, _place, shape: prod(shape[:2]),
    "Conv2DBackpropInput": lambda _node, _place, shape: prod(shape) // shape[-2],
}
_PASSED = frozenset({"Identity", "ReadVariableOp"})


def terms_in_graph(graph_def: Any, shapes: Mapping[str, _Shape]) -> dict[str, int]:
    """For weights that nodes of the graph itself multiply, the products of each sum; the most of several uses.

    Args:
        graph_def: The graph.
        shapes: Of the weights, by the names of their nodes.
    """
    nodes = {node.name: node for node in graph_def.node}

    def source(tensor: str) -> str:
        name = node_name(tensor)
        while name in nodes and nodes[name].op in _PASSED:
            name = node_name(nodes[name].input[0])
        return name

    found: dict[str, int] = {}
    for node in graph_def.node:
        if (count := _OPERATIONS.get(node.op)) is None:
            continue
        inputs = [source(tensor) for tensor in node.input if not is_control(tensor)]
        # The first input of the last one in the table is a shape, its second one the weight.
        for place, name in enumerate(inputs[:2]):
            if len(shapes.get(name, ())) >= 2:
                found[name] = max(found.get(name, 1), count(node, place, shapes[name]))
    return found


# --- modules --------------------------------------------------------------------------------------

_MOVED = frozenset({"broadcast_in_dim", "convert", "reshape", "reverse", "slice", "transpose"})
_CONTRACTED = re.compile(r"contracting_dims = \[([\d, ]*)\]")
_KERNEL = re.compile(r"\]x\[([^\]]*)\]->")


def terms_in_module(functions: Mapping[str, Function]) -> dict[str, int]:
    """The numbers of products for the constants of `main` of a module, by their names."""
    walk = _Walk(functions)
    walk.visit(functions["main"].body, {}, is_main=True)
    return walk.found


class _Walk:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self.found: dict[str, int] = {}

    def visit(self, block: Block, given: Mapping[str, str], *, is_main: bool = False) -> None:
        """Follows constants through a block.

        Args:
            block: Operations in order.
            given: The constants that values from outside are, by the names of these values.
            is_main: Whether constants of the block count.
        """
        origins = dict(given)
        for op in block.ops:
            kind = op.name.partition(".")[2]
            names = [name for name, _ in op.operands]
            if kind == "constant" and is_main:
                origins[op.results[0][0]] = op.results[0][0]
            elif kind in _MOVED and names[0] in origins:
                origins[op.results[0][0]] = origins[names[0]]
            elif kind in ("dot", "dot_general", "convolution"):
                for name in names[:2]:
                    if name in origins:
                        self._add(origins[name], _terms(kind, op))
            elif kind == "call" and op.symbols and op.symbols[0] in self._functions:
                body = self._functions[op.symbols[0]].body
                self.visit(body, _bound(body, names, origins))
            for region in op.regions:
                # What else a region reads is named as outside.
                inner = _bound(region, names, origins) if kind == "while" else {}
                self.visit(region, origins | inner)

    def _add(self, constant: str, terms: int) -> None:
        self.found[constant] = max(self.found.get(constant, 1), terms)


def _bound(block: Block, names: list[str], origins: Mapping[str, str]) -> dict[str, str]:
    pairs = zip(block.arguments, names, strict=False)
    return {argument: origins[name] for argument, name in pairs if name in origins}


def _terms(kind: str, op: Op) -> int:
    """The products of each sum; 1 where an extent is not known."""
    left, right, _ = list(tensor_types(op.text))[-3:]
    if kind == "dot":
        extents = left.shape[-1:]
    elif kind == "dot_general":
        match = _CONTRACTED.search(op.text)
        axes = match[1].split(",") if match and match[1].strip() else []
        extents = tuple(left.shape[int(axis)] for axis in axes)
    else:
        match = _KERNEL.search(op.text)
        labels = [label.strip() for label in match[1].split(",")] if match else []
        pairs = zip(labels, right.shape, strict=False)
        extents = tuple(extent for label, extent in pairs if label != "o")
    return prod(extent or 1 for extent in extents)
