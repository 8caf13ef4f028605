"""Composites of StableHLO and marks of TensorFlow Lite are replaced by what an installed package registers: docs/examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Modelwheel
from tests.support.laboratory import run_script
from tests.support.wheels import LOWEST

pytestmark = pytest.mark.slow

_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "lingvo_fusions"
_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}{file}}}
targets: [{level}]
compilation: {{{more}}}
package: {{bindings: shared}}
"""


class Environment:
    """An environment with everything that this one has, and the package of the example."""

    def __init__(self, directory: Path, cache: Path) -> None:
        venv.create(directory, symlinks=True)
        paths = {"base": str(directory), "platbase": str(directory)}
        site = Path(sysconfig.get_path("purelib", "posix_prefix", paths))
        (site / "ours.pth").write_text(
            f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        )
        _install(_EXAMPLE, site)
        self._python = directory / "bin" / "python"
        tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._variables = {**os.environ, "MODELWHEEL_CACHE_DIR": str(cache), "PATH": tools}

    def run(self, *arguments: str | Path) -> str:
        """What the command prints."""
        command = [self._python, "-m", "modelwheel", *arguments]
        done = subprocess.run(
            command, env=self._variables, check=False, stdout=subprocess.PIPE, encoding="utf-8"
        )
        return done.stdout


def _install(project: Path, site: Path) -> None:
    """What installing a project of one module writes, without a build backend."""
    text = (project / "pyproject.toml").read_text(encoding="utf-8")
    name, version = (
        re.findall(rf'^{key} = "(.*)"$', text, re.MULTILINE)[0] for key in ("name", "version")
    )
    entries = re.findall(
        r'^"(\S+)" = "(\S+)"$', text.partition("[project.entry-points.")[2], re.MULTILINE
    )
    information = site / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    lines = ["[modelwheel.fusions]", *(f"{key} = {value}" for key, value in entries)]
    (information / "entry_points.txt").write_text("\n".join(lines))
    for module in project.glob("*.py"):
        shutil.copy(module, site)


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The specs of the models, by name."""
    work = tmp_path_factory.mktemp("composites")
    run_script("composites", "tensorflow", work)
    run_script("composites", "jax", work)
    made = {}
    for name, file, more in (
        ("marked", "", "batch_sizes: [2]"),
        ("composite", ", path: model.jax", ""),
        ("wrong", ", path: model.jax", ""),
    ):
        made[name] = work / f"{name}.yaml"
        text = _SPEC.format(name=name, directory=work / name, file=file, level=LOWEST, more=more)
        made[name].write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, modelwheel: Modelwheel) -> Environment:
    """Where the example is installed."""
    return Environment(tmp_path_factory.mktemp("environment"), modelwheel.cache)


@pytest.fixture(scope="module")
def built(specs: dict[str, Path], environment: Environment) -> dict[str, Any]:
    """The outcome of building all specs, by name."""
    out = specs["marked"].parent / "dist"
    said = environment.run("build", "--json", "--out", out, *specs.values())
    return {entry["model"].removesuffix("-1.0.0"): entry for entry in json.loads(said)}


@pytest.mark.parametrize(
    ("name", "fusion", "calls"),
    [("marked", "LSTMCellSimple", 4), ("composite", "lingvo.lstm_cell", 2)],
)
def test_wheels_compute_what_the_model_does(
    built: dict[str, Any], name: str, fusion: str, calls: int
) -> None:
    """The marked model has three steps and a first one of its own; the other one a composite of another version."""
    assert built[name]["errors"] == []
    assert built[name]["report"]["passed"]
    provider = "lingvo-fusions 1.0"
    assert built[name]["replaced"] == [{"name": fusion, "provider": provider, "calls": calls}]


def test_a_composite_with_another_interface_is_refused(built: dict[str, Any]) -> None:
    (error,) = built["wrong"]["errors"]
    assert (
        "the composite 'lingvo.lstm_cell' stands for the fusion 'lingvo.lstm_cell'"
        in error["message"]
    )
    assert (
        "takes x, weight, bias, projection, output, cell; here are 1 argument" in error["message"]
    )


def test_check_says_what_happens_to_each_composite(
    specs: dict[str, Path], environment: Environment, modelwheel: Modelwheel
) -> None:
    said = str(json.loads(environment.run("check", "--json", specs["composite"])))
    assert "2 composites 'lingvo.lstm_cell': replaced by lingvo-fusions 1.0" in said
    nothing = "decomposed, because nothing is registered for it"
    assert f"1 composite 'lingvo.lstm_cell@2': {nothing}" in said
    assert f"1 composite 'acme.unknown': {nothing}" in said
    spec = specs["composite"].read_text(encoding="utf-8")
    left = specs["composite"].with_name("left.yaml")
    left.write_text(spec.replace("compilation: {}", "compilation: {fusions: []}"))
    said = str(json.loads(environment.run("check", "--json", left)))
    assert "2 composites 'lingvo.lstm_cell' could be replaced by lingvo-fusions 1.0" in said
    here = str(modelwheel("check", "--json", specs["composite"]).json)
    assert "2 composites 'lingvo.lstm_cell': decomposed, because nothing is registered" in here
