"""Evaluates ONNX models as they are: a reference that does not depend on their conversion.

ONNX Runtime does it. Where it has no code for an operation or a type, ONNX's own evaluator does; that one is
slow (18 times for a detector of 640 x 640 pixels), and computes batch normalisation of opset 9 to 13 as if
for training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ....errors import UnsupportedModelError
from ....util.text import one_line
from ....workers.trail import follows, note
from .exact_bytes import with_exact_bytes
from .exact_spectra import inexact_transforms, with_exact_spectra
from .operators.onnx_graph import describe, needed_names

Array = np.ndarray[Any, Any]

_ERROR = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_NODE = re.compile(
    r"Non-zero status code returned while running \w+ node\. Name:'(.*?)' Status Message: "
)
_WITHOUT_NUMPY = re.compile(r"tensor\((bfloat16|float8\w*|float4\w*|u?int4|u?int2|string)\)")


@dataclass(frozen=True)
class Evaluator:
    """Computes all outputs of a model."""

    name: str
    """With its version."""
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]]
    """Raises ValueError if the model fails on these inputs."""


def find_evaluator(model: onnx.ModelProto) -> Evaluator:
    """The first one that knows everything in a model.

    Args:
        model: With its weights.

    Raises:
        UnsupportedModelError: There is none.
    """
    model = with_exact_spectra(model)
    if follows():
        return _stepping(model)
    reasons: dict[Callable[..., Evaluator], str] = {}
    ways = (_own_reference, _runtime) if _is_misread(model) else (_runtime, _own_reference)
    for make in ways:
        try:
            return make(model)
        except Exception as error:  # noqa: BLE001 - of any class
            reasons[make] = _without_head(str(error))
    raise UnsupportedModelError(
        f"a wheel of this model could not be verified: neither ONNX Runtime ({reasons[_runtime]}) nor ONNX's own "
        f"evaluator ({reasons[_own_reference]}) evaluates it; export it with other operations or types"
    )


def _is_misread(model: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime computes something else than ONNX defines.

    For `Resize` with aligned corners and scales, ONNX divides by the length before it is rounded down; ONNX
    Runtime's list of excluded cases of ONNX's suite has those. For Fourier transforms, see `exact_spectra`.
    """
    return bool(inexact_transforms(model)) or any(
        node.op_type == "Resize"
        and len(node.input) > 2
        and node.input[2]
        and any(a.s == b"align_corners" for a in node.attribute)
        for node in model.graph.node
    )


_OPTIMISED = ContextVar("_OPTIMISED", default=False)


@contextmanager
def optimised() -> Iterator[None]:
    """Evaluates as fast as ONNX Runtime can, to time it: merged operations may round in other places."""
    token = _OPTIMISED.set(True)
    try:
        yield
    finally:
        _OPTIMISED.reset(token)


def _session(model: onnx.ModelProto, *, fast: bool = False) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    # For a reference only what the file says.
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if fast else levels.ORT_DISABLE_ALL
    content = model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _runtime(model: onnx.ModelProto) -> Evaluator:
    import onnxruntime

    session = _session(with_exact_bytes(model))
    fast = cache(lambda: _session(model, fast=True))
    for value in (*session.get_inputs(), *session.get_outputs()):
        if _WITHOUT_NUMPY.fullmatch(value.type):
            raise ValueError(f"{value.name} is a {value.type}")
    names = [value.name for value in session.get_outputs()]

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        try:
            chosen = fast() if _OPTIMISED.get() else session
            return dict(zip(names, chosen.run(names, dict(inputs)), strict=True))
        except Exception as error:
            raise ValueError(_as_tensorflow_says(str(error))) from error

    return Evaluator(f"ONNX Runtime {onnxruntime.__version__}", run)


def _stepping(model: onnx.ModelProto) -> Evaluator:
    """ONNX Runtime, one node after another, each of which is noted before: finds the one that crashes it."""

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        known |= inputs
        for node in model.graph.node:
            note(describe(node))
            known |= _run_node(model, node, known)
        return {value.name: known[value.name] for value in model.graph.output}

    return Evaluator("ONNX Runtime, step by step", run)


def _run_node(
    model: onnx.ModelProto, node: onnx.NodeProto, known: Mapping[str, Array]
) -> Mapping[str, Array]:
    # What graphs inside the node read from outside, too.
    needed = needed_names(onnx.GraphProto(node=[node]), list(node.output)) & known.keys()
    single = onnx.ModelProto()
    single.CopyFrom(model)
    single.graph.Clear()
    single.graph.name = "node"
    single.graph.node.append(node)
    for name in sorted(needed):
        kind = helper.np_dtype_to_tensor_dtype(known[name].dtype)
        value = helper.make_tensor_value_info(name, kind, known[name].shape)
        single.graph.input.append(value)
    outputs = [name for name in node.output if name]
    single.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    arrays = _runtime(single).run({name: known[name] for name in needed})
    return {name: np.asarray(arrays[name]) for name in outputs}


def _own_reference(model: onnx.ModelProto) -> Evaluator:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    names: Sequence[str] = [value.name for value in model.graph.output]

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        try:
            values = evaluator.run(list(names), dict(inputs))
        except Exception as error:
            raise ValueError(one_line(str(error))) from error
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}

    return Evaluator(f"ONNX's own evaluator {onnx.__version__}", run)


def _without_head(text: str) -> str:
    """The beginning of an error of ONNX Runtime, without its number."""
    return one_line(_ERROR.sub("", text).partition("\n")[0])


def _as_tensorflow_says(text: str) -> str:
    """An error with its node in the form that `modelwheel.model.messages` reads."""
    text = _without_head(text)
    node = _NODE.search(text)
    return f"{_NODE.sub('', text)} [[{{{{node {node[1]}}}}}]]" if node and node[1] else text
