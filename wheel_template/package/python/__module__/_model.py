"""A compiled model as a callable: binds names to inputs and converts plain Python values.

The extension `_core` checks arrays and evaluates the model. Nothing here depends on one particular model.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature, cleandoc
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._core import Evaluator, library
from ._facts import LABELS
from ._values import CheckedEvaluator, ValidRange, valid_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray


class TensorSpec(NamedTuple):
    """Name, element type and shape of an input or output."""

    name: str
    """As in the SavedModel's signature."""
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    """Extents; None on the batch axis, and on axes that follow `Model.lengths`."""
    leading_per_row: int
    """Extent of the batch axis for each row, nearly always 1; 0 where the shape is fixed."""
    batch_axis: int | None
    """The axis that grows with the batch, mostly 0; None where the shape is fixed."""
    valid: tuple[ValidRange, ...] = ()
    """Bounds of the values of an input, as far as they are known: others give numbers that mean nothing."""


_INPUTS = tuple(TensorSpec(*fields[:5], valid_ranges(fields[0])) for fields in library.inputs)
_OUTPUTS = tuple(TensorSpec(*fields[:5]) for fields in library.outputs)
_STATES = tuple(TensorSpec(*fields[:5]) for fields in library.states)

_IDENTIFIERS = [fields[-1] for fields in library.inputs]
_POSITIONS = {
    **{identifier: index for index, identifier in enumerate(_IDENTIFIERS)},
    **{spec.name: index for index, spec in enumerate(_INPUTS)},
}
"""Position of each input, by its name and by an identifier for names that are not identifiers."""

_CASTS = {"b": "b", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}
"""For each kind that NumPy reads plain Python values as, the kinds of inputs that they may be given to."""

_ON_HOST = (1, 3, 11)
"""Types of devices in DLPack whose memory the CPU reads: its own, and what CUDA and ROCm pin there."""


class Model:
    """The compiled model. One object may be called from many threads at the same time.

    A model with `states` is different: each call changes the state of its object, so calls of one object at
    the same time are refused, and each stream of data needs an object of its own.

    A pickle or copy has the same state and batch rules and runs at the level that was asked for: where none was,
    each machine chooses its own. The code is not in the pickle, so the same version must be installed where it is loaded.

    Args:
        level: CPU level to run, one of `levels`. The default is the level in the environment variable
            `MODELWHEEL_LEVEL`, or else the highest level that this CPU supports.
        threads: The most threads that share one call; None stands for all CPUs that this process may use (affinity,
            quota of its control group). Each has working memory of its own. Rows are split where that pays, by the
            costs of the batch sizes, so the same call is always split in the same way; batch rules then apply to each
            part. Otherwise threads share the large steps of the model, with the same bits as one thread.
        check_values: Whether each call checks the values of its inputs, and raises ValueError for one that is not finite or not
            in `TensorSpec.valid`. Without that, such a value gives numbers that mean nothing, and costs no time.

    Raises:
        TypeError: `threads` is not an integer.
        ValueError: The level is unknown, or this CPU lacks it. There is less than one thread.
    """

    inputs = _INPUTS
    outputs = _OUTPUTS
    states = _STATES
    """What every call changes and the next one reads; empty for most models."""
    labels = LABELS
    """What the places of an output's last axis stand for, or the values of an integer, by the output's name; empty if
    the author does not say it."""
    batch_sizes = library.batch_sizes
    """Compiled batch sizes, ascending. Other numbers of rows are split into them."""
    lengths = library.lengths
    """Compiled lengths, ascending, if inputs may have several: shorter ones are padded to the next."""
    levels = library.levels
    """CPU levels that the library has code for, lowest first."""
    version = library.version

    def __init__(
        self, level: str | None = None, *, threads: int | None = 1, check_values: bool = False
    ) -> None:
        self._evaluator = _make_evaluator(level, threads, check_values=check_values)
        self._requested_check = check_values
        self._requested_level = level
        self._requested_threads = threads

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_evaluator"}
        return {
            **state,
            "_version": self.version,
            "_settings": self._evaluator.settings,
            "_state": self._evaluator.state(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version, (strategy, rules) = state.pop("_version"), state.pop("_settings")
        values = state.pop("_state", ())
        if version != self.version:
            raise ValueError(
                f"{library.name}: the pickle is of version {version}, but {self.version} is installed"
            )
        self._evaluator = _make_evaluator(
            state["_requested_level"],
            state.setdefault("_requested_threads", 1),
            check_values=state.setdefault("_requested_check", False),
        )
        if strategy is not None:
            self.set_batch_strategy(strategy)
        for rule in rules:
            self.set_batch_rule(rule)
        if values:
            self._evaluator.set_state(values)
        vars(self).update(state)

    def __call__(self, /, *args: ArrayLike, **kwargs: Any) -> Any:
        """Evaluates the model with arrays in the order of `inputs`, or by name.

        C-contiguous arrays are not copied, whether they are NumPy's or of another library with DLPack, on the CPU;
        lists and numbers are converted. `out` is an array that the result is written to, or a dict of arrays by name if
        the model has several outputs; but if an input has this name, it is that input, and `predict` takes `out`.

        Returns:
            A new array; a dict of arrays by name if the model has several outputs; `out` where it is given.

        Raises:
            TypeError: An input is missing, unknown, given twice, or has the wrong element type. An array of `out` is
                missing, or has the wrong element type.
            ValueError: An input has the wrong shape or number of rows, or is on another device. With `check_values`, it has
                a value that is not valid. An array of `out` has
                the wrong shape, is not C-contiguous or writable, or overlaps another array.
        """
        if not kwargs:
            result = self._evaluator.call(args)
            if result is not NotImplemented:
                return result
        out = None if "out" in _POSITIONS else kwargs.pop("out", None)
        if kwargs or len(args) != len(_INPUTS):
            args = _bind(args, kwargs)
        return self._evaluate(args, out)

    def predict(self, inputs: Any, *, out: Any = None) -> Any:
        """Evaluates the model with a dict of arrays by name, whatever characters the names have.

        The array of a model with one input, or a list of the arrays of one with several, is also taken. `out` as in a call.
        """
        if hasattr(inputs, "items") and not hasattr(inputs, "dtype"):
            values = _bind((), inputs)
        elif len(_INPUTS) == 1:
            values = (inputs,)
        elif isinstance(inputs, (list, tuple)) and len(inputs) == len(_INPUTS):
            values = tuple(inputs)
        else:
            raise TypeError(
                f"{library.name}: predict() takes a dict of arrays by input name, or a list of {len(_INPUTS)} "
                f"arrays, got {_kind(inputs)}; pass arrays to the model itself: model({', '.join(_IDENTIFIERS)})"
            )
        return self(*values) if out is None else self._evaluate(values, out)

    def bind(self, /, *args: NDArray[Any], **kwargs: Any) -> Callable[[], Any]:
        """A call with these arrays, for loops that write new values to the same arrays and call again.

        Each call reads the arrays as they are then and writes the results to the same arrays. It allocates nothing, and
        checks only that no array has other memory. Calls at the same time would write to the same arrays: each thread needs a bound call of its own.

        Args:
            *args: C-contiguous NumPy arrays in the order of `inputs`, with their element types.
            **kwargs: Arrays by name, and `out` as in a call; the default is new arrays.

        Returns:
            A function without arguments. It returns the same array in every call, `out` if that was given; a dict of
            arrays by name if the model has several outputs.

        Raises:
            TypeError: As for a call. An input is not a NumPy array.
            ValueError: As for a call. An input is not C-contiguous. Later calls raise it if an array was resized.
        """
        out = None if "out" in _POSITIONS else kwargs.pop("out", None)
        return self._evaluator.bind(_bind(args, kwargs), None if out is None else _targets(out))

    def _evaluate(self, values: tuple[ArrayLike, ...], out: Any) -> Any:
        """Evaluates values in the order of the inputs."""
        arrays = tuple(map(_as_array, values, _INPUTS))
        if out is None:
            return self._evaluator.call(arrays)
        self._evaluator.run_into(arrays, _targets(out))
        return out

    def reset(self) -> None:
        """Puts the state back to what it is in a new object."""
        self._evaluator.reset()

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """A copy of the state: arrays by the names in `states`; empty for a model without state.

        Set it to a dict with an array for every name, such as one that was read before.

        Raises:
            TypeError: A name is missing or unknown, or an array has the wrong element type.
            ValueError: An array has the wrong shape.
        """
        return {spec.name: a for spec, a in zip(_STATES, self._evaluator.state(), strict=True)}

    @state.setter
    def state(self, values: Mapping[str, ArrayLike]) -> None:
        given = _in_order(values, _STATES, "the state")
        kinds = ["state"] * len(_STATES)
        self._evaluator.set_state(tuple(map(_as_array, given, _STATES, kinds)))

    def copy(self) -> Model:
        """Another object with the same level, batch rules and state."""
        other = self.__class__.__new__(self.__class__)
        other.__setstate__(self.__getstate__())
        return other

    @property
    def level(self) -> str:
        """The CPU level in use."""
        return self._evaluator.level

    def batch_rule(self, rows: int) -> str:
        """How a number of rows is split into compiled batch sizes, such as `7:4,2,1`.

        Raises:
            ValueError: The rows cannot be run, or the text would be longer than 16 MiB.
        """
        return self._evaluator.batch_rule(rows)

    def set_batch_rule(self, rule: str) -> None:
        """Sets how one number of rows is split: `5:1,4`, or `5:2,2,2`, which pads the last batch.

        Raises:
            ValueError: The rule is malformed, or uses a batch size that was not compiled.
        """
        self._evaluator.set_batch_rule(rule)

    def set_batch_strategy(self, strategy: str) -> None:
        """Sets how numbers of rows without a rule are split: `cheapest` or `smallest`.

        Raises:
            ValueError: The strategy is neither.
        """
        self._evaluator.set_batch_strategy(strategy)

    def __repr__(self) -> str:
        inputs = ", ".join(map(describe, _INPUTS))
        outputs = ", ".join(map(describe, _OUTPUTS))
        return f"<{library.name} {self.version} ({inputs}) -> ({outputs}) on {self.level}>"


def _make_evaluator(
    level: str | None, threads: int | None, *, check_values: bool
) -> Evaluator | CheckedEvaluator:
    if threads == 1:
        evaluator = Evaluator(library, level)
    else:
        from ._threads import resolve

        evaluator = Evaluator(library, level, resolve(threads))
    return CheckedEvaluator(evaluator, _INPUTS, library.name) if check_values else evaluator


def describe(spec: TensorSpec) -> str:
    """`x: float32 [batch, 8, 8]`"""
    shape = [str(extent) if extent is not None else "length" for extent in spec.shape]
    if spec.batch_axis is not None:
        per_row = spec.leading_per_row
        shape[spec.batch_axis] = "batch" if per_row == 1 else f"batch * {per_row}"
    return f"{spec.name}: {spec.dtype} [{', '.join(shape)}]"


def _list(title: str, specs: tuple[TensorSpec, ...]) -> str:
    """Tensors in their order, as a paragraph of the class's documentation."""
    valid = ["".join(f"; {one}" for one in spec.valid) for spec in specs]
    lines = "".join(f"\n    {n}: {describe(spec)}{valid[n]}" for n, spec in enumerate(specs))
    return f"\n\n{title}:{lines}"


def _signature() -> Signature:
    """How a call is written: the names of this model's inputs, which `help` shows and editors complete."""
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in _IDENTIFIERS]
    if "out" not in _POSITIONS:
        parameters.append(Parameter("out", Parameter.KEYWORD_ONLY, default=None))
    return Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *parameters])


_call: Any = Model.__call__
_call.__signature__ = _signature()
_bound: Any = Model.bind
_bound.__signature__ = _call.__signature__
if Model.__doc__ is not None:  # `python -OO` removes it
    _lists = _list("Inputs, in the order of a call", _INPUTS) + _list("Outputs", _OUTPUTS)
    Model.__doc__ = cleandoc(Model.__doc__) + _lists
    _call.__doc__ = cleandoc(_call.__doc__) + _lists


def _kind(value: Any) -> str:
    """What a value is, as a message names it."""
    count = f" of {len(value)}" if isinstance(value, (list, tuple)) else ""
    return f"{type(value).__name__}{count}"


def _bind(args: tuple[ArrayLike, ...], named: Mapping[str, ArrayLike]) -> tuple[ArrayLike, ...]:
    """Values in the order of the inputs."""
    known = ", ".join(spec.name for spec in _INPUTS)
    if len(args) > len(_INPUTS):
        raise TypeError(
            f"{library.name}() takes {_inputs(len(_INPUTS))} ({known}), got {len(args)}"
        )
    values: dict[int, ArrayLike] = dict(enumerate(args))
    for name, value in named.items():
        if name not in _POSITIONS:
            raise TypeError(f"{library.name}() has no input {name!r}; its inputs are: {known}")
        if _POSITIONS[name] in values:
            raise TypeError(f"{library.name}() got input {name!r} twice")
        values[_POSITIONS[name]] = value
    missing = [repr(spec.name) for index, spec in enumerate(_INPUTS) if index not in values]
    if missing:
        inputs = "input" if len(missing) == 1 else "inputs"
        raise TypeError(f"{library.name}() is missing {inputs} {', '.join(missing)}")
    return tuple(values[index] for index in range(len(_INPUTS)))


def _in_order(values: Any, specs: tuple[TensorSpec, ...], what: str) -> tuple[Any, ...]:
    """The values of a dict, which must have each name once, in the order of `specs`."""
    if not hasattr(values, "items"):
        raise TypeError(
            f"{library.name}: {what} is a dict of arrays by name, got {type(values).__name__}"
        )
    names = [spec.name for spec in specs]
    for problem, wrong in (
        ("lacks", [name for name in names if name not in values]),
        ("has the unknown name", [name for name in values if name not in names]),
    ):
        if wrong:
            raise TypeError(
                f"{library.name}: {what} {problem} {wrong[0]!r}; "
                f"its names are: {', '.join(names) or 'none'}"
            )
    return tuple(values[name] for name in names)


def _targets(out: Any) -> tuple[Any, ...]:
    """The arrays of `out`, in the order of the outputs."""
    return (out,) if len(_OUTPUTS) == 1 else _in_order(out, _OUTPUTS, "out")


def _inputs(count: int) -> str:
    return "1 input" if count == 1 else f"{count} inputs"


def _as_array(value: ArrayLike, spec: TensorSpec, kind: str = "input") -> NDArray[Any]:
    """An array unchanged; plain Python values as an array of the expected element type."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (list, tuple)) and any(
        isinstance(row, np.ma.MaskedArray) for row in value
    ):
        raise TypeError(
            f"{library.name}: {kind} {spec.name!r} has masked arrays, whose masks would be ignored; "
            "pass array.filled(VALUE), or array.data"
        )
    if hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value, spec, kind)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{library.name}: {kind} {spec.name!r}: {error}") from None
    if hasattr(value, "dtype") or hasattr(value, "__array__") or array.dtype == spec.dtype:
        return array
    return _from_python(array, spec, kind)


def _from_dlpack(value: Any, spec: TensorSpec, kind: str) -> NDArray[Any]:
    """The memory of another library's array: https://data-apis.org/array-api/latest/design_topics/data_interchange.html"""
    device = int(value.__dlpack_device__()[0])
    if device not in _ON_HOST:
        raise ValueError(
            f"{library.name}: {kind} {spec.name!r} is on another device, of type {device} in DLPack; "
            "copy it to the CPU"
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        if hasattr(value, "__array__"):  # also knows types that DLPack or this NumPy lacks
            return np.asarray(value)
        raise TypeError(f"{library.name}: {kind} {spec.name!r}: {error}") from None


def _from_python(array: NDArray[Any], spec: TensorSpec, kind: str) -> NDArray[Any]:
    """Converts an array made from Python numbers, which have no element type that could be wrong."""
    if array.size and spec.dtype.kind not in _CASTS.get(array.dtype.kind, ""):
        raise TypeError(
            f"{library.name}: {kind} {spec.name!r}: expected {spec.dtype} values, "
            f"got {type(array.ravel().tolist()[0]).__name__}"
        )
    converted = array.astype(spec.dtype)
    if spec.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise ValueError(
            f"{library.name}: {kind} {spec.name!r}: a value is out of range for {spec.dtype}"
        )
    return converted
