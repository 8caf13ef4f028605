"""What two threads gain: `python -m tests.bench.threads [MODEL ...]`.

Builds wheels of the reference set and prints the time of one thread over that of two for the smallest and the largest
number of rows, as a Markdown table: the median of rounds in turn, with the quartiles. Inputs are at multiples of 64
bytes. Needs two idle cores: a thread that shares its core with other work is what gets measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from modelwheel.bench.side import load, time_calls
from modelwheel.bench.statistics import Spread, ratios
from modelwheel.levels import cpu_level
from modelwheel.store.store import Store
from tests.bench.__main__ import ROOT, SET, build, make_models
from tests.support.wheels import unpack

_ROUNDS = 15
_SECONDS = 0.03
"""Of one round of each side."""
_VALUES = 50
"""Inputs of integers are below this: rows of the tables that models look up."""


def measure(packages: Path, module: str, rows: int, scratch: Path) -> Spread:
    """Times calls of one thread and of two in turn, in this process.

    Args:
        packages: Where the model is imported from.
        module: Its name.
        rows: How many rows a call has.
        scratch: An existing directory for the inputs.
    """
    sys.path.insert(0, str(packages))
    model = importlib.import_module(module).Model
    generator, values = np.random.default_rng(1), {}
    for spec in model().inputs:
        shape = [rows if extent in (None, -1) else extent for extent in spec.shape]
        if np.dtype(spec.dtype).kind == "f":
            values[spec.name] = generator.normal(size=shape).astype(spec.dtype)
        else:
            values[spec.name] = generator.integers(0, _VALUES, size=shape).astype(spec.dtype)
    np.savez(scratch / f"{rows}.npz", **values)  # type: ignore[arg-type]
    inputs = load(scratch, rows)
    calls = [model(threads=threads).bind(**inputs) for threads in (1, 2)]
    count = max(1, int(_SECONDS / max(time_calls(calls[0], 1), 1e-7)))
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(_ROUNDS):
        for side in (0, 1) if turn % 2 else (1, 0):
            # So that the threads are awake, and the caches have the model.
            time_calls(calls[side], count // 10 + 1)
            times[side].append(time_calls(calls[side], count))
    return ratios(times[0], times[1])


def cells(names: Sequence[str], level: str, work: Path) -> Iterator[tuple[str, int, Spread]]:
    """Builds the models, then measures each number of rows in a process of its own."""
    make_models(names, work)
    for name, contender in build(names, level, work, Store(work / "cache")).items():
        packages = work / "packages" / level / name
        for wheel in (contender.wheel, *contender.needed):
            unpack(wheel, packages)
        scratch = packages.with_suffix(".inputs")
        scratch.mkdir(exist_ok=True)
        for rows in sorted({min(SET[name].rows), max(SET[name].rows)}):
            child = [sys.executable, "-m", "tests.bench.threads", "--one", str(rows)]
            child += [f"model_{name}", "--packages", str(packages), "--work", str(scratch)]
            done = subprocess.run(child, cwd=ROOT, check=True, capture_output=True, text=True)
            yield name, rows, Spread.model_validate_json(done.stdout)


def main(arguments: Sequence[str]) -> None:
    """Prints the table, or with `--one` the measurement of one cell as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", help="by default all that have a batch")
    parser.add_argument("--level", default=cpu_level().name)
    parser.add_argument("--work", type=Path, default=ROOT / ".bench")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--packages", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one is not None:
        spread = measure(options.packages, options.models[0], options.one, options.work)
        print(json.dumps(spread.model_dump()))  # noqa: T201
        return
    options.work.mkdir(parents=True, exist_ok=True)
    names = options.models or [name for name, one in SET.items() if one.rows and one.is_here]
    print("| model | rows | one thread over two |\n|---|---|---|")  # noqa: T201
    for name, rows, found in cells(names, options.level, options.work.absolute()):
        ratio = f"{found.median:.2f} ({found.low:.2f}-{found.high:.2f})"
        print(f"| {SET[name].title} | {rows} | {ratio} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
