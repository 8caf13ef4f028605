"""The wheels that many tests share: one build of several specs, among them two that must fail."""

from __future__ import annotations

import importlib
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelwheel.assembly.manifest import Manifest
from modelwheel.levels import host_levels
from modelwheel.platforms import host_platform
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.commands import Modelwheel, run

HOST = host_platform().name
LOWEST = host_levels()[0].name

LEVELS = tuple(t.name for t in host_levels() if t.name in {LOWEST, "x86-64-v3"})
"""What one of the wheels is built for; the others have the lowest level alone."""

EVERYWHERE = ("x86-64", "x86-64-v3", "armv8-a")
"""What the same model is compiled for on other platforms."""

_SPEC = """\
model: {{name: {name}, version: "1.0.0", author: A. Author, description: A model of the tests.}}
source: {{directory: {model}}}
targets: [{targets}]
compilation: {{batch_sizes: [1, 4]{compilation}}}
{more}
"""

_CLASS = ", cpp_class: 'nets::options', cpp_header: nets/options.h"

_OPTIONS = """
allow_pruned_inputs: true
batching: {strategy: smallest, rules: ["5:4,1"]}
fast_math: {enable: true, approximate_functions: true}
package: {license: MIT, weights_license: CC-BY-4.0, license_files: [texts/WEIGHTS],
          interfaces: [c, cpp, python, cmssw, pybind11], summary: "Quotes \\" and \\\\ stay", urls: {Paper: "https://example.org/a?b=c"}}
"""


def spec_text(
    model: str,
    *,
    name: str = "",
    compilation: str = "",
    more: str = "",
    levels: tuple[str, ...] = (),
) -> str:
    """The spec of one of the models in `tests/models`, which lies beside it."""
    return _SPEC.format(
        name=name or model.replace("_", "-"),
        model=model,
        targets=", ".join(levels or (LOWEST,)),
        compilation=compilation,
        more=more,
    )


SPECS = {
    "mlp": spec_text("mlp", levels=EVERYWHERE, more="package: {weights_license: CC0-1.0}"),
    "kinds": spec_text("kinds"),
    "batch-mean": spec_text("batch_mean", more="package: {interfaces: [python]}"),
    "options": spec_text("unused_input", name="options", compilation=_CLASS, more=_OPTIONS),
}
WITH_HEADERS = [name for name in SPECS if name != "batch-mean"]
REFUSED = {
    "unused": spec_text("unused_input", name="unused"),
    "text": spec_text("text"),
}


@dataclass(frozen=True)
class Built:
    """What became of all specs."""

    directory: Path
    """Holds the specs, and the models beside them."""
    results: dict[str, dict[str, Any]]
    """What `modelwheel build --json` says, by the name of the model."""
    steps: Path
    """The files of every step by its name."""
    packages: Path
    """All wheels, unpacked beside each other."""

    def spec(self, name: str) -> Path:
        """A spec."""
        return self.directory / f"{name}.yaml"

    def wheel(self, name: str) -> Path:
        """A wheel."""
        return Path(self.results[name]["wheel"])

    def manifest(self, name: str) -> Manifest:
        """What a wheel says of itself."""
        return open_wheel(self.wheel(name)).manifest

    def project(self, name: str) -> Path:
        """The rendered project that a wheel was built from."""
        return self.steps / f"{name}-1.0.0" / "wheel" / "out-project"

    def package(self, name: str) -> Any:
        """The Python package in a wheel, imported here."""
        if str(self.packages) not in sys.path:
            sys.path.append(str(self.packages))
        return importlib.import_module(self.module(name))

    def module(self, name: str) -> str:
        """The name of that package."""
        return f"model_{name.replace('-', '_')}"

    def library(self, name: str) -> Path:
        """The shared library in a wheel."""
        module = self.module(name)
        return self.packages / module / "lib" / f"lib{module}.so"


def build_all(modelwheel: Modelwheel, directory: Path, work: Path) -> Built:
    """Builds every spec in one go, as they lie in `directory`."""
    for name, text in {**SPECS, **REFUSED}.items():
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    (directory / "texts").mkdir()
    (directory / "texts" / "WEIGHTS").write_text("Whoever finds these weights may keep them.\n")
    results = modelwheel.build(
        directory, "--out", work / "dist", "--keep-work-dir", work / "steps", code=5
    )
    for result in results:
        if result["wheel"] is not None:
            unpack(Path(result["wheel"]), work / "packages")
    by_name = {result["model"].removesuffix("-1.0.0"): result for result in results}
    return Built(directory, by_name, work / "steps", work / "packages")


def unpack(wheel: Path, directory: Path) -> Path:
    """Unpacks a wheel as an installer does."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def make_environment(directory: Path, *requirements: str | Path) -> Path:
    """A new environment with nothing but these; gives its interpreter."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(directory)
    python = directory / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "--python", python, "install", "--no-compile", *requirements)
    return python
