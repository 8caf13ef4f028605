"""Checks the values of inputs: those that a model cannot use would give numbers that mean nothing, without an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._facts import VALID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ._core import Evaluator
    from ._model import TensorSpec


class ValidRange(NamedTuple):
    """Bounds of the values of an input."""

    low: float
    high: float
    """Not reached."""
    columns: tuple[int, int] | None
    """The first position along the last axis that they hold for, and the one after the last; None for all others."""

    def __str__(self) -> str:
        first, end = self.columns or (0, 0)
        place = f"[..., {first}:{end}]" if end > first + 1 else f"[..., {first}]"
        return f"{self.low:.15g} <= x{place if self.columns else ''} < {self.high:.15g}"


def valid_ranges(name: str) -> tuple[ValidRange, ...]:
    """The bounds of an input; none if every value is valid, or they are not known."""
    return tuple(ValidRange(*one) for one in VALID.get(name, ((), ()))[0])


class CheckedEvaluator:
    """An evaluator that checks the values of inputs before each call; everything else is the evaluator's own."""

    def __init__(self, evaluator: Evaluator, specs: Sequence[TensorSpec], model: str) -> None:
        self._evaluator = evaluator
        self._specs = specs
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evaluator, name)

    def call(self, args: tuple[Any, ...]) -> Any:
        """As the evaluator's; what is not an array yet comes again as one."""
        if not all(isinstance(value, np.ndarray) for value in args):
            return NotImplemented
        self._check(args)
        return self._evaluator.call(args)

    def run_into(self, args: tuple[Any, ...], targets: tuple[Any, ...]) -> None:
        """As the evaluator's."""
        self._check(args)
        self._evaluator.run_into(args, targets)

    def bind(self, args: tuple[Any, ...], targets: tuple[Any, ...] | None) -> Callable[[], Any]:
        """As the evaluator's; each call checks the values that the arrays hold then."""
        bound = self._evaluator.bind(args, targets)

        def call() -> Any:
            self._check(args)
            return bound()

        return call

    def _check(self, args: tuple[Any, ...]) -> None:
        """Raises ValueError if an array has a value that is not valid; the evaluator checks types and shapes."""
        for array, spec in zip(args, self._specs):  # noqa: B905 - there may be too few arrays
            if array.dtype == spec.dtype and array.dtype.kind in "iufc":
                self._check_array(array, spec)

    def _check_array(self, array: NDArray[Any], spec: TensorSpec) -> None:
        if array.dtype.kind in "fc":
            self._refuse(array, ~np.isfinite(array), spec, "finite")
        if array.dtype.kind == "c" or not spec.valid or not array.size:
            return
        low, high, columns = spec.valid[0]
        alone = len(spec.valid) == 1 and columns is None
        if alone and low <= float(array.min()) and float(array.max()) < high:
            return  # two passes instead of five
        wrong = np.zeros(array.shape, np.bool_)
        # Those of columns come last, and count there alone.
        for low, high, columns in spec.valid:
            part = ... if columns is None or not array.ndim else (..., slice(*columns))
            wrong[part] = ~((array[part] >= low) & (array[part] < high))
        special = VALID[spec.name][1]
        if special:
            wrong &= ~np.isin(array, special)
        allowed = ", ".join(map(str, spec.valid))
        also = "".join(f" or x = {value:.15g}" for value in special)
        self._refuse(array, wrong, spec, allowed + also)

    def _refuse(
        self, array: NDArray[Any], wrong: NDArray[np.bool_], spec: TensorSpec, allowed: str
    ) -> None:
        if not wrong.any():
            return
        place = tuple(map(int, np.argwhere(wrong)[0]))
        where = f" at {list(place)}" if place else ""
        raise ValueError(
            f"{self._model}: input {spec.name!r} holds {array[place]}{where}; valid values are {allowed}"
        )
