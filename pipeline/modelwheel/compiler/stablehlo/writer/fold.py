"""Which operations on known values are computed while a module is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from .builder import Value
from .mlir_types import Array

_SMALL = 4096
"""Results of up to so many elements are always computed, larger ones if no operand is smaller: constants
that only grow, such as broadcast ones, would take memory in every wheel."""


_COMPUTED = 1 << 18
"""Results of arithmetic of up to so many are computed too, such as filters from a table of places and one of frequencies: XLA would compute them in each call."""


def foldable(operands: Sequence[Value], size: int) -> bool:
    """Whether a result of this size follows from known values and is worth storing."""
    return _is_worth_storing(operands, size, _SMALL)


def computable(operands: Sequence[Value], size: int) -> bool:
    """Whether a result of arithmetic of this size follows from known values and is worth storing."""
    return _is_worth_storing(operands, size, _COMPUTED)


def _is_worth_storing(operands: Sequence[Value], size: int, always: int) -> bool:
    if any(value.known is None for value in operands):
        return False
    return size <= max(always, *(value.size for value in operands))


def errors_ignored() -> AbstractContextManager[Any]:
    """Division by zero and overflow give what they give, as they do in a compiled model."""
    return np.errstate(all="ignore")


def float_wise(compute: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """A function of floats that also takes the narrow types, which NumPy does not know."""

    def apply(array: Array) -> Any:
        if array.dtype.kind == "V":
            return np.asarray(compute(array.astype(np.float32))).astype(array.dtype)
        return compute(array)

    return apply
