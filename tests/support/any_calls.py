"""Calls models with anything: `python -m tests.support.any_calls SECONDS MODULE...` with installed models.

A call must return what it returns for plain arrays of the same values, or raise one of the exceptions that are
documented, with a message of one line. A process of its own, because a failure may end it.
"""

from __future__ import annotations

import importlib
import random
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

EXPECTED = (TypeError, ValueError, MemoryError)
ROWS = st.integers(0, 9)
EXAMPLES = 100


class Odd(np.ndarray):
    """An array whose methods lie."""

    def copy(self, *_: Any) -> Any:
        return np.zeros(1, np.int8)

    def astype(self, *_: Any, **__: Any) -> Any:
        return None

    def __array_finalize__(self, other: Any) -> None:
        self.note = "new"

    def __len__(self) -> int:
        return 1 << 40


def _at_odd_address(array: Any) -> Any:
    memory = np.empty(array.nbytes + 1, np.uint8)
    view = memory[1 : array.nbytes + 1].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda array: array,
    "fortran": np.asfortranarray,
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
    "reversed": lambda array: array[::-1].copy()[::-1] if array.ndim else array,
    "odd address": _at_odd_address,
    "broadcast": lambda array: (
        np.broadcast_to(array[:1], array.shape) if len(array.shape) else array
    ),
    "read-only": _read_only,
    "swapped": lambda array: array.astype(array.dtype.newbyteorder()),
    "masked": lambda array: np.ma.masked_array(array, np.zeros(array.shape, bool)),
    "subclass": lambda array: array.view(Odd),
    "strided subclass": lambda array: (
        np.repeat(array, 2, axis=0)[::2].view(Odd) if array.ndim else array
    ),
    "list": lambda array: array.tolist(),
    "rows": list,
    "wider": lambda array: array.astype(np.complex128),
    "narrower": lambda array: array.astype(np.int8),
    "objects": lambda array: array.astype(object),
    "fields": lambda array: array.astype([("a", array.dtype)]),
    "flat": np.ravel,
    "one more axis": lambda array: array[None],
    "one row": lambda array: array[0],
    "buffer": lambda array: np.ascontiguousarray(array).data,
    "scalar": lambda array: array.ravel()[0],
    "none": lambda _: None,
}


def values(spec: Any, rows: int) -> st.SearchStrategy[Any]:
    """Arrays that fit an input; without NaN, whose bits do not survive Python's floats."""
    shape = tuple(rows * spec.leading_per_row if e is None else e for e in spec.shape)
    elements = {"allow_nan": False} if spec.dtype.kind in "fc" else {}
    return npst.arrays(spec.dtype, shape, elements=elements)


@st.composite
def inputs(draw: Any, specs: Any) -> tuple[list[Any], list[Any] | None]:
    """What is passed for each input, and plain arrays of the same values if there are such."""
    rows, passed = draw(ROWS), []
    plain: list[Any] | None = []
    for spec in specs:
        array = draw(values(spec, draw(ROWS) if draw(st.integers(0, 15)) == 0 else rows))
        layout = draw(st.sampled_from(sorted(LAYOUTS))) if draw(st.booleans()) else "plain"
        if draw(st.integers(0, 31)) == 0:
            passed.append(draw(anything()))
            plain = None
            continue
        try:
            passed.append(LAYOUTS[layout](array.copy()))
        except (IndexError, ValueError, TypeError, OverflowError):
            passed.append(array)
            layout = "plain"
        if plain is not None:
            repeated = layout == "broadcast" and array.ndim
            plain.append(np.broadcast_to(array[:1], array.shape).copy() if repeated else array)
    return passed, plain


def anything() -> st.SearchStrategy[Any]:
    """What nobody would pass."""
    shapes = npst.array_shapes(min_dims=0, max_dims=6, min_side=0, max_side=4)
    dtypes = npst.scalar_dtypes() | npst.array_dtypes(max_size=3)
    return (
        st.none()
        | st.text()
        | st.binary()
        | st.integers()
        | st.dictionaries(st.text(), st.none())
        | npst.arrays(dtypes, shapes)
    )


def attempt(call: Callable[[], Any]) -> Any:
    """The result, or None for an exception as it should be."""
    try:
        return call()
    except EXPECTED as error:
        message = str(error)
    if not message or "supported:" in message or "\ud800" <= max(message) <= "\udfff":
        raise AssertionError(f"a message that nobody wrote: {message!r}")
    return None


def same(result: Any, expected: Any) -> bool:
    def arrays(value: Any) -> list[Any]:
        return list(value.values()) if isinstance(value, dict) else [value]

    return all(
        one.tobytes() == other.tobytes() and one.shape == other.shape
        for one, other in zip(arrays(result), arrays(expected), strict=True)
    )


def check(package: Any, start: int) -> None:
    """Some examples of each kind of call."""
    model, specs = package.Model(), package.Model.inputs
    checks: list[Callable[[], None]] = []

    def some(strategy: st.SearchStrategy[Any]) -> Callable[[Any], None]:
        def register(function: Any) -> None:
            options = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))  # fmt: skip
            checks.append(seed(start)(options(given(strategy)(function))))

        return register

    @some(inputs(specs))
    def _arrays(drawn: tuple[list[Any], list[Any] | None]) -> None:
        passed, plain = drawn
        result = attempt(lambda: model(*passed))
        if result is not None and plain is not None:
            assert same(result, model(*plain)), [type(array) for array in passed]

    @some(st.lists(anything(), max_size=4))
    def _anything(passed: list[Any]) -> None:
        attempt(lambda: model(*passed))

    @some(st.dictionaries(st.text(), anything(), max_size=4) | anything())
    def _names(passed: Any) -> None:
        attempt(lambda: model.predict(passed))

    @some(st.text() | st.from_regex(r"[0-9]{1,3}(:[0-9](,[0-9])*)?") | anything())
    def _texts(passed: Any) -> None:
        for call in (model.set_batch_rule, model.set_batch_strategy):
            attempt(partial(call, passed))
        if passed is not None:
            attempt(lambda: package.Model(passed))

    @some(st.integers() | st.integers(0, 1000) | anything())
    def _rows(passed: Any) -> None:
        attempt(lambda: model.batch_rule(passed))

    for one in checks:
        one()


def main() -> None:
    seconds, names = float(sys.argv[1]), sys.argv[2:]
    warnings.simplefilter("ignore")
    end, rounds = time.monotonic() + seconds, 0
    while rounds == 0 or time.monotonic() < end:
        start = random.randrange(1 << 32)
        print(f"seed {start}", flush=True)  # noqa: T201
        for name in names:
            check(importlib.import_module(name), start)
        rounds += 1
    print(f"{rounds * len(names) * 5 * EXAMPLES} calls")  # noqa: T201


if __name__ == "__main__":
    main()
