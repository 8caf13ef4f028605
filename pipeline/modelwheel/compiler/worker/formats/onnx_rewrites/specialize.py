"""An ONNX model at fixed shapes, with some inputs as constants, as nodes in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

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
    scope, inputs = {}, {}
    for value in model.graph.input:
        if value.name in constants:
            scope[value.name] = straight.constant(np.asarray(constants[value.name]))
        elif value.name in shapes:
            name = inputs[value.name] = scope[value.name] = straight.fresh()
            straight.argument(name, value.type.tensor_type.elem_type, shapes[value.name])
    results = write_graph(straight, model.graph, scope, opset)
    names = [value.name for value in model.graph.output]
    return Specialized(straight, inputs, dict(zip(names, results, strict=True)))
