"""Recognises model objects by the names of their classes: no framework is imported for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelwheelError, UnsupportedModelError, UsageError
from . import saving

Save = Callable[[Any, Any, saving.Target], Path]
"""Writes a model object, with its example inputs, to a directory; returns its file or directory there."""


@dataclass(frozen=True)
class _Kind:
    """Objects that are saved in one way."""

    module: str
    """Top-level module of a class."""
    names: frozenset[str]
    """Names of that class; empty for all of the module."""
    save: Save


_KINDS = (
    # Models of Keras are modules of TensorFlow or PyTorch, too.
    _Kind("keras", frozenset({"Model", "Sequential", "Functional"}), saving.save_keras),
    _Kind("tf_keras", frozenset({"Model", "Sequential", "Functional"}), saving.save_keras),
    _Kind("onnx", frozenset({"ModelProto"}), saving.save_onnx),
    _Kind("torch", frozenset({"ExportedProgram"}), saving.save_program),
    _Kind("torch", frozenset({"Module"}), saving.save_torch),
    _Kind(
        "tensorflow",
        frozenset({"Function", "GenericFunction", "ConcreteFunction", "RestoredFunction"}),
        saving.save_function,
    ),
    _Kind("tensorflow", frozenset({"Module", "AutoTrackable"}), saving.save_module),
    _Kind("jax", frozenset({"Exported"}), saving.save_exported),
)

_SCIKIT = (
    "export it: write skl2onnx.to_onnx(model, rows[:1]).SerializeToString() to model.onnx, and pass that path; "
    "decision trees are not compiled yet"
)
_TREES = "decision trees are not compiled yet; call them with the library that made them"
_REFUSED: tuple[tuple[str, str, type[ModelwheelError]], ...] = (
    ("numpy", "pass the model that computes with such arrays, not an array", UsageError),
    ("sklearn", _SCIKIT, UnsupportedModelError),
    ("xgboost", _TREES, UnsupportedModelError),
    ("lightgbm", _TREES, UnsupportedModelError),
    ("catboost", _TREES, UnsupportedModelError),
    ("onnxruntime", "pass the .onnx file that the session was made from", UsageError),
    ("keras", "pass a keras.Model: keras.Sequential([input, layer])", UsageError),
    ("tf_keras", "pass a tf_keras.Model: tf_keras.Sequential([input, layer])", UsageError),
    ("tensorflow", "pass a tf.function or a tf.Module that has one", UsageError),
    ("torch", "pass a torch.nn.Module with example_inputs", UsageError),
    ("jax", "pass a function with example_inputs", UsageError),
    ("jaxlib", "pass a function with example_inputs", UsageError),
)
"""By the top-level module of a class: what to do instead."""

_TAKEN = "a path, a Keras model, a tf.function or tf.Module, an onnx.ModelProto, a torch.nn.Module or a function of JAX"


def save_object(model: Any, examples: Any, target: saving.Target) -> Path:
    """Saves a model object by the framework that made it; returns its file or directory.

    Args:
        model: The object.
        examples: What it is called with, where the object does not say that.
        target: Where to save it, under which name.

    Raises:
        UsageError: It is not a model, or `examples` are missing, or it takes none.
        UnsupportedModelError: It is a model that cannot be compiled, or that its framework cannot export.
    """
    tops = list(_tops(model))
    for kind in _KINDS:
        # A layer of Keras is a module of TensorFlow or PyTorch, but no model.
        beside = {"keras", "tf_keras"}.intersection(tops) - {kind.module}
        if not beside and any(_matches(kind, base) for base in type(model).__mro__):
            return kind.save(model, examples, target)
    for name in tops:
        for top, fix, error in _REFUSED:
            if name == top and not _is_function(model):
                raise error(f"{_describe(model)} cannot be compiled; {fix}")
    if callable(model) and not isinstance(model, type):
        return saving.save_jax(model, examples, target)
    raise UsageError(f"{_describe(model)} is not a model; pass {_TAKEN}")


def _matches(kind: _Kind, base: type) -> bool:
    return base.__name__ in kind.names and base.__module__.partition(".")[0] == kind.module


def _tops(model: Any) -> Iterator[str]:
    """The top-level modules of the object's classes."""
    return (base.__module__.partition(".")[0] for base in type(model).__mro__)


def _is_function(model: Any) -> bool:
    """Whether JAX made it from a function, as `jax.jit` does."""
    return callable(model) and hasattr(model, "__wrapped__") and hasattr(model, "lower")


def _describe(model: Any) -> str:
    kind = type(model)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return f"an object of the class {name}"
