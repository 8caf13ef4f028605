"""Small ONNX models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]


def random(*shape: int, seed: int = 1, dtype: Any = np.float32) -> Array:
    """Values without symmetry; around zero."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def info(name: str, shape: Sequence[int | str] | None, dtype: Any = np.float32) -> Any:
    """An input or output of a graph."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, element, shape)


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Array],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, Array] | None = None,
    opset: int = 17,
) -> Any:
    """A model with inputs of these types and shapes."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [info(name, values.shape, values.dtype) for name, values in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()],
    )
    for output in graph.output:
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def expected(model: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What ONNX's reference computes for the model as it is."""
    names = [value.name for value in model.graph.output]
    values = ReferenceEvaluator(model).run(names, dict(inputs))
    return dict(zip(names, map(np.asarray, values), strict=True))
