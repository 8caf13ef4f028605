"""Gives integers the arithmetic of TensorFlow's kernels, where XLA has another or simplifies wrongly.

XLA's simplifier takes squares, absolute values and powers of integers for not negative, and drops an `abs` or a
comparison behind them, although they wrap (tensorflow#118178). Such results go through `x | (x & -x)`, which is x: the
simplifier does not see that, and LLVM removes it. Other operations become functions of operations whose
arithmetic is the same in both. Shapes, and whatever no input changes, stay as they are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from ..graphs.graphs import bodies, is_control, is_function, node_name, nodes_of, rename_tensor
from ..graphs.node_functions import NodeFunctions
from .integer_functions import FUNCTIONS, Operation

_PRODUCTS: Mapping[str, str] = {
    **dict.fromkeys(("Mul", "MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum"), "T"),
    "BatchMatMulV3": "Tout",
}
"""The attribute that is the type of a product. Of rows of one element, a matrix product is a multiplication."""
_SQUARES = frozenset({"Abs", "Square", "SquaredDifference", "Prod"})
"""Prod of two elements is a multiplication too."""

_SIGNED = frozenset(t.as_datatype_enum for t in (tf.int8, tf.int16, tf.int32, tf.int64))
_OF_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
_LOOPS = frozenset({"Enter", "Merge", "NextIteration"})
_RANDOM = re.compile(r"Random|Multinomial")


def keep_integers(graph_def: Any) -> None:
    """Rewrites a graph and its functions, in place."""
    functions = NodeFunctions(graph_def, "integers")
    for body in bodies(graph_def):
        concerned = [node for node in nodes_of(body) if node.op in FUNCTIONS or _may_wrap(node)]
        if not concerned:
            continue
        varying = _varying(body)
        nodes = {node.name: node for node in nodes_of(body)}
        readers = _readers(body)
        for node in concerned:
            if node.name not in varying:
                continue
            written = None
            if node.op in FUNCTIONS:
                written = FUNCTIONS[node.op](Operation(node, nodes, readers[node.name]))
            if written is not None:
                functions.replace(body, node, written.build, written.distinct)
            elif not _may_wrap(node):
                continue
            elif node.op in _SQUARES or all(node_name(name) in varying for name in _data(node)):
                _hide(body, node)


def _may_wrap(node: Any) -> bool:
    """Whether XLA may take the result for a square, or does for an absolute value, of signed integers."""
    if node.op in _SQUARES:
        return node.attr["T"].type in _SIGNED
    return node.op in _PRODUCTS and node.attr[_PRODUCTS[node.op]].type in _SIGNED


def _varying(body: Any) -> set[str]:
    """The nodes, and arguments of a function, whose values inputs or variables change."""
    readers: dict[str, list[str]] = defaultdict(list)
    waiting = [argument.name for argument in body.signature.input_arg] if is_function(body) else []
    for node in nodes_of(body):
        data = _data(node)
        for tensor in data:
            readers[node_name(tensor)].append(node.name)
        source = not data and node.op != "Const"
        if source or node.op in _LOOPS or _RANDOM.search(node.op):
            waiting.append(node.name)
    fixed = {node.name for node in nodes_of(body) if node.op in _OF_SHAPES}
    names: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in names and name not in fixed:
            names.add(name)
            waiting += readers[name]
    return names


def _readers(body: Any) -> Mapping[str, set[tuple[str, int]]]:
    """Which operations read each node, and as which of their inputs; the results of a function as `Return`."""
    readers: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for node in nodes_of(body):
        for position, tensor in enumerate(_data(node)):
            readers[node_name(tensor)].add((node.op, position))
    if is_function(body):
        for position, tensor in enumerate(body.ret.values()):
            readers[node_name(tensor)].add(("Return", position))
    return readers


def _data(node: Any) -> list[str]:
    return [tensor for tensor in node.input if not is_control(tensor)]


def _hide(body: Any, node: Any) -> None:
    """Puts `x | (x & -x)` in the place of a node's result x."""
    names = _free_names({other.name for other in nodes_of(body)}, node.name)
    inside = is_function(body)
    kind = node.attr[_PRODUCTS.get(node.op, "T")].type
    old, node.name = node.name, next(names)
    result = op_def_registry.get(node.op).output_arg[0].name
    if inside:
        rename_tensor(body, f"{old}:{result}:0", f"{old}:z:0")

    def add(name: str, op: str, *inputs: str) -> str:
        new = tf.compat.v1.NodeDef(name=name, op=op, input=inputs)
        new.attr["T"].type = kind
        nodes_of(body).append(new)
        return f"{name}:{'y' if op == 'Neg' else 'z'}:0" if inside else name

    product = f"{node.name}:{result}:0" if inside else node.name
    lowest = add(next(names), "BitwiseAnd", product, add(next(names), "Neg", product))
    add(old, "BitwiseOr", product, lowest)


def _free_names(taken: set[str], name: str) -> Iterator[str]:
    """Names that nodes of the body do not have."""
    number = 0
    while True:
        if f"{name}/wrapped_{number}" not in taken:
            yield f"{name}/wrapped_{number}"
        number += 1
