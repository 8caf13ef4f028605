"""A compiled model as a callable: names, plain Python values, and what the call returns.

Arrays are checked and evaluated by the extension `_core`; nothing here knows a particular model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._core import Evaluator, library

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class TensorSpec(NamedTuple):
    """Name, element type and shape of an input or output."""

    name: str
    """As in the SavedModel's signature."""
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    """Extents; None on the first axis where it grows with the batch."""
    leading_per_row: int
    """Extent of the first axis for each row, nearly always 1; 0 where the shape is fixed."""


_INPUTS = tuple(TensorSpec(*fields[:4]) for fields in library.inputs)
_OUTPUTS = tuple(TensorSpec(*fields[:4]) for fields in library.outputs)

_POSITIONS = {
    **{identifier: index for index, (*_, identifier) in enumerate(library.inputs)},
    **{spec.name: index for index, spec in enumerate(_INPUTS)},
}
"""Place of each input by its name, and by the identifier for names that are none."""

_CASTS = {"b": "b", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}
"""Kinds of element types that plain Python values of a kind may become."""


class Model:
    """The compiled model. One object may be called from many threads at the same time.

    Args:
        level: CPU level to run, one of `levels`. By default the environment variable
            `MODELWHEEL_LEVEL` decides, and without it the highest level that this CPU has.

    Raises:
        ValueError: The level is unknown, or this CPU lacks it.
    """

    inputs = _INPUTS
    outputs = _OUTPUTS
    batch_sizes = library.batch_sizes
    """Compiled batch sizes, ascending. Other numbers of rows are composed of them."""
    levels = library.levels
    """CPU levels that the library has code for, lowest first."""
    version = library.version

    def __init__(self, level: str | None = None) -> None:
        self._evaluator = Evaluator(library, level)

    def __call__(self, /, *args: ArrayLike, **kwargs: ArrayLike) -> Any:
        """Evaluates the model.

        Args:
            *args: Arrays in the order of `inputs`. C-contiguous ones are read in place; lists and
                numbers are converted.
            **kwargs: Arrays by name.

        Returns:
            A new array; a dict of arrays by name if the model has several outputs.

        Raises:
            TypeError: An input is missing, unknown or given twice, or holds another element type.
            ValueError: A shape or number of rows does not fit.
        """
        if kwargs or len(args) != len(_INPUTS):
            args = _bind(args, kwargs)
        arrays = self._evaluator.run(tuple(map(_as_array, args, _INPUTS)))
        if len(arrays) == 1:
            return arrays[0]
        return {spec.name: array for spec, array in zip(_OUTPUTS, arrays, strict=True)}

    def predict(self, inputs: Mapping[str, ArrayLike]) -> Any:
        """Like a call with `inputs` by name, whatever characters the names have."""
        return self(*_bind((), inputs))

    @property
    def level(self) -> str:
        """The CPU level in use."""
        return self._evaluator.level

    def batch_rule(self, rows: int) -> str:
        """How a number of rows is composed of compiled batch sizes, such as `7:4,2,1`."""
        return self._evaluator.batch_rule(rows)

    def set_batch_rule(self, rule: str) -> None:
        """Sets the composition of one number of rows: `5:1,4`, or `5:2,2,2` with a padded last one.

        Raises:
            ValueError: The rule is malformed, or uses a batch size that was not compiled.
        """
        self._evaluator.set_batch_rule(rule)

    def set_batch_strategy(self, strategy: str) -> None:
        """Sets how numbers of rows without a rule are composed: `cheapest` or `smallest`.

        Raises:
            ValueError: The strategy is neither.
        """
        self._evaluator.set_batch_strategy(strategy)

    def __repr__(self) -> str:
        inputs = ", ".join(map(describe, _INPUTS))
        outputs = ", ".join(map(describe, _OUTPUTS))
        return f"<{library.name} {self.version} ({inputs}) -> ({outputs}) on {self.level}>"


def describe(spec: TensorSpec) -> str:
    """`x: float32 [batch, 8, 8]`"""
    batch = "batch" if spec.leading_per_row == 1 else f"batch * {spec.leading_per_row}"
    shape = ", ".join(batch if extent is None else str(extent) for extent in spec.shape)
    return f"{spec.name}: {spec.dtype} [{shape}]"


def _bind(args: tuple[ArrayLike, ...], named: Mapping[str, ArrayLike]) -> tuple[ArrayLike, ...]:
    """Values in the order of the inputs."""
    known = ", ".join(spec.name for spec in _INPUTS)
    if len(args) > len(_INPUTS):
        raise TypeError(
            f"{library.name} takes {len(_INPUTS)} input(s) ({known}), but {len(args)} were given"
        )
    values: dict[int, ArrayLike] = dict(enumerate(args))
    for name, value in named.items():
        if name not in _POSITIONS:
            raise TypeError(f"{library.name} has no input {name!r}; its inputs are: {known}")
        if _POSITIONS[name] in values:
            raise TypeError(f"input {name!r} of {library.name} was given twice")
        values[_POSITIONS[name]] = value
    missing = ", ".join(spec.name for index, spec in enumerate(_INPUTS) if index not in values)
    if missing:
        raise TypeError(
            f"{library.name} takes the inputs {known}, but these were not given: {missing}"
        )
    return tuple(values[index] for index in range(len(_INPUTS)))


def _as_array(value: ArrayLike, spec: TensorSpec) -> NDArray[Any]:
    """An array as it is; plain Python values as an array of the expected element type."""
    if isinstance(value, np.ndarray):
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"input {spec.name!r} of {library.name}: {error}") from None
    if hasattr(value, "dtype") or hasattr(value, "__array__") or array.dtype == spec.dtype:
        return array
    return _from_python(array, spec)


def _from_python(array: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    """Converts what NumPy made of Python's numbers, which have no element type of their own."""
    if array.size and spec.dtype.kind not in _CASTS.get(array.dtype.kind, ""):
        raise TypeError(
            f"input {spec.name!r} of {library.name} holds {spec.dtype}, but Python values were "
            f"given that NumPy reads as {array.dtype}"
        )
    converted = array.astype(spec.dtype)
    if spec.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise ValueError(
            f"input {spec.name!r} of {library.name}: a value does not fit into {spec.dtype}"
        )
    return converted
