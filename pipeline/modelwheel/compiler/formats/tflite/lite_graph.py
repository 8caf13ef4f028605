"""Writes the graph of TensorFlow that a subgraph of TensorFlow Lite becomes.

What does not depend on inputs is an array and computed at once: weights that are stored with 16 bits, sizes, indices.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from ....errors import ModelwheelError, UnsupportedModelError
from ....model.messages import first_line
from ....util.text import one_line
from ...stablehlo.writer import Value as Written
from . import (
    lite_control,
    lite_elementwise,
    lite_integers,
    lite_layers,
    lite_movement,
    lite_recurrent,
)
from .lite_integers import SIZES
from .lite_lists import with_items
from .lite_modules import IntegerModule
from .lite_node import OPERATORS, LiteNode, Value, converted
from .tflite_file import LiteFile, LiteGraph, LiteOperator, LiteTensor

__all__ = ["OPERATORS", "build_graph", "initial_state", "refuse_unknown"]

_MODULES = (lite_control, lite_elementwise, lite_layers, lite_movement, lite_recurrent)
"""They fill the table of operators."""

_MOST_ELEMENTS = 1 << 24
"""Of an array that is computed from smaller ones, such as by TILE."""
_LAYERS = frozenset(
    {
        *("BATCH_MATMUL", "CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "RFFT2D"),
        *("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE_CONV"),
    }
)
"""Operators that stay in the graph: their results may be far larger than their operands."""
_MAX_DEPTH = 50
"""Of subgraphs that call each other."""
_MOST_OPERATORS = 100_000
"""Of all subgraphs, each as often as it is called."""
_SHOWN = 6


def refuse_unknown(file: LiteFile) -> None:
    """Refuses a file with operators that are not converted, or that compute with integers of 16 bits that have a scale.

    Raises:
        UnsupportedModelError: The message names all operators, or the first tensor of such integers.
    """
    for graph in file.graphs:
        for operator in graph.operators:
            _refuse_integers(graph, operator.op, [*operator.inputs, *operator.outputs])
    uses = Counter(operator.op for graph in file.graphs for operator in graph.operators)
    unknown = sorted(uses.keys() - OPERATORS.keys())
    if unknown:
        shown = ", ".join(one_line(op) for op in unknown[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise UnsupportedModelError(
            f"the file has operators that modelwheel does not read ({shown}{more}); name the SavedModel or .keras file "
            "that it was converted from, or convert it, by python -m tf2onnx.convert --tflite FILE --output model.onnx",
            code="MW401",
        )


def _refuse_integers(graph: LiteGraph, op: str, numbers: Sequence[int]) -> None:
    for number in numbers:
        tensor = graph.tensors[number]
        if number >= 0 and tensor.scaling is not None and tensor.dtype == "int16":
            raise UnsupportedModelError(
                f"{op} computes with {one_line(repr(tensor.name))}, integers of 16 bits with a scale, which are not read from "
                "such files; convert the model with integers of 8 bits, or without quantization",
                code="MW404",
            )


def build_graph(file: LiteFile, graph: LiteGraph, inputs: Sequence[Value]) -> list[Value]:
    """Adds the operators of a subgraph to the current graph of TensorFlow.

    Args:
        file: It has the subgraphs that others call.
        graph: One of them.
        inputs: Its inputs, tensors of any shapes that it takes.

    Returns:
        Its outputs.

    Raises:
        UnsupportedModelError: An operator cannot be converted, or not for these shapes.
    """
    return _Builder(file).run(graph, inputs, 0)


def initial_state(file: LiteFile) -> Mapping[str, np.ndarray[Any, Any]]:
    """The first values of the variables that calls change, by name.

    Raises:
        UnsupportedModelError: The file does not say it.
    """
    builder = _Builder(file)
    with tf.Graph().as_default():
        for operator in file.graphs[0].operators:
            if operator.op == "CALL_ONCE":
                builder.run(file.graphs[operator.options.initSubgraphIndex], [], 1)
    missing = sorted(set(file.states) - builder.variables.keys())
    if missing:
        raise UnsupportedModelError(
            f"the file has a variable {one_line(missing[0])} without a value before the first call; convert the model with one"
        )
    return {name: builder.variables[name] for name in file.states}


class _Builder:
    def __init__(self, file: LiteFile) -> None:
        self._file = file
        self._left = _MOST_OPERATORS
        self.variables: dict[str, Value] = {}

    def run(self, graph: LiteGraph, inputs: Sequence[Value], depth: int) -> list[Value]:
        """The outputs of a subgraph, which so many others surround."""
        self._left -= len(graph.operators)
        if depth > _MAX_DEPTH or self._left < 0:
            raise UnsupportedModelError(
                f"subgraphs of the file call each other more than {_MAX_DEPTH} levels deep, or have more than "
                f"{_MOST_OPERATORS} operators where each is called; convert the model again",
                code="MW416",
            )
        graph = with_items(graph)
        known: dict[int, Value] = {}
        for number, value in zip(graph.inputs, inputs, strict=True):
            known[number] = value

        def value_of(number: int) -> Value | None:
            if number not in known and number >= 0 and not graph.tensors[number].state:
                known[number] = _constant(graph.tensors[number])
            return known.get(number)

        def call(number: int, values: Sequence[Value]) -> list[Value]:
            return self.run(self._file.graphs[number], values, depth + 1)

        pending = _Pending(graph, known)
        for place, operator in enumerate(graph.operators):

            def node_of(operator: LiteOperator = operator) -> LiteNode:
                results = [graph.tensors[number] for number in operator.outputs]
                operands = [value_of(n) for n in operator.inputs]
                tensors = [graph.tensors[n] if n >= 0 else None for n in operator.inputs]
                return LiteNode(operator, operands, tensors, results, call, self.variables)

            values = _written(node_of(), pending)
            if values is None:
                if operator.op not in SIZES:
                    pending.close(place, operator.inputs)
                values = _converted(node_of())
            known.update(zip(operator.outputs, values, strict=True))
        pending.close(len(graph.operators), graph.outputs)
        return [_required(value_of(number)) for number in graph.outputs]


class _Pending:
    """The module that operators are written to until TensorFlow needs one of its values."""

    def __init__(self, graph: LiteGraph, known: dict[int, Value]) -> None:
        self._graph, self._known = graph, known
        self.module = IntegerModule()

    def close(self, place: int, needed: Sequence[int]) -> None:
        """Ends the module if it has a value that is needed.

        Args:
            place: Of the operator that needs values, among all; what later ones read become results of the module.
            needed: Numbers of tensors.
        """
        held = {n for n, value in self._known.items() if isinstance(value, Written)}
        if held.isdisjoint(needed):
            return
        operators = self._graph.operators[place:]
        later = {n for operator in operators for n in operator.inputs} | {*self._graph.outputs}
        results = sorted(held & later)
        values = self.module.results([self._known[number] for number in results])
        self._known.update(zip(results, values, strict=True))
        for number in held - later:
            del self._known[number]
        self.module = IntegerModule()


def _written(node: LiteNode, pending: _Pending) -> list[Value] | None:
    """The results of an operator in a module; None if TensorFlow computes it."""
    if not lite_integers.has_integers(node):
        return None
    with _understood(node), pending.module.at(_scope(node)):
        values = lite_integers.write(node, pending.module)
    if values is None:
        return None
    return [value if value.known is None else value.known for value in values]


def _constant(tensor: LiteTensor) -> Value:
    value = tensor.value
    if value is None:
        raise UnsupportedModelError(
            f"the file is damaged: nothing computes {one_line(repr(tensor.name))} before it is needed; convert the model "
            "again",
            code="MW416",
        )
    return value


def _required(value: Value | None) -> Value:
    if value is None:
        raise UnsupportedModelError(
            "the file is damaged: an output has no tensor; convert the model again", code="MW416"
        )
    return value


def _converted(node: LiteNode) -> list[Value]:
    """The results of an operator: arrays if it has no other operands."""
    with _understood(node):
        if _is_foldable(node):
            with context.eager_mode():
                return [np.asarray(value) for value in _results(node)]
        with tf.name_scope(_scope(node)):
            return _results(node)


@contextmanager
def _understood(node: LiteNode) -> Iterator[None]:
    """Errors of TensorFlow about an operator become those of users."""
    try:
        yield
    except ModelwheelError:
        raise
    except (tf.errors.OpError, ValueError, TypeError, LookupError, AttributeError) as error:
        shapes = ", ".join(str(tf.TensorShape(v.shape)) for v in node.inputs if v is not None)
        raise UnsupportedModelError(
            f"{node.place} cannot be converted for operands of the shapes {shapes} ({first_line(error)}); if the file is for "
            "other sizes of its inputs, such as a batch of 1, write these in `inputs` of the spec"
        ) from error


def _results(node: LiteNode) -> list[Value]:
    if lite_integers.has_integers(node):
        return lite_integers.compute(node)
    return converted(node)


def _is_foldable(node: LiteNode) -> bool:
    op = node.operator.op
    if op in SIZES:
        return False  # they give arrays where shapes are known
    if op in lite_control.CALLS or op in _LAYERS:
        return False
    values = [value for value in node.inputs if value is not None]
    if not all(isinstance(value, np.ndarray) for value in values):
        return False
    return _elements(node, values) <= _MOST_ELEMENTS or op in ("DENSIFY", "DEQUANTIZE")


def _elements(node: LiteNode, values: Sequence[Value]) -> int:
    """About how many elements a result has, at most."""
    op = node.operator.op
    if op == "RANGE":
        start, limit, delta = (float(value.reshape(())) for value in values)
        return int(abs(limit - start) / max(abs(delta), 1e-30)) + 1
    if op == "ONE_HOT":
        return int(values[0].size) * max(int(values[1].reshape(())), 1)
    if op in ("PAD", "PADV2", "MIRROR_PAD"):
        padded = np.asarray(values[0].shape) + values[1].reshape(-1, 2).sum(1)
        return math.prod(map(int, padded))
    if op == "MATRIX_DIAG":
        return int(values[0].size) * int(values[0].shape[-1])
    sizes = {"FILL": 0, "BROADCAST_TO": 1, "SPARSE_TO_DENSE": 1, "TILE": 1, "SCATTER_ND": 2}
    which = sizes.get(op)
    if which is not None:
        factor = math.prod(int(extent) for extent in values[which].reshape(-1))
        return factor * int(values[0].size) if op == "TILE" else factor
    try:
        return math.prod(np.broadcast_shapes(*(value.shape for value in values)))
    except ValueError:  # they are put side by side, or one has places in another
        return sum(int(value.size) for value in values)


def _scope(node: LiteNode) -> str:
    """A name for what an operator becomes: of its layer, as the converter keeps it."""
    name = node.results[0].name.partition(";")[0] if node.results else ""
    name = re.sub(r"[^A-Za-z0-9_.\\/-]", "_", name).strip("/_.-\\") or node.operator.op.lower()
    return name if re.match(r"[A-Za-z0-9.]", name) else f"n{name}"
