"""Tests whether the rows of a batch are independent, by evaluating random rows.

Running 7 rows as 4 + 4 with one row of padding is valid only if each row of every output depends on
the same row of the inputs alone. This is tested, not assumed: the result of a row must not change when
other rows are replaced, when rows are permuted, when there are fewer rows, and when it is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import UnsupportedModelError
from ...model.measuring import difference

Arrays = Mapping[str, np.ndarray[Any, Any]]
Evaluate = Callable[[Arrays], Arrays]
"""Raises UnsupportedModelError if TensorFlow refuses the inputs."""

_TOLERANCE = 1e-4
"""Relative to the largest output: TensorFlow's own kernels for other batch sizes differ by 1e-6."""

_TIES = 1000
"""One in this many elements of an integer or boolean output may differ: a value on a boundary that
is rounded the other way at another batch size. Outputs with fewer elements must be equal."""


_EXACT = 1e-7
"""For evaluations in float64: the noise of float32, however large, is far below."""

_EXPLAINED = 4
"""So many times what noise was found to do, it may do again in changes of the same kind."""


class _DependentError(Exception):
    """A row depends on others; the message says what changed."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of the evaluations."""

    leading_per_row: dict[str, int]
    """For every output, the extent of axis 0 for each row; 0 if it is not proportional to the rows."""
    reason: str | None
    """Why rows are not independent, as a sentence; None if they are."""


@dataclass(frozen=True)
class Rows:
    """Random rows: axis 0 of every batched input; the other inputs are the same for all rows."""

    arrays: Arrays
    batched: frozenset[str]

    @property
    def count(self) -> int:
        """The number of rows."""
        return next(len(self.arrays[name]) for name in self.batched)

    def take(self, index: Any) -> Rows:
        """Some of the rows, by slice or indices."""

        def pick(name: str) -> np.ndarray[Any, Any]:
            return np.asarray(self.arrays[name][index])

        return self._map(pick)

    def replace(self, mask: np.ndarray[Any, Any], other: Rows) -> Rows:
        """These rows, except that those in `mask` are taken from `other`."""

        def merge(name: str) -> np.ndarray[Any, Any]:
            merged: np.ndarray[Any, Any] = self.arrays[name].copy()
            merged[mask] = other.arrays[name][mask]
            return merged

        return self._map(merge)

    def _map(self, change: Callable[[str], np.ndarray[Any, Any]]) -> Rows:
        return Rows(
            {n: change(n) if n in self.batched else a for n, a in self.arrays.items()}, self.batched
        )


@dataclass(frozen=True)
class Change:
    """An evaluation of some rows among others than before."""

    rows: Rows
    """All that are evaluated."""
    indices: tuple[int, ...]
    """Which of the rows before are compared."""
    places: tuple[int, ...] | None = None
    """Where these are; all of `rows` by default."""


Explain = Callable[[Rows, Arrays, Change, Arrays], bool]
"""Whether noise makes that outputs of rows change: gets the rows and their outputs, the change and its outputs.

Where a model makes much of the last place of its numbers, rows differ for no other reason than the order of sums.
"""


def check_rows(
    evaluate: Evaluate,
    rows: Rows,
    other: Rows,
    outputs: dict[int, Arrays],
    counts: Iterable[int],
    explain: Explain | None = None,
) -> Verdict:
    """Tests the independence of `rows`.

    Args:
        evaluate: The model.
        rows: At least two rows.
        other: As many other rows.
        outputs: Known outputs of the first rows, by their number; those for `counts` are added.
        counts: Other numbers of rows to evaluate.
        explain: Is asked about each change of values.
    """
    # A verdict needs it even if an evaluation below fails.
    leading = _leading_per_row(outputs)
    try:
        for count in counts:
            if count not in outputs:
                part = rows.take(slice(count))
                outputs[count] = _evaluate(evaluate, part, f"{count} rows")
        whole = _evaluate(evaluate, rows, f"{rows.count} rows")
        # Each row alone costs an evaluation: three of them.
        picked = {0, rows.count // 2, rows.count - 1}
        alone = {i: _evaluate(evaluate, rows.take([i]), "1 row") for i in sorted(picked)}
        known = {**outputs, rows.count: whole, 1: alone[0]}
        leading = _leading_per_row(known)
        _refuse_constant_extents(leading, known)
        test = _Test(rows, whole, leading, explain)
        for number, results in outputs.items():
            change = Change(rows.take(slice(number)), tuple(range(number)))
            test.compare(results, change, f"in a batch of {number} instead of {rows.count}")
        test = test.ask_again()
        for index, results in alone.items():
            test.compare(results, Change(rows.take([index]), (index,)), "when it is alone")
        test = test.ask_again()
        _replace_neighbours(evaluate, rows, other, test, "when other rows are replaced")
        # A fixed seed: the same model gets the same verdict every time.
        order = np.random.Generator(np.random.PCG64(rows.count)).permutation(rows.count)
        permuted = Change(rows.take(order), tuple(order.tolist()))
        results = _evaluate(evaluate, permuted.rows, f"{rows.count} rows")
        test.ask_again().compare(results, permuted, "when rows are permuted")
    except _DependentError as error:
        return Verdict(leading, str(error))
    return Verdict(leading, None)


def is_the_same(
    rows: Rows, whole: Arrays, change: Change, changed: Arrays, noise: Arrays | None = None
) -> bool:
    """Whether rows are the same after a change.

    Args:
        rows: The rows.
        whole: Their outputs, in float64 if there is no `noise`.
        change: What is changed.
        changed: The outputs then.
        noise: How far each element of `whole` may be from what it is among other rows.
    """
    leading = _leading_per_row({rows.count: whole, change.rows.count: changed})
    tolerance = _EXACT if noise is None else _TOLERANCE
    test = _Test(rows, whole, leading, tolerance=tolerance, noise=noise or {})
    return test.difference(changed, change) is None


def find_influence(
    evaluate: Evaluate,
    rows: Rows,
    extreme: Rows,
    leading: Mapping[str, int],
    explain: Explain | None = None,
) -> str | None:
    """How extreme rows change those beside them, as a sentence; None if they do not.

    Args:
        evaluate: The model, of which `check_rows` says that rows are independent.
        rows: Ordinary rows.
        extreme: As many others.
        leading: For every output, the extent of axis 0 for each row.
        explain: Is asked about each change of values.
    """
    try:
        test = _Test(rows, _evaluate(evaluate, rows, f"{rows.count} rows"), leading, explain)
        _replace_neighbours(evaluate, rows, extreme, test, "when other rows are extreme")
    except _DependentError as error:
        return str(error)
    return None


def _replace_neighbours(
    evaluate: Evaluate, rows: Rows, other: Rows, test: _Test, circumstance: str
) -> None:
    """Keeps each row once while its neighbours are replaced."""
    for parity in (0, 1):
        kept = np.arange(rows.count) % 2 == parity
        indices = tuple(np.flatnonzero(kept).tolist())
        change = Change(rows.replace(~kept, other), indices, indices)
        results = _evaluate(evaluate, change.rows, f"{rows.count} rows")
        test.compare(results, change, circumstance)


def _evaluate(evaluate: Evaluate, rows: Rows, what: str) -> Arrays:
    try:
        return evaluate(rows.arrays)
    except UnsupportedModelError as error:
        raise _DependentError(f"with {what}, {error}") from error


def _leading_per_row(outputs: Mapping[int, Arrays]) -> dict[str, int]:
    """Extents of axis 0 for each row; 0 if they are not proportional to the number of rows."""
    per_row = {}
    for name in next(iter(outputs.values())):
        extents = {n: np.shape(arrays[name])[:1] for n, arrays in outputs.items()}
        ratios = {divmod(extent[0], n) if extent else (0, 0) for n, extent in extents.items()}
        ratio, rest = ratios.pop()
        per_row[name] = ratio if not ratios and rest == 0 else 0
    return per_row


def _refuse_constant_extents(leading: Mapping[str, int], outputs: Mapping[int, Arrays]) -> None:
    for name, ratio in leading.items():
        if not ratio:
            shapes = ", ".join(
                f"{list(np.shape(outputs[n][name]))} for {n} row{'s'[: n > 1]}"
                for n in (min(outputs), max(outputs))
            )
            raise _DependentError(f"output {name!r} does not grow with the batch: it is {shapes}")


@dataclass(frozen=True)
class _Test:
    """Compares rows of outputs with the same rows of an evaluation of all rows."""

    rows: Rows
    whole: Arrays
    leading: Mapping[str, int]
    explain: Explain | None = None
    tolerance: float = _TOLERANCE
    noise: Arrays = field(default_factory=dict)
    """See `is_within`."""
    explained: dict[str, float] = field(default_factory=dict)
    """The largest differences that noise made, by output."""

    def ask_again(self) -> _Test:
        """Asks again for changes of another kind, about which noise so far says nothing."""
        return replace(self, explained={})

    def compare(self, outputs: Arrays, change: Change, circumstance: str) -> None:
        """Raises if rows of `outputs` differ from those before the change."""
        finding = self.difference(outputs, change)
        if finding is None:
            return
        name, reason, is_of_values = finding
        if is_of_values and self.explain and self.explain(self.rows, self.whole, change, outputs):
            self._remember(outputs, change)
            return
        raise _DependentError(f"a row of output {name!r} changes {circumstance}: {reason}")

    def difference(self, outputs: Arrays, change: Change) -> tuple[str, str, bool] | None:
        """An output that differs, how, and whether only its values do; None if all are the same."""
        noise = self._select(self.noise, change.indices)
        for name, expected, values in self._pairs(outputs, change):
            actual, same_shape = values, values.shape == expected.shape
            if same_shape and (name in noise or name in self.explained):
                allowed = noise.get(name, _EXPLAINED * self.explained.get(name, 0.0))
                actual = np.where(difference(values, expected) <= allowed, expected, values)
            if reason := find_difference(actual, expected, self.whole[name], self.tolerance):
                return name, reason, same_shape
        return None

    def _remember(self, outputs: Arrays, change: Change) -> None:
        for name, expected, actual in self._pairs(outputs, change):
            far = float(difference(actual, expected).max(initial=0.0))
            if expected.dtype.kind not in "biu" and np.isfinite(far):
                self.explained[name] = max(self.explained.get(name, 0.0), far)

    def _pairs(self, outputs: Arrays, change: Change) -> Iterator[tuple[str, Any, Any]]:
        """Each output: its name, its rows before the change, and after it."""
        if change.places is not None:
            outputs = self._select(outputs, change.places)
        for name, expected in self._select(self.whole, change.indices).items():
            yield name, expected, outputs[name]

    def _select(self, outputs: Arrays, indices: Iterable[int]) -> Arrays:
        """The outputs that belong to some rows."""
        chosen = list(indices)
        selected = {}
        for name, values in outputs.items():
            ratio, trailing = self.leading[name], values.shape[1:]
            by_row = values.reshape(len(values) // ratio, ratio, *trailing)
            selected[name] = by_row[chosen].reshape(len(chosen) * ratio, *trailing)
        return selected


def find_difference(
    actual: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    scale: np.ndarray[Any, Any],
    tolerance: float = _TOLERANCE,
) -> str | None:
    """How two arrays differ by more than the order of summation explains; None if they do not.

    Args:
        actual: One array.
        expected: The other.
        scale: The largest of these values is the scale of the tolerance.
        tolerance: Relative to that.
    """
    if actual.shape != expected.shape:
        return f"its shape is {list(actual.shape)} instead of {list(expected.shape)}"
    if actual.dtype.kind in "biu":
        different = int(np.count_nonzero(actual != expected))
        if different > actual.size // _TIES:
            return f"{different} of {actual.size} elements"
        return None
    # For 16-bit floats, four units in the last place are more than the general tolerance.
    precision = ml_dtypes.finfo(actual.dtype)  # type: ignore[no-untyped-call]
    relative = max(tolerance, 4 * float(precision.eps))
    # In their own type, differences of 16-bit floats could be rounded or infinite.
    actual, expected, scale = (_widen(array) for array in (actual, expected, scale))
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return "in which elements are infinite or not a number"
    worst = float(np.max(np.abs(actual[finite] - expected[finite]), initial=0.0))
    largest = float(np.max(np.abs(scale[np.isfinite(scale)]), initial=0.0))
    # Not `>`: if only `actual` has a NaN, `worst` is NaN, which compares false.
    if not worst <= relative * largest:
        return f"by {worst:.3g}, where the largest value is {largest:.3g}"
    return None


def _widen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
