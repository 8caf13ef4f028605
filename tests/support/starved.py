"""Calls of an installed model, each made again and again while one allocation after the other fails.

Run by an interpreter that has NumPy, the model and the preloaded `allocations.c`, and nothing else of this project:
`starved.py PACKAGE [CASE]...`. Prints one line for each case, and ends with one sentence at the first that is wrong.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import pickle
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_PYTHON = ctypes.PyDLL(None)
_PYTHON.allocations_call.restype = ctypes.py_object
_PYTHON.allocations_call.argtypes = (
    *(ctypes.c_void_p, ctypes.py_object, ctypes.py_object),
    *(ctypes.c_long, ctypes.c_int),
)
_CALL = ctypes.cast(_PYTHON.PyObject_CallObject, ctypes.c_void_p)

ROWS = 3000
"""As many as two threads share."""


class Case(NamedTuple):
    """Something that is done with a model."""

    name: str
    act: Callable[[Any], Any]
    prepare: Callable[[], Any]
    """Makes what `act` takes, with memory enough."""
    check: Callable[[Any, bool], None] | None = None
    """Whether what `act` took is still right, with memory enough; `done` if `act` said that it was done."""


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """What a call returns or raises, so that two can be compared."""
    try:
        return "result", plain(call())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return type(error).__name__, str(error)


def plain(value: Any) -> Any:
    """A result as something that can be compared."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, dict):
        return {name: plain(array) for name, array in value.items()}
    return repr(value)


def fail(case: Case, nth: int, lasting: bool, expected: Any) -> bool:
    """Lets an allocation fail; whether there was one."""
    made = case.prepare()
    found = outcome(lambda: _PYTHON.allocations_call(_CALL, case.act, (made,), nth, int(lasting)))
    happened = bool(_PYTHON.allocations_failed())
    where = f"{case.name}: allocation {nth}{' and all after it' if lasting else ''}"
    if found[0] != "MemoryError" and found != expected:
        sys.exit(f"{where}: got {found!r:.300} in place of a MemoryError")
    if case.check is not None:
        case.check(made, found == expected)
    again = outcome(lambda: case.act(case.prepare()))
    if again != expected:
        sys.exit(f"{where}: the next call gives {again!r:.300}, not {expected!r:.300}")
    return happened


def cases(package: Any) -> list[Case]:
    """What is done."""
    rng = np.random.default_rng(1)

    def rows(count: int) -> list[Any]:
        arrays = []
        for spec in package.Model.inputs:
            shape = [spec.leading_per_row * count if n is None else n for n in spec.shape]
            arrays.append(rng.integers(0, 2, shape).astype(spec.dtype))
        return arrays

    few, many, strange = rows(3), rows(ROWS), rows(3)
    strange[0] = np.zeros((3, 2, 9), strange[0].dtype)
    other_type = [few[0].astype(np.complex128), *few[1:]]
    model, threaded = package.Model(), package.Model(threads=2)
    text = pickle.dumps(model)
    right = outcome(lambda: threaded(*many))

    rule, other = "5:1,1,1,1,1", package.Model()
    outcome(lambda: other.set_batch_rule(rule))  # some models refuse it
    before, after = outcome(lambda: model.batch_rule(5)), outcome(lambda: other.batch_rule(5))

    def same_rule(some: Any, done: bool) -> None:
        found = outcome(lambda: some.batch_rule(5))
        if found not in ((after,) if done else (after, before)):
            sys.exit(f"a rule that could not be set changes the model: {found}, {before}")
        if outcome(lambda: some(*many)) != right:
            sys.exit("a rule that could not be set changes the results")

    def two() -> Any:
        some = package.Model(threads=2)
        outcome(lambda: some(*many))
        return some

    names = [spec.name for spec in package.Model.inputs]
    by_name = dict(zip(names, few, strict=True))
    return [
        Case("construct", lambda _: package.Model(), lambda: None),
        Case("construct for two threads", lambda _: package.Model(threads=2), lambda: None),
        Case("call", lambda some: some(*few), lambda: model),
        Case("call by name", lambda some: some.predict(by_name), lambda: model),
        Case("call with lists", lambda some: some(few[0].tolist(), *few[1:]), lambda: model),
        Case("many rows, one thread", lambda some: some(*many), lambda: model),
        Case("many rows, two threads", lambda some: some(*many), lambda: threaded),
        Case("first of two threads", lambda some: some(*many), lambda: package.Model(threads=2)),
        Case("bind", lambda some: some.bind(*few)(), lambda: model),
        Case("bound, two threads", lambda bound: bound(), lambda: threaded.bind(*many)),
        Case("wrong shape", lambda some: some(*strange), lambda: model),
        Case("wrong type", lambda some: some(*other_type), lambda: model),
        Case("no array", lambda some: some(object(), *few[1:]), lambda: model),
        Case("rule", lambda some: some.set_batch_rule(rule), two, same_rule),
        Case("no rule", lambda some: some.set_batch_rule("5:1,\x073"), lambda: model),
        Case("rule with a surrogate", lambda some: some.set_batch_rule("\udc80"), lambda: model),
        Case("rule of another type", lambda some: some.set_batch_rule(5), lambda: model),
        Case("strategy", lambda some: some.set_batch_strategy("smallest"), lambda: threaded),
        Case("no strategy", lambda some: some.set_batch_strategy("best"), lambda: model),
        Case("read a rule", lambda some: some.batch_rule(70000), lambda: model),
        Case("too many rows", lambda some: some.batch_rule(2**70), lambda: model),
        Case("properties", lambda some: (some.level, repr(some), some.state), lambda: model),
        Case("state", lambda some: some.__setstate__(some.__getstate__()) or some.reset(), two),
        Case("pickle", lambda some: pickle.dumps(some) == text, lambda: model),
        Case("copy", lambda some: some.copy(), lambda: model),
        Case("unknown level", lambda _: package.Model("x86-64-v9"), lambda: None),
    ]


def main() -> None:
    name, *chosen = sys.argv[1:]
    gc.disable()  # a collection would begin anywhere
    _PYTHON.PyEval_SetProfile(_PYTHON.allocations_profile, None)
    for case in cases(importlib.import_module(name)):
        if not chosen or case.name in chosen:
            fail_each(case)
            gc.collect()


def fail_each(case: Case) -> None:
    """Lets each allocation fail in turn, and then each with all that follow."""
    expected = outcome(lambda: case.act(case.prepare()))
    for lasting in (False, True):
        nth = 0
        while fail(case, nth, lasting, expected):
            nth += 1
        sys.stdout.write(f"{case.name}: {nth} allocations{', and all after each' * lasting}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
