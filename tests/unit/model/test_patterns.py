"""Patterns are found in graphs that are given as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from modelwheel.model.fusions.patterns import (
    Capture,
    Constant,
    Either,
    Integers,
    Op,
    Parameter,
    Pattern,
    Same,
    add,
    captures,
    divide,
    match,
    multiply,
    product,
    reduced,
    scaled,
    size,
    subtract,
)

X = Capture("x")
WEIGHTS = Op(("Exp",), (subtract(X, reduced("Max", X, "x")),), name="weights")
SOFTMAX = divide(WEIGHTS, reduced("Sum", Same("weights"), "weights"))


@dataclass(frozen=True)
class Graph:
    """A graph whose operations are tuples: the type, and names of tensors or constants."""

    operations: Mapping[Any, tuple[Any, ...]]
    ranks: Mapping[Any, int]
    kept: bool = True

    def operation(
        self, tensor: Any, attributes: Mapping[str, bool | int | str]
    ) -> tuple[str, Sequence[Any]] | None:
        """See `View`."""
        found = self.operations.get(tensor)
        if found is None or attributes not in ({}, {"keep_dims": self.kept}):
            return None
        return found[0], found[1:]

    def scalar(self, tensor: Any) -> float | None:
        """See `View`."""
        return tensor if isinstance(tensor, float) else None

    def integers(self, tensor: Any) -> tuple[int, ...] | None:
        """See `View`."""
        return tensor if isinstance(tensor, tuple) else None

    def rank(self, tensor: Any) -> int | None:
        """See `View`."""
        return self.ranks.get(tensor)


def _softmax(
    max_axes: tuple[int, ...] = (-1,), sum_axes: tuple[int, ...] = (-1,), of: str = "e"
) -> Any:
    return {
        "m": ("Max", "a", max_axes),
        "d": ("Sub", "a", "m"),
        "e": ("Exp", "d"),
        "s": ("Sum", of, sum_axes),
        "y": ("RealDiv", "e", "s"),
    }  # fmt: skip


@pytest.mark.parametrize("axes", [(-1,), (2,)])
def test_a_written_softmax(axes: tuple[int, ...]) -> None:
    graph = Graph(_softmax(axes, axes), {"a": 3, "e": 3})
    found = match(SOFTMAX, "y", graph)
    assert found is not None
    assert found.tensors == {"x": "a", "weights": "e"}
    assert found.inside == {"m", "d", "e", "s", "y"}
    assert match(SOFTMAX, "e", graph) is None
    assert match(SOFTMAX, "y", Graph(graph.operations, graph.ranks, kept=False)) is None


@pytest.mark.parametrize(
    "operations",
    [_softmax(sum_axes=(1,)), _softmax(max_axes=(0,)), _softmax(max_axes=(1, 2)), _softmax(of="a")],
)
def test_another_axis_or_tensor_is_no_softmax(operations: Any) -> None:
    assert match(SOFTMAX, "y", Graph(operations, {"a": 3, "e": 3})) is None


def test_factors_are_found_in_any_order() -> None:
    pattern = product(X, Constant(0.5), Op(("Tanh",), (X,)))
    for operations in (
        {"t": ("Tanh", "a"), "h": ("Mul", 0.5, "a"), "y": ("Mul", "h", "t")},
        {"t": ("Tanh", "a"), "h": ("Mul", "t", "a"), "y": ("Mul", 0.5, "h")},
        {"t": ("Tanh", "a"), "h": ("Mul", "t", 0.5), "y": ("Mul", "a", "h")},
    ):
        found = match(pattern, "y", Graph(operations, {}))
        assert found is not None
        assert found.inside == {"t", "h", "y"}
    other = {"t": ("Tanh", "b"), "h": ("Mul", 0.5, "a"), "y": ("Mul", "h", "t")}
    assert match(pattern, "y", Graph(other, {})) is None


@pytest.mark.parametrize(
    ("written", "attributes"),
    [(("Mul", "q", 0.25), {"scale": 0.25}), (("RealDiv", "q", 4.0), {"scale": 0.25})],
)
def test_parameters(written: tuple[Any, ...], attributes: dict[str, float]) -> None:
    forms = (
        multiply(X, Parameter("scale")),
        divide(X, Parameter("scale", reciprocal=True)),
    )
    found = match(Either(forms), "y", Graph({"y": written}, {}))
    assert found is not None
    assert found.attributes == attributes


def test_constants_are_as_close_as_their_type_can_be() -> None:
    pattern = scaled(X, 2**0.5)
    for written in (
        ("Mul", "a", 1.41421354),
        ("Mul", 1.4142135623, "a"),
        ("RealDiv", "a", 0.70710678),
    ):
        assert match(pattern, "y", Graph({"y": written}, {})) is not None
    for written in (("Mul", "a", 1.414), ("RealDiv", 0.70710678, "a")):
        assert match(pattern, "y", Graph({"y": written}, {})) is None


def test_ranks_and_lists_of_integers() -> None:
    pattern = Op(("Transpose",), (Capture("x", rank=2), Integers((1, 0))))
    operations = {"y": ("Transpose", "a", (1, 0)), "z": ("Transpose", "a", (0, 1))}
    assert match(pattern, "y", Graph(operations, {"a": 2})) is not None
    assert match(pattern, "z", Graph(operations, {"a": 2})) is None
    assert match(pattern, "y", Graph(operations, {"a": 3})) is None


def test_what_a_pattern_has() -> None:
    forms: tuple[Pattern, ...] = (add(X, Capture("bias")), Constant(1.0))
    assert captures(Either(forms)) == {"x", "bias"}
    assert size(Either(forms)) == 1
    assert size(SOFTMAX) == 5


@pytest.mark.parametrize(("inputs", "hides"), [(("m", "a", -1e9), False), (("m", -1e9, "a"), True)])
def test_a_form_says_what_an_attribute_is(inputs: tuple[Any, ...], hides: bool) -> None:
    mask, fill = Capture("mask"), Parameter("fill")
    kept = Op(("SelectV2",), (mask, Capture("x", 2), fill), means={"hides": False})
    hidden = Op(("SelectV2",), (mask, fill, Capture("x", 2)), means={"hides": True})
    found = match(
        Either((kept, hidden)), "y", Graph({"y": ("SelectV2", *inputs)}, {"a": 2, "m": 1})
    )
    assert found is not None
    assert found.attributes == {"fill": -1e9, "hides": hides}
