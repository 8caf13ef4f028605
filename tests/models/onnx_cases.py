"""Single nodes of ONNX with random inputs, for `tests.models.onnx_operations`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

from tests.support.onnx_models import Array, random

node = helper.make_node


@dataclass
class Case:
    """One node, its inputs and its constants; names of values begin with the name of the case."""

    name: str
    op: str
    inputs: tuple[Array, ...]
    constants: tuple[Array | None, ...] = ()
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = ""
    types: tuple[Any, ...] = ()
    """Of the outputs, where ONNX infers none."""

    def names(self, kind: str, number: int) -> list[str]:
        return [f"{self.name}/{kind}{n}" for n in range(number)]

    @property
    def feeds(self) -> dict[str, Array]:
        return dict(zip(self.names("in", len(self.inputs)), self.inputs, strict=True))

    @property
    def weights(self) -> dict[str, Array]:
        names = self.names("w", len(self.constants))
        return {n: v for n, v in zip(names, self.constants, strict=True) if v is not None}

    def node(self) -> Any:
        weights = self.names("w", len(self.constants))
        given = [n if v is not None else "" for n, v in zip(weights, self.constants, strict=True)]
        return node(
            self.op,
            [*self.feeds, *given],
            self.names("out", self.outputs),
            name=self.name,
            domain=self.domain,
            **self.attributes,
        )


def case(
    op: str,
    *inputs: Array,
    w: tuple[Array | None, ...] = (),
    n: int = 1,
    to: str = "",
    domain: str = "",
    types: tuple[Any, ...] = (),
    **attributes: Any,
) -> Case:
    """A case; `w` are constants that follow the inputs, `n` is the number of outputs."""
    name = f"{domain}{domain and '.'}{op}{to and ' '}{to}"
    return Case(name, op, inputs, w, n, attributes, domain, types)


X = random(2, 3, 5, 4)
M = random(2, 5, 6, seed=2)
POSITIVE = np.abs(X) + 0.1
UNIT = np.clip(X, -0.95, 0.95)
INTEGERS = np.array([[3, -7, 11], [5, 2, -4]], np.int32)
BITS = np.array([[True, False, True], [False, False, True]])


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def f32(*values: float) -> Array:
    return np.array(values, np.float32)
