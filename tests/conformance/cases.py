"""The cases of `onnx.backend.test`: models with inputs and outputs, read into arrays."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, Any]
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
_TRAINING = frozenset({"Adagrad", "Adam", "Gradient", "Momentum"})


class NotApplicableError(Exception):
    """A case about what compiled models do not have: the message says what."""


@dataclass(frozen=True)
class Case:
    """A model of the suite."""

    name: str
    kind: str
    model: onnx.ModelProto
    data: Sequence[tuple[dict[str, Array], dict[str, Array]]]
    """Inputs and expected outputs of each call, by name."""
    rtol: float
    atol: float


@cache
def load_suite() -> tuple[Any, ...]:
    """The cases as the suite has them, each with its kind."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple((kind, case) for kind in KINDS for case in load_model_tests(kind=kind))


def names() -> list[str]:
    """The names of all cases whose models come with the suite, in its order."""
    return [case.name for _, case in load_suite() if case.model is not None or case.model_dir]


def read_case(name: str) -> Case:
    """A case by its name.

    Raises:
        NotApplicableError: It is about strings, sequences, or training.
    """
    kind, case = next(pair for pair in load_suite() if pair[1].name == name)
    model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    if any(node.op_type in _TRAINING for node in model.graph.node):
        raise NotApplicableError("training")
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    outputs = list(model.graph.output)
    data = tuple(
        (_arrays(given, inputs), _arrays(expected, outputs)) for given, expected in _calls(case)
    )
    return Case(name, kind, model, data, case.rtol, case.atol)


def _calls(case: Any) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    if case.model is not None:
        yield from case.data_sets
        return
    for directory in sorted(Path(case.model_dir).glob("test_data_set_*")):
        given, expected = (
            [
                (directory / f"{kind}_{number}.pb").read_bytes()
                for number in range(len(list(directory.glob(f"{kind}_*.pb"))))
            ]
            for kind in ("input", "output")
        )
        yield given, expected


def _arrays(values: Sequence[Any], declared: Sequence[onnx.ValueInfoProto]) -> dict[str, Array]:
    found = {}
    for value, info in zip(values, declared, strict=True):
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            what = "sequences" if kind == "sequence_type" else "optional values"
            raise NotApplicableError(f"{what} as inputs or outputs")
        tensor = onnx.TensorProto.FromString(value) if isinstance(value, bytes) else value
        read = isinstance(tensor, onnx.TensorProto)
        array = numpy_helper.to_array(tensor) if read else np.asarray(tensor)
        if array.dtype.kind in "OUS":
            raise NotApplicableError("strings")
        found[info.name] = array
    return found
