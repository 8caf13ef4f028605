"""`make demo-formats`: one network from each format to a prediction in an environment without any framework."""

from __future__ import annotations

import json
import os
import shutil
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.demo.data import WORK, run, say

HOME = WORK / "formats"
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Format:
    """A file that a framework wrote."""

    file: str
    title: str
    options: str = ""
    """What `source` says beyond the file."""

    @property
    def name(self) -> str:
        """The name of the model."""
        return f"from-{self.file.rpartition('.')[2]}"

    @property
    def module(self) -> str:
        """The name of its package."""
        return f"model_{self.name.replace('-', '_')}"

    def write_spec(self) -> Path:
        """Writes the spec beside the file."""
        path = HOME / f"{self.name}.yaml"
        path.write_text(
            f'model: {{name: {self.name}, version: "1.0.0"}}\n'
            f"source: {{directory: ., path: {self.file}{self.options}}}\n"
            "compilation: {batch_sizes: [1, 4]}\n"
            "package: {bindings: shared}\n",
            encoding="utf-8",
        )
        return path


FORMATS = (
    Format("network.h5", "Keras (.h5)"),
    Format("network.pb", "frozen GraphDef", ", feeds: {x: x}, fetches: {y: y}"),
    Format("network.jax", "JAX (jax.export)"),
    Format("network.onnx", "ONNX"),
)


def main() -> None:
    """Runs every step and prints what came out."""
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    say("exporting one network from each framework")
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    names = [each.file for each in FORMATS]
    export = (sys.executable, "-m", "tests.demo.export_formats")
    run(*export, HOME, *names, env=environment, quiet=True)
    specs = [each.write_spec() for each in FORMATS]
    build = (sys.executable, "-m", "modelwheel", "build", "--out")
    run(*build, HOME / "wheels", *specs)
    python = install()
    predict = Path(__file__).with_name("predict_formats.py")
    modules = [each.module for each in FORMATS]
    said = run(python, "-I", predict, HOME / "rows.npy", *modules, capture=True)
    report(json.loads(said))


def install() -> Path:
    """Installs all wheels into a new environment; returns its interpreter."""
    say("installing them into an empty environment")
    venv.EnvBuilder(clear=True, with_pip=False, symlinks=True).create(HOME / "consumer")
    python = HOME / "consumer" / "bin" / "python"
    wheels = sorted((HOME / "wheels").glob("*.whl"))
    run(sys.executable, "-m", "pip", "--quiet", "--python", python, "install", *wheels)
    return python


def report(predictions: dict[str, object]) -> None:
    """Prints the table; ends with an error if a prediction is wrong."""
    expected = json.loads((HOME / "outputs.json").read_text(encoding="utf-8"))
    table = Table("format", "file", "wheel", "difference to its framework", title="One network")
    worst = 0.0
    for each in FORMATS:
        result, reference = np.array(predictions[each.module]), np.array(expected[each.file])
        difference = float(np.abs(result - reference).max()) if result.size else np.inf
        worst = max(worst, difference)
        (wheel,) = (HOME / "wheels").glob(f"{each.module}-*.whl")
        sizes = [f"{path.stat().st_size / 1000:.0f} kB" for path in (HOME / each.file, wheel)]
        table.add_row(each.title, f"{each.file}, {sizes[0]}", sizes[1], f"{difference:.1e}")
    Console().print(table)
    if not worst <= TOLERANCE:
        sys.exit(f"error: a prediction differs by {worst:.1e} from its framework's")


if __name__ == "__main__":
    main()
