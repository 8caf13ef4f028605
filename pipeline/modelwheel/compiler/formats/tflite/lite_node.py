"""An operator of TensorFlow Lite with the values of its inputs, and the table of those that are converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from ....errors import UnsupportedModelError
from ....util.text import one_line
from .tflite_file import LiteOperator, LiteTensor

Value = Any
"""An array that is known while the model is converted, or a tensor of the graph."""


UNKNOWN_SIZE = "MW408"
"""The code of an error about a size that is not known: here, because the shapes of inputs are not."""


@dataclass(frozen=True)
class LiteNode:
    """An operator and its operands."""

    operator: LiteOperator
    inputs: Sequence[Value | None]
    """None for those that are left out."""
    operands: Sequence[LiteTensor | None]
    """Their tensors."""
    results: Sequence[LiteTensor]
    call: Callable[[int, Sequence[Value]], list[Value]]
    """The results of the subgraph with a number for some inputs."""
    variables: MutableMapping[str, Value]
    """Values that were assigned before the first call, by the names of their variables."""

    @property
    def options(self) -> Any:
        """Its attributes, by the names of the schema."""
        return self.operator.options

    @property
    def place(self) -> str:
        """How messages name it."""
        name = self.results[0].name if self.results else ""
        return f"{self.operator.op} {one_line(repr(name))}"

    @property
    def zero(self) -> int:
        """The integer that stands for 0 in the first operand, or 0 itself."""
        tensor = self.operands[0]
        return 0 if tensor is None or tensor.scaling is None else int(tensor.scaling.zeros[0])

    def __getitem__(self, number: int) -> Value:
        """An input that is there."""
        value = self.inputs[number] if number < len(self.inputs) else None
        if value is None:
            raise UnsupportedModelError(
                f"the file is damaged: {self.place} has no input {number}; convert the model again",
                code="MW416",
            )
        return value

    def has(self, number: int) -> bool:
        """Whether there is an input of this number."""
        return number < len(self.inputs) and self.inputs[number] is not None

    def constant(self, number: int, what: str) -> np.ndarray[Any, Any]:
        """An input that must be known while the model is converted.

        Raises:
            UnsupportedModelError: It depends on the inputs of the model.
        """
        value = self[number]
        if isinstance(value, np.ndarray):
            return value
        known = tf.get_static_value(value)
        if known is None:
            raise UnsupportedModelError(
                f"{what} of {self.place} depends on the inputs of the model; convert the model with fixed sizes",
                code=UNKNOWN_SIZE,
            )
        return np.asarray(known)

    def refuse(self, problem: str) -> UnsupportedModelError:
        """An error about it."""
        return UnsupportedModelError(
            f"{self.place} {problem}; convert the model with other operations", code="MW401"
        )


Convert = Callable[[LiteNode], Value]
"""The result of an operator, or a list of several."""

OPERATORS: dict[str, Convert] = {}
"""By their names in the schema; `lite_operators` fills it."""


_Function = TypeVar("_Function")


def registered(
    table: dict[str, _Function], names: Sequence[str]
) -> Callable[[_Function], _Function]:
    """Enters a function in a table, by the names of some operators."""

    def register(function: _Function) -> _Function:
        table.update(dict.fromkeys(names, function))
        return function

    return register


def operator(*names: str) -> Callable[[Convert], Convert]:
    """Registers what converts some operators."""
    return registered(OPERATORS, names)


def converted(node: LiteNode) -> list[Value]:
    """The results of an operator, however its operands are scaled."""
    results = OPERATORS[node.operator.op](node)
    return list(results) if isinstance(results, list | tuple) else [results]


_RELU_N1_TO_1 = 2
ACTIVATIONS: dict[int, Callable[[Value], Value]] = {
    0: lambda x: x,
    1: tf.nn.relu,
    _RELU_N1_TO_1: lambda x: tf.clip_by_value(x, -1.0, 1.0),
    3: tf.nn.relu6,
    4: tf.tanh,
}
"""By the numbers of ActivationFunctionType in the schema."""

Limits = tuple[float | None, float | None]
"""The least and the largest real number of a result."""
LIMITS: Mapping[int, Limits] = {
    0: (None, None),
    1: (0, None),
    _RELU_N1_TO_1: (-1, 1),
    3: (0, 6),
}
"""Of the activations that results of integers may have, by their numbers."""


def activated(node: LiteNode, value: Value) -> Value:
    """A result after the activation that an operator has inside."""
    number = node.options.fusedActivationFunction if node.options is not None else 0
    if number not in ACTIVATIONS:
        raise node.refuse(f"has the activation number {number}, which is not known")
    return ACTIVATIONS[number](value)
