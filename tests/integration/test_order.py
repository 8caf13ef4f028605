"""The order of inputs and outputs is that of the model's file: in what is inspected, and in values by position."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.inspection import SignatureInfo
from modelwheel.model.renames import rename
from tests.models.ordered import INPUTS, OUTPUTS
from tests.support.laboratory import Laboratory, run_script
from tests.support.once import Once

pytestmark = pytest.mark.slow

_NODES = {
    "feeds": {name: f"x{n}" for n, name in enumerate(INPUTS, 1)},
    "fetches": {name: f"y{n}" for n, name in enumerate(OUTPUTS, 1)},
}
"""Feeds and fetches of the graph, by other names than those of its nodes."""

MODELS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "ordered.onnx": ("onnx", "model", {"format": "onnx"}),
    "ordered.jax": ("jax", "model", {"format": "stablehlo"}),
    "ordered.mlir": ("jax", "model", {"format": "stablehlo"}),
    "keywords.jax": ("jax", "model", {"format": "stablehlo"}),
    "ordered.pt2": ("torch", "model", {"format": "pytorch"}),
    "graph.pb": ("tensorflow", "model", {"format": "graph_def", **_NODES}),
    "saved": ("tensorflow", "model", {"format": "saved_model"}),
    "saved_again": ("tensorflow", "model", {"format": "saved_model"}),
    "keyed": ("tensorflow", "model", {"format": "saved_model"}),
    "tf1": ("tensorflow", "natural", {"format": "saved_model"}),
    "ordered.keras": ("keras", "model", {"format": "keras"}),
    "keyed.keras": ("keras", "model", {"format": "keras"}),
    "ordered.h5": ("keras", "model", {"format": "keras"}),
    "exported": ("keras", "model", {"format": "saved_model"}),
}
"""What writes a model, what orders its inputs, and how it is read."""

_PACKAGES = {"jax": "jax", "torch": "torch", "onnx": "onnxruntime", "ordered.h5": "tf_keras"}


class Models:
    """The models, made by one process for each framework when they are needed."""

    def __init__(self, once: Once, laboratory: Laboratory) -> None:
        self._once = once
        self._laboratory = laboratory

    def directory(self, name: str) -> Path:
        """The directory that holds a model and its values."""
        framework = MODELS[name][0]
        for package in filter(None, (_PACKAGES.get(framework), _PACKAGES.get(name))):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed")

        def make(directory: Path) -> Path:
            run_script("ordered", framework, directory)
            return directory

        return self._once(f"ordered-{framework}", make)

    def reading(self, name: str, **more: Any) -> dict[str, Any]:
        """How a model is read."""
        reading = MODELS[name][2]
        return {**reading, **({} if reading["format"] == "saved_model" else {"file": name}), **more}

    def inspect(self, name: str, **more: Any) -> SignatureInfo:
        """The signature of a model."""
        laboratory = Laboratory(self._place(name), self._new(), self._laboratory.pool)
        found = laboratory.inspect(".", reading=self.reading(name, **more))
        signature = found.signature("serving_default")
        assert signature is not None
        return signature

    def freeze(self, name: str, **more: Any) -> tuple[Path, FrozenSignature]:
        """The directory of a frozen graph, and its signature."""
        names = more.pop("names", {})
        laboratory = Laboratory(self._place(name), self._new(), self._laboratory.pool)
        batch = 4 if MODELS[name][0] == "keras" else None
        frozen = laboratory.freeze(".", batch, reading=self.reading(name, **more), names=names)
        return frozen, FrozenSignature.load(frozen / "signature.json")

    def _place(self, name: str) -> Path:
        directory = self.directory(name)
        return directory / name if MODELS[name][2]["format"] == "saved_model" else directory

    def _new(self) -> Path:
        return self._laboratory.new_directory()


@pytest.fixture(scope="module")
def ordered(once: Once, laboratory: Laboratory) -> Models:
    """The models of `tests/models/ordered.py`."""
    return Models(once, laboratory)


def _positional(directory: Path, name: str, signature: FrozenSignature, frozen: Path) -> None:
    """Writes beside a frozen graph what it is to compute, named by the position of each value."""
    with np.load(directory / f"{name}.npz") as arrays:
        case = signature.batch or 1
        given = {f"in/{t.name}": arrays[f"in/{n}"] for n, t in enumerate(signature.inputs)}
        results = {
            f"out/{case}/{t.name}": arrays[f"out/{n}"] for n, t in enumerate(signature.outputs)
        }
    np.savez(frozen / "reference.npz", **given, **results)


@pytest.mark.parametrize("name", MODELS)
def test_values_by_position_are_the_framework_s(ordered: Models, name: str) -> None:
    with np.load(ordered.directory(name) / f"{name}.npz") as arrays:
        inputs, outputs = arrays["inputs"].tolist(), arrays["outputs"].tolist()
    if name == "ordered.mlir":
        assert inputs[10] == "arg10"
    found = ordered.inspect(name)
    assert [tensor.name for tensor in found.inputs] == inputs
    assert [tensor.name for tensor in found.outputs] == outputs
    frozen, signature = ordered.freeze(name)
    assert list(signature.order) == [tensor.name for tensor in signature.inputs] == inputs
    assert [tensor.name for tensor in signature.outputs] == outputs
    assert found.ordered_by == signature.ordered_by == MODELS[name][1]
    _positional(ordered.directory(name), name, signature, frozen)
    (difference,) = json.loads(run_script("run_graphs", frozen)).values()
    assert difference < 1e-5


@pytest.mark.parametrize("name", ["ordered.onnx", "tf1"])
def test_a_spec_keeps_the_sorted_order(ordered: Models, name: str) -> None:
    names = {"x2": "zz"} if name == "tf1" else {"alpha": "zz"}
    found = rename(ordered.inspect(name, order="sorted"), names)
    _, signature = ordered.freeze(name, order="sorted", names=names)
    for tensors in ((found.inputs, signature.inputs), (found.outputs, signature.outputs)):
        assert [t.name for t in tensors[0]] == [t.name for t in tensors[1]]
        assert [t.name for t in tensors[0]] == sorted(t.name for t in tensors[0])
    assert signature.inputs[-1].name == "zz"
    assert found.ordered_by == signature.ordered_by == "sorted"


def test_renamed_inputs_stay_where_the_model_has_them(ordered: Models) -> None:
    _, signature = ordered.freeze("ordered.onnx", names={"zeta": "a", "total": "z"})
    assert [tensor.name for tensor in signature.inputs] == ["a", *INPUTS[1:]]
    assert [tensor.name for tensor in signature.outputs] == ["z", *OUTPUTS[1:]]
