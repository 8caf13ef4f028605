"""Bounds the outputs of a graph, from the operations that they end with: a sigmoid is at most 1.

Rounding in such an output is that of its scale, however small the values of some rows are. The 16-bit types that the
values of an output pass through are found on the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from ...freeze.frozen import FrozenGraph
from ...graphs.graphs import Graph, is_control, node_name
from ...stablehlo.judge_module import MODULE_OP
from ...stablehlo.mlir_text import Block, Function, Op, result_types, tensor_types
from ...stablehlo.xla_module import embedded_module

_DEPTH = 64
"""Of operations that are followed from an output."""


@dataclass(frozen=True)
class Value:
    """A value of a graph or a module."""

    op: str
    """What makes it, by one name in both; empty if that is not known."""
    largest: float | None
    """Of a constant: its largest absolute value."""
    operands: Callable[[], list[Value]]
    key: object
    """Equal for equal values."""
    summed: int | None = None
    """Of a sum: how many values are added for each element, where that is known."""


_NOTHING = Value("", None, list, None)


# --- bounds ---------------------------------------------------------------------------------------

_PASSED = frozenset(
    {
        *("reshape", "transpose", "slice", "broadcast", "convert", "reverse", "negate", "abs"),
        *("gather", "maximum_of", "minimum_of", "mean_of", "barrier", "pad"),
    }
)
"""The first operand, or values between those of it."""
_FOLLOWED = _PASSED | {"choice", "clamp", "select", "concatenate", "multiply", "add"}
_UNIT = frozenset({"sigmoid", "softmax", "tanh", "erf", "sine", "cosine", "softsign"})


def bound_of(value: Value) -> float | None:
    """The largest absolute value that can be, whatever the inputs are; None if that is not known."""
    return _Bounds().of(value, _DEPTH)


class _Bounds:
    """Bounds of values, each of which is found once, however many others are computed with it."""

    def __init__(self) -> None:
        self._known: dict[object, float | None] = {}

    def of(self, value: Value, depth: int) -> float | None:
        if depth == 0:
            return None
        if value.key not in self._known or value.key is None:
            self._known[value.key] = self._find(value, depth)
        return self._known[value.key]

    def _find(self, value: Value, depth: int) -> float | None:
        if value.largest is not None:
            return value.largest
        if value.op in _UNIT or _is_sigmoid(value) or _is_share(value) or _is_normalised(value):
            return 1.0
        if value.op == "relu6":
            return 6.0
        operands = value.operands() if value.op in _FOLLOWED else []
        if value.op in _PASSED and operands:
            return self.of(operands[0], depth - 1)
        if value.op == "divide":
            return self._of_mean(value, depth)
        if value.op == "clamp" and len(operands) == 3:
            return _largest([self.of(operand, depth - 1) for operand in (operands[0], operands[2])])
        if value.op == "select" and len(operands) == 3:
            operands = operands[1:]
        bounds = [self.of(operand, depth - 1) for operand in operands]
        if value.op in ("choice", "concatenate", "select"):
            return _largest(bounds)
        if value.op in ("multiply", "add") and None not in bounds and bounds:
            known = [bound for bound in bounds if bound is not None]
            return math.prod(known) if value.op == "multiply" else sum(known)
        return None

    def _of_mean(self, value: Value, depth: int) -> float | None:
        """The bound of a sum that is divided by how many there are."""
        whole, number = _pair(value, "divide")
        if whole.op != "sum_of" or whole.summed is None or number.largest != whole.summed:
            return None
        return self.of(whole.operands()[0], depth - 1)


def _largest(bounds: list[float | None]) -> float | None:
    known = [bound for bound in bounds if bound is not None]
    return max(known) if known and len(known) == len(bounds) else None


def _plain(value: Value) -> Value:
    """A value before it was copied to more places."""
    while value.op in ("reshape", "broadcast", "convert", "barrier"):
        value = next(iter(value.operands()), _NOTHING)
    return value


def _pair(value: Value, op: str) -> tuple[Value, Value]:
    operands = value.operands() if value.op == op else []
    return (_plain(operands[0]), _plain(operands[1])) if len(operands) == 2 else (_NOTHING,) * 2


def _is_sigmoid(value: Value) -> bool:
    """`1 / (1 + exp(x))`."""
    numerator, below = _pair(value, "divide")
    return numerator.largest == 1.0 and any(
        side.op == "exponential" for side in _pair(below, "add")
    )


def _is_share(value: Value) -> bool:
    """`exp(x) / sum(exp(x))`."""
    part, whole = _pair(value, "divide")
    summed = [_plain(operand) for operand in whole.operands()[:1]] if whole.op == "sum_of" else []
    return part.op == "exponential" and any(operand.key == part.key for operand in summed)


def _is_normalised(value: Value) -> bool:
    """`x / sqrt(sum(x * x))`, or `x * rsqrt(sum(x * x))`; the sum may be limited or have something added."""
    if value.op == "divide":
        x, below = _pair(value, "divide")
        return below.op == "sqrt" and _is_square_sum(below, x)
    sides = _pair(value, "multiply")
    return any(
        below.op == "rsqrt" and _is_square_sum(below, x) for x, below in (sides, sides[::-1])
    )


def _is_square_sum(root: Value, x: Value) -> bool:
    waiting, steps = [_plain(operand) for operand in root.operands()], 0
    while waiting and steps < _DEPTH:
        value, steps = waiting.pop(), steps + 1
        if value.op in ("add", "maximum"):
            waiting += map(_plain, value.operands())
        elif value.op == "sum_of":
            (squared, *_) = (*map(_plain, value.operands()), _NOTHING)
            factors = list(map(_plain, squared.operands()))
            if squared.op in ("multiply", "square") and x.key is not None:
                return all(factor.key == x.key for factor in factors)
    return False


# --- graphs ---------------------------------------------------------------------------------------

_NODES = {
    **dict.fromkeys(("Identity", "StopGradient", "Snapshot", "CheckNumerics"), "barrier"),
    **dict.fromkeys(("Reshape", "Squeeze", "ExpandDims"), "reshape"),
    **dict.fromkeys(("Tile", "BroadcastTo"), "broadcast"),
    **dict.fromkeys(("StridedSlice", "Slice"), "slice"),
    **dict.fromkeys(("Max", "MaxPool", "MaxPool3D"), "maximum_of"),
    **dict.fromkeys(("Mean", "AvgPool", "AvgPool3D"), "mean_of"),
    **dict.fromkeys(("AddV2", "Add", "Sub", "AddN", "BiasAdd"), "add"),
    **dict.fromkeys(("Mul",), "multiply"),
    **dict.fromkeys(("RealDiv", "Div"), "divide"),
    **dict.fromkeys(("Select", "SelectV2"), "select"),
    **dict.fromkeys(("GatherV2", "Gather", "GatherNd"), "gather"),
    **dict.fromkeys(("ConcatV2", "Pack"), "concatenate"),
    "Transpose": "transpose",
    "ReverseV2": "reverse",
    "Neg": "negate",
    "Abs": "abs",
    "Min": "minimum_of",
    "Sum": "sum_of",
    "Exp": "exponential",
    "Sqrt": "sqrt",
    "Rsqrt": "rsqrt",
    "Maximum": "maximum",
    "Square": "square",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "Tanh": "tanh",
    "Erf": "erf",
    "Sin": "sine",
    "Cos": "cosine",
    "Softsign": "softsign",
    "Relu6": "relu6",
    "Cast": "convert",
    "PadV2": "pad",
    "Pad": "pad",
}
_ALL = frozenset({"add", "multiply", "divide", "select", "maximum"})
"""What has no operands that are shapes or axes."""


class _Nodes:
    """Values of the nodes of a graph; those of functions are not known."""

    def __init__(self, graph_def: Any) -> None:
        self._nodes = {node.name: node for node in graph_def.node}
        self._modules: dict[str, _Module] = {}

    def value(self, tensor: str) -> Value:
        name, _, index = tensor.partition(":")
        node = self._nodes.get(name)
        if node is None:
            return _NOTHING
        if node.op == "Const":
            return Value("constant", _largest_of(node), list, tensor)
        if node.op == MODULE_OP:
            return self._module(node).result(int(index or 0))
        op = _NODES.get(node.op, "")

        def operands() -> list[Value]:
            inputs = [tensor for tensor in node.input if not is_control(tensor)]
            if node.op == "ConcatV2":
                inputs = inputs[:-1]
            elif op not in _ALL and op != "concatenate":
                inputs = inputs[:1]
            return [self.value(tensor) for tensor in inputs]

        return Value(op, None, operands, tensor.removesuffix(":0"))

    def _module(self, node: Any) -> _Module:
        if node.name not in self._modules:
            module = embedded_module(node.attr["module"].s)
            inputs = [
                partial(self.value, tensor) for tensor in node.input if not is_control(tensor)
            ]
            self._modules[node.name] = _Module(module.functions, inputs)
        return self._modules[node.name]

    def module_types(self, node: Any, index: int | None) -> set[str]:
        return self._module(node).types(index)


def _largest_of(node: Any) -> float | None:
    values = tf.make_ndarray(node.attr["value"].tensor)
    if values.dtype.kind not in "fiu" or not values.size or not np.isfinite(values).all():
        return None
    return float(np.abs(values.astype(np.float64)).max())


# --- modules --------------------------------------------------------------------------------------

_OPS = {
    **dict.fromkeys(("reshape", "dynamic_reshape"), "reshape"),
    **dict.fromkeys(("broadcast_in_dim", "dynamic_broadcast_in_dim", "broadcast"), "broadcast"),
    **dict.fromkeys(("slice", "dynamic_slice", "real_dynamic_slice"), "slice"),
    **dict.fromkeys(("add", "subtract"), "add"),
    **dict.fromkeys(("gather", "torch_index_select"), "gather"),
    **{op: op for op in ("transpose", "convert", "reverse", "negate", "abs", "multiply", "divide")},
    **{op: op for op in ("select", "clamp", "concatenate", "exponential", "sqrt", "rsqrt", "tanh")},
    **{op: op for op in ("maximum", "sine", "cosine", "erf")},
    "logistic": "sigmoid",
    "optimization_barrier": "barrier",
}
_REDUCED = {"add": "sum_of", "maximum": "maximum_of", "minimum": "minimum_of"}
_Bound: TypeAlias = Mapping[str, Callable[[], Value]]


class _Module:
    """Values of `main` of a module, and of the functions that it calls."""

    def __init__(
        self, functions: Mapping[str, Function], inputs: Sequence[Callable[[], Value]]
    ) -> None:
        self._functions = functions
        self._main = functions["main"].body
        self._made = {name: _makers(function.body) for name, function in functions.items()}
        self._given = dict(zip(self._main.arguments, inputs, strict=False))

    def result(self, index: int) -> Value:
        returned = self._returned("main")
        if index >= len(returned):
            return _NOTHING
        return self._value("main", self._given, (), *returned[index])

    def _returned(self, function: str) -> list[tuple[str, int]]:
        ops = self._functions[function].body.ops
        return ops[-1].operands if ops and ops[-1].name == "func.return" else []

    def _value(
        self, function: str, arguments: _Bound, path: tuple[str, ...], name: str, index: int = 0
    ) -> Value:
        """A value of a function that was called along a path of results."""
        if name in arguments:
            return arguments[name]()
        op = self._made[function].get(name)
        if op is None:
            return _NOTHING
        kind = op.name.partition(".")[2]

        later = [
            partial(self._value, function, arguments, path, *operand) for operand in op.operands
        ]

        def operands() -> list[Value]:
            return [operand() for operand in later]

        if kind == "call" and op.symbols and op.symbols[0] in self._functions:
            called = op.symbols[0]
            names = self._functions[called].body.arguments
            returned = self._returned(called)
            if index >= len(returned):
                return _NOTHING
            bound = dict(zip(names, later, strict=False))
            return self._value(called, bound, (*path, name), *returned[index])
        if kind == "constant":
            return Value("constant", _splat(op), list, (self, path, name))
        if kind in ("case", "if"):
            taken = [
                partial(
                    self._branch, function, arguments, (*path, name, str(number)), region, index
                )
                for number, region in enumerate(op.regions)
            ]
            return Value(
                "choice", None, lambda: [branch() for branch in taken], (self, path, name, index)
            )
        if kind == "reduce":
            applied = op.text.partition("applies stablehlo.")[2].partition(" ")[0]
            made = _REDUCED.get(applied, "")
            return Value(made, None, operands, (self, path, name), _summed(op))
        return Value(_OPS.get(kind, ""), None, operands, (self, path, name, index))

    def _branch(
        self, function: str, arguments: _Bound, path: tuple[str, ...], region: Block, index: int
    ) -> Value:
        """A result of a region; other regions may have the same names for other values."""
        key = "/".join((function, *path))
        self._made.setdefault(key, self._made[function] | _makers(region))
        returned = region.ops[-1].operands if region.ops else []
        if index >= len(returned):
            return _NOTHING
        return self._value(key, arguments, path, *returned[index])

    def types(self, index: int | None) -> set[str]:
        """The element types of everything that a result depends on; of all that is returned without an index."""
        returned = self._returned("main")
        waiting = [name for name, _ in (returned if index is None else returned[index : index + 1])]
        met, elements, called = set[str](), set[str](), set[str]()
        while waiting:
            name = waiting.pop()
            op = self._made["main"].get(name)
            if op is None or name in met:
                continue
            met.add(name)
            for inner in _inside(op):
                elements |= {tensor.element for tensor in tensor_types(inner.text)}
                waiting += [operand for operand, _ in inner.operands]
                called |= {symbol for symbol in inner.symbols if symbol in self._functions}
        while called:
            function = called.pop()
            if function in met:
                continue
            met.add(function)
            for top in self._functions[function].body.ops:
                for inner in _inside(top):
                    elements |= {tensor.element for tensor in tensor_types(inner.text)}
                    called |= {symbol for symbol in inner.symbols if symbol in self._functions}
        return elements


def _summed(op: Op) -> int | None:
    """How many values become one in a reduction."""
    axes = re.search(r"dimensions = \[([\d, ]+)\]", op.text)
    given = next(tensor_types(op.text), None)
    if axes is None or given is None:
        return None
    extents = [given.shape[int(axis)] for axis in axes[1].split(",")]
    return None if None in extents else math.prod(extent or 0 for extent in extents)


def _makers(block: Block) -> dict[str, Op]:
    return {name: op for op in block.ops for name, _ in op.results}


def _inside(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions:
        for inner in region.ops:
            yield from _inside(inner)


def _splat(op: Op) -> float | None:
    """The size of a constant with one value."""
    text = op.text.partition("dense<")[2].partition(">")[0]
    types = result_types(op)
    try:
        value = abs(float(text))
    except ValueError:
        return None
    return value if types and math.isfinite(value) else None


# --- outputs --------------------------------------------------------------------------------------

_NARROW = {"f16": "float16", "bf16": "bfloat16"}


def scales_of(frozen: FrozenGraph) -> dict[str, float]:
    """The largest absolute value that outputs can have, by name, for those whose last operations say it."""
    nodes, bounds = _Nodes(frozen.graph_def), dict[str, float]()
    for name, node in frozen.fetches.items():
        bound = bound_of(nodes.value(node))
        if frozen.outputs[name].dtype.is_floating and bound is not None and math.isfinite(bound):
            bounds[name] = bound
    return bounds


def narrow_of(frozen: FrozenGraph) -> dict[str, str]:
    """The narrowest 16-bit type that the values of outputs pass through, by name."""
    graph, nodes = Graph(frozen.graph_def), _Nodes(frozen.graph_def)
    narrow_types: dict[str, str] = {}
    for name, fetch in frozen.fetches.items():
        types: set[str] = set()
        for function, names in graph.reach([fetch], control=False).items():
            for node in (graph.nodes[function][name] for name in names):
                types |= _types(node)
                if node.op == MODULE_OP:
                    index = _only_index(graph, names, node.name) if not function else None
                    types |= {_NARROW.get(t, "") for t in nodes.module_types(node, index)}
        narrow = [kind for kind in ("bfloat16", "float16") if kind in types]
        if narrow:
            narrow_types[name] = narrow[0]
    return narrow_types


def _types(node: Any) -> set[str]:
    kinds = set()
    for attribute in node.attr.values():
        for kind in (attribute.type, *attribute.list.type, attribute.tensor.dtype):
            if kind:
                kinds.add(tf.dtypes.as_dtype(kind).name if kind < 100 else "")
    return kinds & {"float16", "bfloat16"}


def _only_index(graph: Graph, names: set[str], module: str) -> int | None:
    """The result of a module that nodes read; None if they read several."""
    read = {
        tensor.partition(":")[2] or "0"
        for name in names
        for tensor in graph.nodes[""][name].input
        if not is_control(tensor) and node_name(tensor) == module
    }
    return int(read.pop()) if len(read) == 1 else None
