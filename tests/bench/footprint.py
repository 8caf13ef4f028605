"""What wheels weigh, and what builds take: `python -m tests.bench.footprint [MODEL ...]`.

Prints two Markdown tables. One has sizes and memory of small models with four CPU levels and five batch sizes, in
thousands of bytes. The other has the seconds of three builds on a clock: the MLP with an empty store, the masked LSTM after
it, and one more batch size of the MLP. Needs two idle cores.
"""

from __future__ import annotations

import argparse
import compileall
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from modelwheel.levels import levels_of
from modelwheel.platforms import host_platform
from modelwheel.wheelfile.wheel import open_wheel
from tests.bench.__main__ import ROOT, SET, make_models
from tests.support.commands import Modelwheel
from tests.support.wheels import unpack

MODELS = ("mlp", "conv2d_small", "lstm_masked", "gru", "bilstm", "mhcnuggets")
SIZES = (1, 4, 16, 64, 256)

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {source}
targets: [{levels}]
compilation: {{batch_sizes: [{sizes}]}}
verify: {{tolerance: {{atol: 1.0e-6, rtol: 1.0e-3}}}}
"""

_MEMORY = """\
import json, os, sys
import numpy as np

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

sys.path.insert(0, sys.argv[1])
before = resident()
model = __import__(sys.argv[2]).Model()
imported = resident()
for rows in json.loads(sys.argv[3]):
    given = {}
    for spec in model.inputs:
        shape = [rows if extent in (None, -1) else extent for extent in spec.shape]
        given[spec.name] = np.zeros(shape, spec.dtype)
    model(**given)
    del given
print(json.dumps([imported - before, resident() - before]))
"""
"""Resident bytes beyond NumPy after the import, and after a call for each batch size."""


def write_spec(name: str, work: Path, sizes: Sequence[int]) -> Path:
    """Writes the spec of a model with all levels."""
    levels = [level.name for level in levels_of(host_platform().architecture)]
    path = work / f"{name}.{len(sizes)}.yaml"
    text = _SPEC.format(
        name=name.replace("_", "-"),
        source=SET[name].source(work / name),
        levels=", ".join(levels),
        sizes=", ".join(map(str, sizes)),
    )
    path.write_text(text, encoding="utf-8")
    return path


def weigh(name: str, wheel: Path, packages: Path) -> tuple[int, ...]:
    """Bytes of a wheel's weights, its library, the file, and its memory after the import and after all sizes."""
    shutil.rmtree(packages, ignore_errors=True)
    unpack(wheel, packages)
    module = f"model_{name}"
    library = packages / module / "lib" / f"lib{module}.so"
    compileall.compile_dir(packages, quiet=2)  # as pip does
    command = [sys.executable, "-c", _MEMORY, str(packages), module, json.dumps(SIZES)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    weights = open_wheel(wheel).manifest.sizes.weights
    return (weights, library.stat().st_size, wheel.stat().st_size, *json.loads(done.stdout))


def builds(work: Path) -> Iterator[tuple[str, float]]:
    """What is built, and its seconds on a clock."""
    shutil.rmtree(work / "timed", ignore_errors=True)
    modelwheel = Modelwheel(work / "timed")
    for what, name, sizes in (
        ("MLP, three batch sizes, empty store", "mlp", (1, 16, 64)),
        ("masked LSTM after it", "lstm_masked", (1, 16, 64)),
        ("MLP, one more batch size", "mlp", (1, 16, 64, 256)),
    ):
        spec = write_spec(name, work, sizes)
        start = time.perf_counter()
        modelwheel("build", spec, "--out", work / "timed-dist")
        yield what, time.perf_counter() - start


def main(arguments: Sequence[str]) -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "models", nargs="*", help=f"that are weighed; by default {', '.join(MODELS)}"
    )
    parser.add_argument("--work", type=Path, default=ROOT / ".bench")
    options = parser.parse_args(arguments)
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    names = options.models or [name for name in MODELS if SET[name].is_here]
    make_models(sorted({*names, "mlp", "lstm_masked"}), work)
    print("| build | seconds |\n|---|---|")  # noqa: T201
    for what, seconds in builds(work):
        print(f"| {what} | {seconds:.1f} |", flush=True)  # noqa: T201
    print(  # noqa: T201
        "\n| model | weights | library | wheel | weights x 1.1 + 500 | memory: import | all sizes "
        "| weights x 1.05 + 2000 |\n|---|---|---|---|---|---|---|---|"
    )
    modelwheel = Modelwheel(work / "cache")
    for name in names:
        built = modelwheel.build(write_spec(name, work, SIZES), "--out", work / "footprint")
        weights, library, wheel, imported, used = (
            size / 1e3 for size in weigh(name, Path(built[0]["wheel"]), work / "packages" / name)
        )
        limits = weights * 1.1 + 500, weights * 1.05 + 2000
        figures = (weights, library, wheel, limits[0], imported, used, limits[1])
        cells = " | ".join(f"{figure:.0f}" for figure in figures)
        print(f"| {SET[name].title} | {cells} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
