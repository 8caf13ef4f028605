"""Many cases as one model, and so as one wheel: each is a function with its own opset, and the graph calls all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from modelwheel.dtypes import DTYPES
from tests.conformance.cases import Array, Case
from tests.conformance.run import differences

_DOMAIN = "conformance"
MODEL, SAMPLES = "cases.onnx", "samples.npz"


@dataclass(frozen=True)
class Merged:
    """A model of many cases, called once with the first inputs of each."""

    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    """By the names of the model, which differ from those of the cases."""
    outputs: Mapping[str, Mapping[str, str]]
    """By case: the names of its outputs in the model, by those that they have in the case."""

    def save(self, directory: Path) -> None:
        """Writes the model, and its inputs as `verify.samples`; NumPy's files have no bfloat16."""
        onnx.save(self.model, directory / MODEL)
        arrays: dict[str, Any] = {
            name: array.astype(np.float32) if array.dtype.kind == "V" else array
            for name, array in self.inputs.items()
        }
        np.savez(directory / SAMPLES, **arrays)

    def run(self, model: Callable[..., Mapping[str, Array]]) -> dict[str, Array]:
        """The outputs of the package of a wheel, which takes and returns bfloat16 as its bits."""
        dtypes = {value.name: _dtype(value) for value in self.model.graph.output}
        bits = {n: a.view(np.uint16) if a.dtype.kind == "V" else a for n, a in self.inputs.items()}
        found = model(**bits)
        return {
            name: found[name].view(dtype) if dtype.kind == "V" else found[name]
            for name, dtype in dtypes.items()
        }

    def wrong(self, cases: Sequence[Case], found: Mapping[str, Array]) -> dict[str, str]:
        """What differs from the expected outputs, by case, given the outputs of the model."""
        said = {}
        for case in cases:
            own = {name: found[other] for name, other in self.outputs[case.name].items()}
            said[case.name] = differences(case, own, case.data[0][1])
        return {name: text for name, text in said.items() if text}


def can_be_wheel(case: Case) -> bool:
    """Whether a wheel has arrays of its types, and ONNX's own evaluator, the judge of the build, knows the case.

    That one has no `Scatter`, and gives the result of `Range` written as a loop another shape. ONNX Runtime reads no
    functions of other opsets than the model's.
    """
    values, expected = case.data[0]
    if not all(array.dtype.name in DTYPES for array in [*values.values(), *expected.values()]):
        return False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(case.model).run(list(expected), dict(values))
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    arrays = map(np.asarray, found)
    return not differences(case, dict(zip(expected, arrays, strict=True)), expected)


def merge(cases: Sequence[Case], constants: Mapping[str, Collection[str]]) -> Merged:
    """One model of cases whose functions and weights do not share names.

    Args:
        cases: With fixed shapes and without functions of their own.
        constants: The inputs of each case that decide shapes: constants of the model.
    """
    nodes, functions, inputs, outputs = [], [], [], []
    given: dict[str, Array] = {}
    named: dict[str, dict[str, str]] = {}
    opsets = {"": defs.onnx_opset_version(), _DOMAIN: 1}
    for case in cases:
        values, expected = case.data[0]
        short = case.name.removeprefix("test_")
        names = {name: f"{short}_in{place}" for place, name in enumerate(values)}
        named[case.name] = {name: f"{short}_out{place}" for place, name in enumerate(expected)}
        for name, array in values.items():
            if name in constants[case.name]:
                nodes.append(_constant(names[name], numpy_helper.from_array(array)))
            else:
                given[names[name]] = array
                inputs.append(_declared(names[name], array))
        outputs += [_declared(named[case.name][name], array) for name, array in expected.items()]
        called = list(named[case.name].values())
        nodes.append(helper.make_node(case.name, list(names.values()), called, domain=_DOMAIN))
        functions.append(_function(case, list(values), list(expected)))
        for opset in case.model.opset_import:
            opsets.setdefault("" if opset.domain == "ai.onnx" else opset.domain, opset.version)
    model = helper.make_model(
        helper.make_graph(nodes, "cases", inputs, outputs),
        functions=functions,
        opset_imports=[helper.make_opsetid(*opset) for opset in opsets.items()],
    )
    return Merged(model, given, named)


def _function(case: Case, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.FunctionProto:
    """The graph of a case, its weights as constants."""
    graph = case.model.graph
    weights = [_constant(tensor.name, tensor) for tensor in graph.initializer]
    nodes = [*weights, *graph.node]
    return helper.make_function(
        _DOMAIN, case.name, inputs, outputs, nodes, list(case.model.opset_import)
    )


def _constant(name: str, tensor: onnx.TensorProto) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=tensor)


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    return helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)


def _declared(name: str, array: Array) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype))
    return helper.make_tensor_value_info(name, element, array.shape)
