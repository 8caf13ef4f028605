"""Model objects are told apart by their classes, and what is none is refused by one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modelwheel.api import objects, saving
from modelwheel.api.objects import save_object
from modelwheel.api.saving import Target
from modelwheel.errors import ModelwheelError, UnsupportedModelError, UsageError


def an_object_of(*places: str) -> Any:
    """An object whose class and its bases seem to be in these modules."""
    kind: type = object
    for place in reversed(places):
        module, _, name = place.rpartition(".")
        kind = type(name, (kind,), {"__module__": module})
    return kind()


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path, "net", batched=False)


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        (("mine.Net", "keras.src.models.model.Model", "tensorflow.x.AutoTrackable"), "save_keras"),
        (("keras.src.models.functional.Functional",), "save_keras"),
        (("tf_keras.src.engine.training.Model", "tensorflow.x.Module"), "save_keras"),
        (("mine.Net", "torch.nn.modules.module.Module"), "save_torch"),
        (("torch.export.exported_program.ExportedProgram",), "save_program"),
        (("mine.Net", "tensorflow.python.module.module.Module"), "save_module"),
        (("tensorflow.python.eager.function.Function",), "save_function"),
        (("onnx.onnx_ml_pb2.ModelProto",), "save_onnx"),
        (("jax._src.export._export.Exported",), "save_exported"),
    ],
)
def test_kinds(
    classes: tuple[str, ...], kind: str, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for row in objects._KINDS if row.save is getattr(saving, kind)]
    saved: list[Any] = []

    def save(*call: Any) -> Path:
        saved.append(call)
        return Path("x")

    def other(*_: Any) -> Path:
        pytest.fail("another kind")

    fakes = [
        objects._Kind(row.module, row.names, save if row in rows else other)
        for row in objects._KINDS
    ]
    monkeypatch.setattr(objects, "_KINDS", fakes)
    assert save_object(an_object_of(*classes), None, target) == Path("x")
    assert len(saved) == 1


@pytest.mark.parametrize(
    ("model", "error", "said"),
    [
        (an_object_of("numpy.ndarray"), UsageError, "numpy.ndarray cannot be compiled; pass the"),
        (an_object_of("sklearn.pipeline.Pipeline"), UnsupportedModelError, "skl2onnx.to_onnx"),
        (an_object_of("mine.P", "sklearn.base.BaseEstimator"), UnsupportedModelError, "skl2onnx"),
        (an_object_of("xgboost.core.Booster"), UnsupportedModelError, "decision trees"),
        (
            an_object_of("keras.src.layers.Dense", "tensorflow.x.Module"),
            UsageError,
            "pass a keras.Model",
        ),
        (an_object_of("onnxruntime.InferenceSession"), UsageError, "pass the .onnx file"),
        (an_object_of("torch.Tensor"), UsageError, "pass a torch.nn.Module"),
        ({"weights": 1}, UsageError, "the class dict is not a model; pass a path, a Keras model"),
        (None, UsageError, "NoneType is not a model"),
        (int, UsageError, "the class type is not a model"),
    ],
)
def test_what_is_no_model(
    model: object, error: type[ModelwheelError], said: str, target: Target
) -> None:
    with pytest.raises(error, match=said):
        save_object(model, None, target)


def test_a_plain_function_says_what_it_needs(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    with pytest.raises(UsageError, match="write it with JAX or TensorFlow"):
        save_object(lambda x: x, None, target)
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    with pytest.raises(UsageError, match="needs example_inputs"):
        save_object(lambda x: x, None, target)


def test_what_a_framework_raises_is_one_sentence(target: Target) -> None:
    class Net:
        inputs = ("x",)
        name = "net"

        def save(self, path: Path) -> None:
            raise RuntimeError(f"no\x1b[2J\nroom for {path.name}")

    with pytest.raises(UnsupportedModelError) as caught:
        saving.save_keras(Net(), None, target)
    assert str(caught.value) == r"Keras cannot save the model 'net': RuntimeError: no\x1b[2J"
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [([(2, 3), (4, 3)], r"\(2, 3\), \(4, 3\)"), ([()], r"\(\)"), ([], "shapes ;")],
)
def test_rows_of_examples_must_agree(shapes: list[tuple[int, ...]], said: str) -> None:
    with pytest.raises(UsageError, match=f"batch_sizes: axis 0 .*{said}"):
        saving._rows_of(shapes)


def test_examples_for_what_needs_none(target: Target) -> None:
    with pytest.raises(UsageError, match="example_inputs: leave it out for an ONNX model"):
        saving.save_onnx(object(), 1, target)
