"""Small ONNX models, and their rewritten form evaluated by ONNX's own reference, without torch-mlir."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from modelwheel.compiler.worker.formats.onnx_evaluate import find_evaluator
from modelwheel.compiler.worker.formats.onnx_rewrites.graphs import subgraphs
from modelwheel.compiler.worker.formats.onnx_rewrites.specialize import Specialized, specialize

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


def rewrite(model: Any, inputs: Mapping[str, Array], **constants: Any) -> Specialized:
    """The model at the shapes of these inputs."""
    given = {name: np.asarray(value) for name, value in constants.items()}
    return specialize(model, {name: values.shape for name, values in inputs.items()}, given)


def nested(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes, and those in their bodies."""
    for node in nodes:
        yield node
        for body in subgraphs(node):
            yield from nested(body.node)


def as_model(rewritten: Specialized) -> tuple[dict[str, str], Any]:
    """A rewritten model as one of ONNX, with the names of its outputs by those of the original."""
    straight = rewritten.straight
    results = {name: straight.add_result(value) for name, value in rewritten.outputs.items()}
    for node in nested(straight.nodes):
        node.name = ""  # of the node that it comes from; ONNX Runtime wants each once
    graph = helper.make_graph(
        straight.nodes,
        "straight",
        [onnx.ValueInfoProto(name=v, type=straight.types[v]) for v in rewritten.inputs.values()],
        [onnx.ValueInfoProto(name=v, type=straight.types[v]) for v in results.values()],
        [numpy_helper.from_array(value, name) for name, value in straight.constants.items()],
    )
    opsets = [helper.make_opsetid("", straight.opset)]
    return results, helper.make_model(graph, opset_imports=opsets, ir_version=8)


def evaluate(rewritten: Specialized, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a rewritten model."""
    results, written = as_model(rewritten)
    given = {value: inputs[name] for name, value in rewritten.inputs.items()}
    values = ReferenceEvaluator(written).run(list(results.values()), given)
    return dict(zip(results, map(np.asarray, values), strict=True))


def expected(model: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What ONNX's reference computes for the model as it is."""
    names = [value.name for value in model.graph.output]
    values = ReferenceEvaluator(model).run(names, dict(inputs))
    return dict(zip(names, map(np.asarray, values), strict=True))


def operations(rewritten: Specialized) -> list[str]:
    """The kinds of the nodes that were written."""
    return [node.op_type for node in rewritten.straight.nodes]


def agree_in_runtime(model: Any, inputs: Mapping[str, Array]) -> list[str]:
    """Compares a model with its rewritten form in ONNX Runtime; returns the operations of that."""
    rewritten = rewrite(model, inputs)
    results, written = as_model(rewritten)
    given = {rewritten.inputs[name]: values for name, values in inputs.items()}
    found = find_evaluator(written).run(given)
    for name, values in find_evaluator(model).run(inputs).items():
        assert found[results[name]].shape == values.shape
        scale = max(1.0, float(np.abs(values).max()))
        np.testing.assert_allclose(found[results[name]], values, rtol=1e-5, atol=2e-6 * scale)
    return operations(rewritten)
