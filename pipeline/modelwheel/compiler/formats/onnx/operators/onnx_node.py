"""A node of an ONNX graph whose inputs are tensors of a StableHLO module, and the table of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from .....errors import UnsupportedModelError
from .....util.text import one_line
from ....stablehlo.writer import Builder, Value
from ....stablehlo.writer.mlir_types import Array

MICROSOFT, CLASSICAL = "com.microsoft", "ai.onnx.ml"


@dataclass(frozen=True)
class TensorList:
    """A sequence of tensors. Its length is known while a model is converted."""

    values: tuple[Value, ...]
    dtype: np.dtype[Any] | None = None
    """Of its tensors, where it has none."""


@dataclass(frozen=True)
class Absent:
    """An optional that holds nothing."""


Item: TypeAlias = "Value | TensorList | Absent | None"
"""What a name of a graph stands for; None is an output that is not made or an input that is left out."""
Result: TypeAlias = "Item | Sequence[Item]"


class Closure(Protocol):
    """A graph inside a node, with the names that it sees."""

    @property
    def graph(self) -> Any:
        """The graph as ONNX has it."""

    @property
    def outputs(self) -> int:
        """How many outputs the graph has."""

    def write(self, inputs: Sequence[Item]) -> list[Item]:
        """Writes the graph for these inputs; returns its outputs."""

    def write_some(self, values: Mapping[str, Item], outputs: Sequence[str]) -> list[Item]:
        """Writes what some outputs depend on, for inputs by name; returns these outputs."""

    def needed(self, outputs: Sequence[str]) -> set[str]:
        """The names that some outputs depend on."""

    def values(self, inputs: Sequence[Item]) -> list[Value]:
        """The results of `write`, for a graph that returns tensors.

        Raises:
            TypeError: An output is a sequence or an optional.
        """


@dataclass(frozen=True)
class Node:
    """A node with its inputs.

    Functions that write operations read it by `input`, `optional`, `get` and `known`, and refuse by
    `raise node.refuse(...)`. A KeyError, IndexError, TypeError or ValueError says that the node is not as
    ONNX defines it, which the user reads.
    """

    op: str
    builder: Builder
    inputs: tuple[Item, ...]
    outputs: tuple[bool, ...]
    """Which outputs have a name that something may read."""
    attributes: Mapping[str, Any]
    """Numbers, strings as bytes, tensors as messages, graphs as closures, lists of these."""
    where: str
    """Operation and name, for messages."""
    opset: int
    """Version of the domain of the operation."""
    domain: str = ""

    def input(self, number: int) -> Value:
        """An input that must be there.

        Raises:
            IndexError: It is left out, or is not a tensor.
        """
        value = self.optional(number)
        if value is None:
            raise IndexError(f"input {number} is missing")
        return value

    def optional(self, number: int) -> Value | None:
        """An input that may be left out."""
        item = self.inputs[number] if number < len(self.inputs) else None
        if isinstance(item, TensorList | Absent):
            raise TypeError(f"input {number} is not a tensor")
        return item

    def get(self, name: str, default: Any) -> Any:
        """An attribute; strings are `str`."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def closure(self, name: str) -> Closure:
        """A graph of the node."""
        closure: Closure = self.attributes[name]
        return closure

    def known(self, number: int) -> Array | None:
        """The elements of an input, if they are known; None also where it is left out."""
        value = self.optional(number)
        return None if value is None else value.known

    def required(self, number: int, what: str) -> Array:
        """The elements of an input that decides shapes.

        Args:
            number: Of the input.
            what: What it is, such as "the shape".

        Raises:
            UnsupportedModelError: They depend on the model's inputs.
        """
        value = self.input(number)
        if value.known is None:
            raise self.refuse(
                f"takes {what} from values that the inputs decide, which needs shapes that are not fixed",
                "make it a constant (source.constants fixes an input), or end the model before it",
            )
        return value.known

    def integers(self, number: int, name: str, what: str = "") -> list[int] | None:
        """A list of integers that is an attribute or, in later opsets, an input; None if left out."""
        if name in self.attributes:
            values = self.attributes[name]
            return [int(v) for v in (values if isinstance(values, Sequence) else [values])]
        if self.optional(number) is None:
            return None
        return [int(v) for v in self.required(number, what or f"its {name}").reshape(-1)]

    def refuse(self, problem: str, fix: str) -> UnsupportedModelError:
        """An error about this node."""
        return UnsupportedModelError(f"{one_line(self.where)} {problem}; {fix}", code="MW401")


Write: TypeAlias = Callable[[Node], Result]
"""Writes the operations of a node. Returns its only or first output, or a list of outputs."""

OPERATORS: dict[tuple[str, str], Write] = {}
"""By domain and name."""


def operator(*names: str, domain: str = "") -> Callable[[Write], Write]:
    """Registers the function that writes operations of these names."""

    def register(write: Write) -> Write:
        for name in names:
            assert (domain, name) not in OPERATORS, name
            OPERATORS[domain, name] = write
        return write

    return register
