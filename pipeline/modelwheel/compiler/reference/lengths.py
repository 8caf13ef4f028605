"""Tests whether a model may be padded: what it computes for inputs of one length must not change when they are padded.

Code is compiled for a few lengths, and other inputs are padded to the next one. That is valid only for a
model that ignores what it is padded with, such as one with a mask. This is tested, not assumed: TensorFlow
evaluates random inputs at lengths around every compiled one, as they are and padded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import UnsupportedModelError
from ...workers.jobs import Padding
from ..loaded.base import Arrays
from .rows import Evaluate, find_difference

_EXACT = 1e-7
"""How far results may be apart in float64, relative to the largest."""


class PaddedError(UnsupportedModelError):
    """Padding changes values."""


Extents = tuple[tuple[int, int], ...]
"""For each axis, its fixed part and its part for each unit of length."""


def tested_lengths(lengths: Sequence[int]) -> dict[int, int]:
    """The lengths to evaluate, each with the compiled length that serves it: the shortest that does, one
    between, and the compiled length itself.

    >>> tested_lengths([4, 16])
    {1: 4, 2: 4, 4: 4, 5: 16, 10: 16, 16: 16}
    """
    by_test = {}
    for below, length in zip([0, *lengths], lengths, strict=False):
        for tested in (below + 1, (below + 1 + length) // 2, length):
            by_test[tested] = length
    return by_test


class Lengths:
    """Evaluates a model at several lengths of its inputs."""

    def __init__(
        self,
        evaluate: Evaluate,
        padded: Mapping[str, Padding],
        leading_per_row: Mapping[str, int],
    ) -> None:
        self._evaluate = evaluate
        self._padded = padded
        self._leading = leading_per_row
        """For every output, whether its first axis grows with the rows."""

    def evaluate(self, inputs: Arrays, length: int) -> Arrays:
        """The outputs for inputs that are cut to a length."""
        try:
            return self._evaluate(self.cut(inputs, length))
        except UnsupportedModelError as error:
            raise UnsupportedModelError(
                f"inputs of length {length} cannot be evaluated ({error}); choose buckets whose lengths, "
                "and all below, are possible, or a fixed length"
            ) from error

    def cut(self, inputs: Arrays, length: int) -> Arrays:
        """The first `length` along all axes with buckets."""
        return {name: self._cut(name, values, length) for name, values in inputs.items()}

    def _cut(self, name: str, values: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
        axes = self._padded[name].axes if name in self._padded else ()
        return values[tuple(slice(length if a in axes else None) for a in range(values.ndim))]

    def pad(self, inputs: Arrays, length: int) -> Arrays:
        """Inputs filled up to a length."""
        return {name: self._pad(name, values, length) for name, values in inputs.items()}

    def _pad(self, name: str, values: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
        if name not in self._padded:
            return values
        padding = self._padded[name]
        shape = [length if axis in padding.axes else n for axis, n in enumerate(values.shape)]
        filled = np.full(shape, padding.value, values.dtype)
        filled[tuple(map(slice, values.shape))] = values
        return filled

    def test(
        self, inputs: Arrays, lengths: Sequence[int], rows: int, *, exactly: bool = False
    ) -> dict[str, Extents]:
        """Tests that padding changes nothing; returns how the axes of the outputs follow the length.

        Args:
            inputs: Of the largest length.
            lengths: The compiled lengths, ascending.
            rows: The number of rows of the inputs.
            exactly: Whether the model is evaluated in float64.

        Raises:
            PaddedError: It changes something.
            UnsupportedModelError: A shape follows the length in another way.
        """
        outputs = {n: self.evaluate(inputs, n) for n in tested_lengths(lengths)}
        extents = {
            name: self._find_extents(
                name, {n: arrays[name].shape for n, arrays in outputs.items()}, rows
            )
            for name in next(iter(outputs.values()))
        }
        for tested, compiled in tested_lengths(lengths).items():
            if tested != compiled:
                longer = self._evaluate(self.pad(self.cut(inputs, tested), compiled))
                kept = self._keep(longer, (tested, compiled), extents, rows)
                _compare(outputs[tested], kept, (tested, compiled), exactly=exactly)
        return extents

    def _find_extents(self, name: str, shapes: Mapping[int, tuple[int, ...]], rows: int) -> Extents:
        (first, extents), *_ = shapes.items()
        last, other = list(shapes.items())[-1]
        rules = []
        for axis in range(len(extents)):
            per_row = rows if self._leading.get(name) and axis == 0 else 1
            per_length = (
                (other[axis] - extents[axis]) // (last - first) // per_row if last > first else 0
            )
            fixed = extents[axis] // per_row - per_length * first
            follows = all(
                len(shape) == len(extents)
                and shape[axis] == (fixed + per_length * length) * per_row
                for length, shape in shapes.items()
            )
            if not follows or fixed < 0 or per_length < 0:
                shown = ", ".join(f"{list(shape)} for length {n}" for n, shape in shapes.items())
                raise UnsupportedModelError(
                    f"axis {axis} of output {name!r} does not follow the length of the inputs in a way "
                    f"in which it could be cut back: it is {shown}; fix the length instead of "
                    "giving buckets"
                )
            rules.append((fixed, per_length))
        return tuple(rules)

    def _keep(
        self, longer: Arrays, lengths: tuple[int, int], extents: Mapping[str, Extents], rows: int
    ) -> Arrays:
        return {
            name: _keep(values, extents[name], lengths, rows if self._leading.get(name) else 0)
            for name, values in longer.items()
        }


def _compare(expected: Arrays, kept: Arrays, lengths: tuple[int, int], *, exactly: bool) -> None:
    tested, compiled = lengths
    for name, values in expected.items():
        tolerance = {"tolerance": _EXACT} if exactly else {}
        difference = find_difference(kept[name], values, values, **tolerance)
        if difference:
            raise PaddedError(
                f"output {name!r} changes when inputs of length {tested} are padded to {compiled}: "
                f"{difference}; the model must ignore what is padded, for example by a mask with the "
                "same buckets and pad: 0, or have a fixed length"
            )


def _keep(
    values: np.ndarray[Any, Any], extents: Extents, lengths: tuple[int, int], rows: int
) -> np.ndarray[Any, Any]:
    """The part of an output of the longer length that belongs to the shorter; `rows` is 0 without a batch."""
    kept, made = ([fixed + per * n for fixed, per in extents] for n in lengths)
    by_row = values.reshape((rows, *made) if rows else made)
    cut = by_row[(slice(None),) * (rows > 0) + tuple(map(slice, kept))]
    return cut.reshape(rows * kept[0], *kept[1:]) if rows else cut
