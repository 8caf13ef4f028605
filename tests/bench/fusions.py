"""What fusions are worth: `python -m tests.bench.fusions [NAME...]`.

Builds the wheel of one layer for each fusion, with and without it, and calls both in turn in one process.
Prints the quickest call of each and their ratio, and how much machine code both have. A pattern whose layer another
fusion replaces too is left out: it becomes the same wheel. Needs TensorFlow and a C++ compiler.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modelwheel.wheelfile.contents import open_contents
from tests.support.laboratory import run_script
from tests.support.wheels import unpack

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}}}
targets: [x86-64-v3]
compilation: {{batch_sizes: [1, 16], fusions: [{fusions}]}}
package: {{bindings: shared}}
verify: {{rows: 16, tolerance: {{rtol: 1.0e-4}}}}
"""
_ROUNDS = 40
_SECONDS = 2e-3
"""Of one round: so long that a clock can tell, so short that a quiet moment of the machine suffices."""


def _build(work: Path, names: list[str]) -> None:
    run_script("fusions", work, "large")
    for name in names or [path.name for path in work.iterdir() if path.is_dir()]:
        for form, fusions in (("before", ""), ("after", name)):
            wheel = f"{name.rpartition('.')[2]}_{form}"
            text = _SPEC.format(name=wheel, directory=work / name, fusions=fusions)
            (work / f"{wheel}.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "modelwheel", "build", "--out", str(work / "dist")]
    command += sorted(map(str, work.glob("*.yaml")))
    environment = {**os.environ, "MODELWHEEL_CACHE_DIR": str(work / "cache")}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    for path in sorted((work / "dist").glob("*.whl")):
        unpack(path, work / "packages")


def _models(work: Path) -> Iterator[tuple[str, list[Callable[..., Any]], list[int]]]:
    """Each fusion with both models, and bytes of their machine code for both numbers of rows."""
    sys.path.append(str(work / "packages"))
    for path in sorted(work.glob("*_after.yaml")):
        name = path.stem.removesuffix("_after")
        wheels = [f"model_{name}_{form}" for form in ("before", "after")]
        files = [next((work / "dist").glob(f"{wheel}-*.whl")) for wheel in wheels]
        sizes = [open_contents(file).manifests[0].sizes.machine_code for file in files]
        yield name, [importlib.import_module(wheel).Model() for wheel in wheels], sizes


def _input(model: Any, rows: int) -> Any:
    (tensor,) = model.inputs
    shape, random = (rows, *tensor.shape[1:]), np.random.default_rng(0)
    if tensor.dtype == np.int32:
        return random.integers(0, 5000, shape, np.int32)
    return random.normal(size=shape).astype(np.float32)


def _quickest(models: list[Callable[..., Any]], given: Any) -> list[float]:
    """Seconds of the quickest call of each."""
    best = [_time(model, given, 1) for model in models]
    for _ in range(_ROUNDS):
        for number, model in enumerate(models):
            calls = max(1, int(_SECONDS / best[number]))
            best[number] = min(best[number], _time(model, given, calls))
    return best


def _time(model: Callable[..., Any], given: Any, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        model(given)
    return (time.perf_counter() - start) / calls


def main(names: list[str]) -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        _build(work, names)
        print("fusion              rows  before (us)  after (us)  ratio  code (KB)")  # noqa: T201
        for name, models, sizes in _models(work):
            code = " -> ".join(f"{size / 1e3:.0f}" for size in sizes)
            for rows in (1, 16):
                before, after = _quickest(models, _input(models[0], rows))
                figures = f"{before * 1e6:11.1f} {after * 1e6:11.1f} {before / after:6.2f}"
                print(f"{name:18} {rows:4}  {figures}  {code}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
