"""Attributes of StableHLO operations in the text of a module, and lines that hold operations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .mlir_text import TensorType

BROADCAST = "stablehlo.broadcast_in_dim"
TRANSPOSE = "stablehlo.transpose"
RESHAPE = "stablehlo.reshape"
CONVERT = "stablehlo.convert"

_DIMENSIONS = re.compile(r"dims = \[([\d, ]*)\]")


def dimensions(text: str) -> list[int] | None:
    """The axes that a broadcast or transpose names; None if there are none."""
    match = _DIMENSIONS.search(text)
    return None if match is None else numbers(match[1])


def numbers(text: str | None) -> list[int]:
    """A list of integers; empty for None."""
    return [int(number) for number in (text or "").split(",") if number.strip()]


def written(kind: TensorType) -> str:
    """A type as MLIR writes it."""
    return f"tensor<{''.join(f'{extent}x' for extent in kind.shape)}{kind.element}>"


def reshape(name: str, source: TensorType, made: TensorType) -> str:
    """A reshape of a value to a type."""
    return f"{RESHAPE} %{name} : ({written(source)}) -> {written(made)}"


def transpose(name: str, source: TensorType, made: TensorType, order: Sequence[int]) -> str:
    """A transpose: axis `n` of the result is axis `order[n]` of the value."""
    return f"{TRANSPOSE} %{name}, dims = {list(order)} : ({written(source)}) -> {written(made)}"


def broadcast(name: str, source: TensorType, made: TensorType, axes: Sequence[int]) -> str:
    """A broadcast: axis `n` of the value is axis `axes[n]` of the result."""
    return f"{BROADCAST} %{name}, dims = {list(axes)} : ({written(source)}) -> {written(made)}"
