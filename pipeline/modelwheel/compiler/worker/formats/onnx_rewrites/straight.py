"""A graph of ONNX nodes in a line, at fixed shapes: what is being written while a model is specialised.

Every value has a known type and shape. What follows from constants and shapes alone is computed at once,
so that torch-mlir sees neither arithmetic on shapes nor control flow that is decided by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from .....errors import UnsupportedModelError
from .....util.text import one_line

Array: TypeAlias = np.ndarray[Any, Any]
Rule: TypeAlias = Callable[["Straight", "Call"], "Sequence[str] | None"]
"""Writes other nodes in place of one and returns the names of its outputs; None to keep the node."""

MAX_NODES = 200_000
MAX_ELEMENTS = 1 << 30
"""Of one tensor."""
_SMALL = 4096
"""Values of up to so many elements are computed; larger ones only if they do not grow."""
_MOVES = frozenset(
    {"Cast", "Concat", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
_HAVE_GRAPHS = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


class UnknownShapeError(Exception):
    """The shape of a value depends on values that are known only when the model runs."""


@dataclass(frozen=True)
class Call:
    """A node whose inputs are values of the graph being written."""

    op: str
    inputs: tuple[str, ...]
    """Empty for an input that is left out."""
    outputs: int
    attributes: Mapping[str, Any]
    where: str
    """The ONNX node that it comes from, for messages and locations."""
    opset: int

    def input(self, number: int) -> str:
        """An input; empty if it is left out."""
        return self.inputs[number] if number < len(self.inputs) else ""

    def get(self, name: str, default: Any) -> Any:
        """An attribute; strings are `str`."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def refuse(self, problem: str, fix: str) -> UnsupportedModelError:
        """An error about this node."""
        return UnsupportedModelError(f"{one_line(self.where)} {problem}; {fix}")


class Straight:
    """The graph that is being written: add nodes, ask for types, shapes and constants."""

    def __init__(self, opset: int, rules: Mapping[str, Rule]) -> None:
        self.opset = max(opset, 17)
        self.nodes: list[onnx.NodeProto] = []
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, Array] = {}
        self._rules = rules
        self._where = ""
        self._names = self._visits = 0

    # --- values -----------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A name that is not in use."""
        self._names += 1
        return f"v{self._names}"

    def argument(self, name: str, dtype: int, shape: Sequence[int]) -> None:
        """Declares an input of the graph."""
        self.types[name] = helper.make_tensor_type_proto(dtype, list(shape))

    def constant(self, values: Any, dtype: Any = None) -> str:
        """A constant, by default of the values' own type."""
        array = np.asarray(values, dtype)
        name = self.fresh()
        self.constants[name] = array
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = helper.make_tensor_type_proto(element, array.shape)
        return name

    def integers(self, *values: int) -> str:
        """A constant vector of int64."""
        return self.constant(values, np.int64)

    def value(self, name: str) -> Array | None:
        """What a value is, if that is known."""
        return self.constants.get(name)

    def element(self, name: str) -> int:
        """The element type, a `TensorProto.DataType`."""
        return int(self.types[name].tensor_type.elem_type)

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type as NumPy knows it."""
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.element(name)))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape."""
        return tuple(dim.dim_value for dim in self.types[name].tensor_type.shape.dim)

    # --- nodes ------------------------------------------------------------------------------------

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node of one output."""
        return self.add_all(op, inputs, 1, **attributes)[0]

    def add_all(self, op: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Adds a node of any number of outputs, in the form of this graph's opset."""
        return self.visit(Call(op, tuple(inputs), outputs, attributes, self._where, self.opset))

    def emit(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node of one output as it is, for the rule of the same operation."""
        return self._emit(Call(op, inputs, 1, attributes, self._where, self.opset))[0]

    def append(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Adds a node as it is; its outputs are declared."""
        self.nodes.append(helper.make_node(op, inputs, outputs, name=self._where, **attributes))

    @contextmanager
    def inside(self) -> Iterator[list[onnx.NodeProto]]:
        """Collects what is written meanwhile, as the nodes of a graph inside a node."""
        outside, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outside

    def visit(self, call: Call) -> list[str]:
        """Writes a node, or what replaces it, and returns the names of its outputs.

        Raises:
            UnsupportedModelError: The node cannot be written at fixed shapes.
        """
        self._visits += 1
        if (
            max(len(self.nodes), self._visits // 5) >= MAX_NODES
        ):  # most of those are computed at once
            raise call.refuse(
                f"makes the graph exceed {MAX_NODES} nodes", "use fewer or shorter loops"
            )
        if call.op in _RANDOM:
            raise call.refuse("draws random numbers", "pass them as an input")
        before, self._where = self._where, call.where
        try:
            folded = self._fold(call)
            if folded is not None:
                return folded
            rule = self._rules.get(call.op)
            written = rule(self, call) if rule else None
            return list(written) if written is not None else self._emit(call)
        finally:
            self._where = before

    def add_result(self, value: str) -> str:
        """A name of its own for a result, which may also be an input, a constant or another result."""
        name = self.fresh()
        self.types[name] = self.types[value]
        self.nodes.append(helper.make_node("Identity", [value], [name], name="the outputs"))
        return name

    def _emit(self, call: Call) -> list[str]:
        node, types = self._infer(call)
        for name, inferred in types.items():
            _require_static(call, inferred)
            self.types[name] = inferred
        self.nodes.append(node)
        return list(node.output)

    def infer(self, call: Call) -> tuple[int, ...]:
        """The shape of a node's first output."""
        _, types = self._infer(call)
        first = next(iter(types.values()))
        _require_static(call, first)
        return tuple(dim.dim_value for dim in first.tensor_type.shape.dim)

    def _infer(self, call: Call) -> tuple[onnx.NodeProto, dict[str, onnx.TypeProto]]:
        names = [self.fresh() for _ in range(call.outputs)]
        node = helper.make_node(call.op, call.inputs, names, name=call.where, **call.attributes)
        schema = defs.get_schema(call.op, self.opset)
        given = {name: self.types[name] for name in call.inputs if name}
        data = {
            name: numpy_helper.from_array(self.constants[name], name)
            for name in given
            if name in self.constants and self.constants[name].size <= _SMALL
        }
        opsets = [helper.make_opsetid("", self.opset)]
        try:
            types = shape_inference.infer_node_outputs(schema, node, given, data, None, opsets)
        except (RuntimeError, shape_inference.InferenceError) as error:
            reason = one_line(str(error).split("\n")[0])
            raise call.refuse(
                f"does not fit its inputs ({reason})", "check the input shapes"
            ) from None
        return node, types

    # --- constants --------------------------------------------------------------------------------

    def _fold(self, call: Call) -> list[str] | None:
        """Constants for the outputs, where the inputs are constants or only shapes count."""
        if call.op in ("Shape", "Size"):
            shape = np.array(self.shape(call.inputs[0]), np.int64)
            part = slice(call.get("start", 0), call.get("end", None))
            return [
                self.constant(shape[part] if call.op == "Shape" else np.int64(math.prod(shape)))
            ]
        if call.op == "Identity":
            return [call.inputs[0]]
        given = [name for name in call.inputs if name]
        if any(name not in self.constants for name in given) or call.op in _HAVE_GRAPHS:
            return None
        if call.op == "Constant":
            return [self.constant(_constant_value(call))]
        node, types = self._infer(call)
        if not self._worth(call, given, types):
            return None
        return [self.constant(values) for values in _evaluate(node, self.constants, self.opset)]

    def _worth(self, call: Call, given: Sequence[str], types: Mapping[str, onnx.TypeProto]) -> bool:
        try:
            sizes = [_elements(inferred) for inferred in types.values()]
        except UnknownShapeError:
            # Such as NonZero of constants.
            return sum(self.constants[name].size for name in given) <= _SMALL
        largest = max((self.constants[name].size for name in given), default=0)
        return sum(sizes) <= (max(largest, _SMALL) if call.op in _MOVES else _SMALL) and (
            call.op in _MOVES or largest <= 64 * _SMALL
        )


def _elements(inferred: onnx.TypeProto) -> int:
    if not inferred.tensor_type.HasField("shape"):
        raise UnknownShapeError
    dims = inferred.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        raise UnknownShapeError
    return math.prod(dim.dim_value for dim in dims)


def _require_static(call: Call, inferred: onnx.TypeProto) -> None:
    if not inferred.HasField("tensor_type"):
        kind = (inferred.WhichOneof("value") or "unknown").removesuffix("_type")
        raise call.refuse(f"returns a {kind}", "compiled models know tensors only")
    try:
        elements = _elements(inferred)
        if elements > MAX_ELEMENTS:
            raise call.refuse(f"makes a tensor of {elements} elements", "make it smaller")
    except UnknownShapeError:
        raise call.refuse(
            "returns as many elements as the values of the inputs decide, which needs shapes that are "
            "not fixed",
            "end the model before it",
        ) from None


def _constant_value(call: Call) -> Array:
    (name, value), *_ = call.attributes.items()
    if name == "value":
        return numpy_helper.to_array(value)
    if name.startswith("value_float"):
        return np.asarray(value, np.float32)
    if name.startswith("value_int"):
        return np.asarray(value, np.int64)
    raise call.refuse(f"holds a constant of the kind {name}", "use dense tensors of numbers")


def _evaluate(node: onnx.NodeProto, constants: Mapping[str, Array], opset: int) -> list[Array]:
    """What ONNX's own reference computes for one node."""
    graph = helper.make_graph(
        [node],
        "fold",
        [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.input) if name],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    given = {name: constants[name] for name in node.input if name}
    results = ReferenceEvaluator(model).run(None, given)
    return [np.asarray(result) for result in results]
