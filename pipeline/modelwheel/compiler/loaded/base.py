"""The interface of every format of models: see `modelwheel.compiler.formats`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf

from ...model.inspection import SignatureInfo
from ...versions import TENSORFLOW_VERSION

Arrays = Mapping[str, np.ndarray[Any, Any]]
"""Values by the names of inputs or outputs."""
StaticShapes = Mapping[str, tuple[int, ...]]
"""Shapes of all inputs, by name."""

TENSORFLOW = f"TensorFlow {TENSORFLOW_VERSION}"
"""What evaluates models of its own formats, and of those that are StableHLO already."""
TENSORFLOW_LITE = f"TensorFlow Lite {TENSORFLOW_VERSION}"
"""The interpreter of TensorFlow Lite in the same package."""


@dataclass(frozen=True)
class Fetch:
    """The tensor of a graph that is an output."""

    tensor: str
    """Its name: `dense/BiasAdd:0`."""
    dtype: tf.DType


@dataclass(frozen=True)
class StateVariable:
    """A variable that calls read and write: part of the state of the compiled model."""

    name: str
    """As the model's author named it; unique in the graph."""
    node: str
    """Its VarHandleOp, which has its type and shape."""
    value: np.ndarray[Any, Any]
    """What it holds before the first call; zeros where a model does not say."""
    read: Callable[[], np.ndarray[Any, Any]]
    """What it holds at the time."""
    written: bool = True
    """Whether calls write it."""


@dataclass(frozen=True)
class SignatureGraph:
    """A signature as a graph with constants for its variables, made for static shapes."""

    graph_def: Any
    """The caller may change it."""
    feeds: Mapping[str, str]
    """Placeholder nodes by the names of the inputs, in the order of the interface."""
    fetches: Mapping[str, Fetch]
    """By the names of the outputs, in the order of the interface."""
    state: tuple[StateVariable, ...] = ()
    """The variables that are no constants because calls write them, sorted by name."""


class LoadedModel(Protocol):
    """One signature of a model, called by the names that its users see."""

    @property
    def info(self) -> SignatureInfo:
        """Its interface."""

    @property
    def evaluator(self) -> str:
        """The framework that computes the outputs of a call, with its version."""

    def __call__(self, inputs: Arrays) -> Arrays:
        """The outputs for some inputs, computed by `evaluator`.

        Raises:
            tf.errors.OpError, ValueError: The inputs cannot be evaluated.
        """

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """The graph for inputs of these shapes.

        Args:
            shapes: Of all inputs.
            keep: Functions with these marks (see `modelwheel.model.fusions.registry`) are called in it, not inlined.

        Raises:
            UnsupportedModelError: It cannot be made.
        """


def framework_of(model: LoadedModel) -> str:
    """The framework that computes the outputs, without its version."""
    return model.evaluator.rpartition(" ")[0]


@runtime_checkable
class StatefulModel(LoadedModel, Protocol):
    """A `LoadedModel` whose calls may change its variables."""

    def snapshot(self) -> Callable[[], None]:
        """A function that puts the variables back to what they hold now."""
