"""What inputs that are not dense cost: `python -m tests.bench.strides [MODEL ...]`.

Builds wheels of the reference set and prints, as a Markdown table, the time of a call with 1,000 rows whose input is dense,
one field of a structure of 1.5 times the size, every second row, or has its columns beside each other; and what a copy
by NumPy before the call takes. Calls are timed in turn; each figure is the shortest, so other work on the machine hardly counts.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelwheel.levels import cpu_level
from modelwheel.store.store import Store
from tests.bench.__main__ import ROOT, SET, build, make_models
from tests.support.wheels import unpack

_ROWS = 1000
_SECONDS = 30
"""Of one model, in turns of all its calls."""
_Array = NDArray[Any]


def _fields(dense: _Array) -> _Array:
    whole = np.zeros((len(dense), dense[0].size * 3 // 2), dense.dtype)
    whole[:, : dense[0].size] = dense.reshape(len(dense), -1)
    return whole[:, : dense[0].size].reshape(dense.shape)


def _every_second(dense: _Array) -> _Array:
    return np.repeat(dense, 2, axis=0)[::2]


def _columns(dense: _Array) -> _Array:
    return np.asfortranarray(dense)


_VIEWS: Mapping[str, Callable[[_Array], _Array]] = {
    "fields of structures": _fields,
    "every second row": _every_second,
    "columns beside each other": _columns,
}


def measure(model: Any) -> list[float]:
    """The shortest microseconds of a call: dense, each of the views, then each with a copy by NumPy before."""
    (spec,) = model.inputs
    dense = np.random.default_rng(1).normal(size=(_ROWS, *spec.shape[1:])).astype(spec.dtype)
    views = [view(dense) for view in _VIEWS.values()]
    calls: list[Callable[[], object]] = [lambda: model(dense)]
    calls += [lambda view=view: model(view) for view in views]  # type: ignore[misc]
    calls += [lambda view=view: model(np.ascontiguousarray(view)) for view in views]  # type: ignore[misc]
    expected = model(dense)
    for call in calls:
        np.testing.assert_array_equal(call(), expected)
    best = [float("inf")] * len(calls)
    end = time.monotonic() + _SECONDS
    for turn in itertools.count():
        if time.monotonic() > end:
            break
        for number in range(len(calls))[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            calls[number]()
            best[number] = min(best[number], time.perf_counter() - start)
    return [seconds * 1e6 for seconds in best]


def main(arguments: Sequence[str]) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", default=["mlp", "conv1d"])
    parser.add_argument("--level", default=cpu_level().name)
    parser.add_argument("--work", type=Path, default=ROOT / ".bench")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    work = options.work.absolute()
    make_models(options.models, work)
    print(f"| model | dense, us | {' | '.join(_VIEWS)} |")  # noqa: T201
    print("|---|---|" + "---|" * len(_VIEWS))  # noqa: T201
    for name, found in build(options.models, options.level, work, Store(work / "cache")).items():
        packages = work / "packages" / options.level / name
        for wheel in (found.wheel, *found.needed):
            unpack(wheel, packages)
        sys.path.insert(0, str(packages))
        dense, *others = measure(importlib.import_module(f"model_{name}").Model())
        views, copied = others[: len(_VIEWS)], others[len(_VIEWS) :]
        cells = [
            f"{view / dense:.2f}; copied before {copy / dense:.2f}"
            for view, copy in zip(views, copied, strict=True)
        ]
        print(f"| {SET[name].title} | {dense:.1f} | {' | '.join(cells)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
