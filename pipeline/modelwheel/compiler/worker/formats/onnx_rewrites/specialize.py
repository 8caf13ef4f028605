"""An ONNX model at fixed shapes, with some inputs as constants, as nodes in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from .....errors import UnsupportedModelError
from .....util.text import one_line
from .graphs import write_graph
from .rules import RULES
from .straight import Array, Straight


@dataclass(frozen=True)
class Specialized:
    """What is left of a model."""

    straight: Straight
    inputs: Mapping[str, str]
    """The value of each input of the model; those that no output needs too."""
    outputs: Mapping[str, str]


def specialize(
    model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Array]
) -> Specialized:
    """Writes the graph of a model whose functions are inlined.

    Raises:
        UnsupportedModelError: A node cannot be written; the message names it.
    """
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    straight = Straight(opset, RULES)
    scope: dict[str, str] = {}
    inputs: dict[str, str] = {}
    _check_symbols(model, shapes)
    for value in model.graph.input:
        if value.name in constants:
            scope[value.name] = straight.constant(np.asarray(constants[value.name]))
        elif value.name in shapes:
            name = inputs[value.name] = scope[value.name] = straight.fresh()
            straight.argument(name, value.type.tensor_type.elem_type, shapes[value.name])
    results = write_graph(straight, model.graph, scope, opset)
    names = [value.name for value in model.graph.output]
    return Specialized(straight, inputs, dict(zip(names, results, strict=True)))


def _check_symbols(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuses dimensions of one name that have different lengths."""
    lengths: dict[str, tuple[int, str]] = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, length in zip(dims, shapes.get(value.name, ()), strict=False):
            symbol, place = dim.dim_param, one_line(value.name)
            known, where = lengths.setdefault(symbol, (length, place))
            if symbol and symbol != "?" and known != length:
                raise UnsupportedModelError(
                    f"the dimension {one_line(repr(symbol))} is {known} in input {where!r} and {length} in "
                    f"input {place!r}, but the model declares it equal; correct inputs.{place}.shape in "
                    "the spec"
                )
