"""Whether reading a model takes time linear in its size: `python -m tests.bench.reading [--help]`.

Writes the network of `tests.models.large` in each format at some size and at four times that, and prints a Markdown table
of the seconds that reading, freezing and the float64 graph of the truth take, with the ratio of the two. Linear is 4;
less where parts do not depend on the size. Each size is measured in a process of its own, as a worker's jobs are.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.models.large import WRITERS, Size

_READINGS: dict[str, dict[str, Any]] = {
    "saved_model": {"format": "saved_model"},
    "graph.pb": {"format": "graph_def", "feeds": {"x": "x"}, "fetches": {"y": "y"}},
    "graph.pbtxt": {"format": "graph_def", "feeds": {"x": "x"}, "fetches": {"y": "y"}},
    "model.keras": {"format": "keras"},
    "model.h5": {"format": "keras"},
    "module.mlir": {"format": "stablehlo"},
    "module.mlirbc": {"format": "stablehlo"},
    "function.jax": {"format": "stablehlo"},
    "model.onnx": {"format": "onnx"},
}
_STAGES = ("inspect", "freeze", "float64")
_ROWS = 4


def _sizes(what: str, largest: int) -> tuple[Size, Size]:
    if what == "weights":
        return Size(largest // 4), Size(largest)
    if what == "nodes":
        return Size(0, nodes=largest // 4), Size(0, nodes=largest)
    return Size(0, 400, largest // 4), Size(0, 400, largest)


_LARGEST = {"weights": 40_000_000, "nodes": 10_000, "names": 1_000}
_ABOUT = {
    "weights": "bytes of weights",
    "nodes": "operations",
    "names": "characters in each name of 400 operations",
}


def measure(directory: Path, name: str) -> dict[str, float]:
    """The seconds of each stage for one model, and the most memory that this process has used, in MB."""
    from pydantic import TypeAdapter

    from modelwheel.compiler import formats
    from modelwheel.compiler.freeze.frozen import freeze_graph
    from modelwheel.compiler.reference.truth.double import widen_graph
    from modelwheel.compiler.tensorflow_work import TensorFlowWork
    from modelwheel.model.readings import Reading
    from modelwheel.model.shapes import static_shapes

    TensorFlowWork().prepare()
    given = _READINGS[name]
    if given["format"] != "saved_model":
        given = {**given, "file": name}
    reading: Reading = TypeAdapter(Reading).validate_python(given)
    model = directory / name if given["format"] == "saved_model" else directory
    reader, found = formats.of(reading), dict[str, float]()

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        before = time.process_time()
        result = work()
        found[stage] = time.process_time() - before
        return result

    key = timed("inspect", lambda: reader.inspect(model, reading)).signatures[0].key

    def freeze() -> Any:
        loaded = formats.load(model, reading, key, {})
        shapes = static_shapes(loaded.info, {}, _ROWS)
        frozen = freeze_graph(loaded.graph(shapes), shapes)
        frozen.graph_def.SerializeToString(deterministic=True)
        return frozen

    frozen = timed("freeze", freeze)
    timed("float64", lambda: widen_graph(frozen.graph_def))
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


def _table(what: str, names: list[str], largest: int, work: Path) -> Iterator[str]:
    small, large = _sizes(what, largest)
    yield (
        f"| {largest // 4:,} and {largest:,} {_ABOUT[what]} | "
        + " | ".join(f"{stage} | ratio" for stage in _STAGES)
        + " | most MB |"
    )
    yield "|---" + "|---:" * (2 * len(_STAGES) + 1) + "|"
    for name in names:
        first, second = (_measured(size, name, work) for size in (small, large))
        cells = [
            f"{first[stage]:.2f}, {second[stage]:.2f} s | {second[stage] / first[stage]:.1f}"
            for stage in _STAGES
        ]
        yield f"| `{name}` | {' | '.join(cells)} | {second['memory']:.0f} |"


def _measured(size: Size, name: str, work: Path) -> dict[str, float]:
    with TemporaryDirectory(dir=work) as directory:
        for task in ("write", "measure"):
            given = json.dumps([size.weight_bytes, size.nodes, size.name_length])
            command = [sys.executable, "-m", __spec__.name, task, directory, name, given]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def main() -> None:
    """Prints the tables, or does one task of them."""
    if len(sys.argv) == 5 and sys.argv[1] in ("write", "measure"):
        task, directory, name, given = sys.argv[1:]
        if task == "write":
            WRITERS[name](Size(*json.loads(given)), Path(directory) / name)
        else:
            sys.stdout.write(f"{json.dumps(measure(Path(directory), name))}\n")
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", choices=list(WRITERS), default=list(WRITERS))
    for what, largest in _LARGEST.items():
        about = f"the larger number of {_ABOUT[what]}; 0 for no table"
        parser.add_argument(f"--{what}", type=int, default=largest, help=about)
    options = parser.parse_args()
    with TemporaryDirectory() as work:
        for what in _LARGEST:
            if largest := getattr(options, what):
                for line in _table(what, options.only, largest, Path(work)):
                    sys.stdout.write(f"{line}\n")
                    sys.stdout.flush()
                sys.stdout.write("\n")


if __name__ == "__main__":
    main()
