"""Wheels that share one package's extension: the same models as with their own, for every Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from modelwheel.packaging.backend import build_distribution
from modelwheel.packaging.runtime import NEEDED
from modelwheel.packaging.sdist import unpack as unpack_sdist
from modelwheel.versions import NUMPY_REQUIREMENT, RUNTIME_REQUIREMENT, RUNTIME_VERSION
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.commands import Done, Modelwheel, run
from tests.support.tools import search_path
from tests.support.wheels import HOST, SPECS, Built, make_environment, unpack

pytestmark = pytest.mark.slow

MODELS = ("mlp", "kinds")
"""The second has many element types, several inputs and outputs, and names that are no identifiers."""

PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")

_DIGESTS = """
import hashlib, importlib, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    samples = importlib.import_module(f"{name}._reference").load_samples()
    for level in package.Model.levels:
        try:
            model = package.Model(level)
        except ValueError:
            continue
        for sample in samples:
            result = model.predict(sample.inputs)
            arrays = result.values() if isinstance(result, dict) else [result]
            for array in arrays:
                digest = hashlib.sha256(array.tobytes()).hexdigest()
                print(name, level, sample.rows, array.dtype, array.shape, digest)
"""
"""Prints a hash of every output at every level and number of rows."""


@dataclass(frozen=True)
class Shared:
    """What became of the models with `package.bindings: shared`."""

    specs: Path
    out: Path
    results: dict[str, dict[str, Any]]
    """What `modelwheel build --json` says, by the name of the model."""

    def wheel(self, name: str) -> Path:
        return Path(self.results[name]["wheel"])

    @property
    def runtime(self) -> Path:
        (path,) = self.out.glob("modelwheel_runtime-*.whl")
        return path


@pytest.fixture(scope="module")
def shared(
    modelwheel: Modelwheel, built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Shared:
    work = tmp_path_factory.mktemp("shared_bindings")
    (work / "specs").mkdir()
    for name in MODELS:
        text = SPECS[name].replace("directory: ", f"directory: {built.directory}/")
        # That of `mlp` has a section of this name.
        text, found = re.subn("package: {", "package: {bindings: shared, ", text)
        text += "" if found else "package: {bindings: shared}\n"
        (work / "specs" / f"{name}.yaml").write_text(text)
    results = modelwheel.build(work / "specs", "--out", work / "dist")
    by_name = {result["model"].removesuffix("-1.0.0"): result for result in results}
    return Shared(work / "specs", work / "dist", by_name)


@pytest.fixture(scope="module")
def python(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both, where pip found what they need beside them."""
    links = ("--find-links", shared.out)
    wheels = [shared.wheel(name) for name in MODELS]
    directory = tmp_path_factory.mktemp("environment")
    return make_environment(directory, *links, "pytest", *wheels)


def ask(python: Path, script: str, *arguments: str) -> Done:
    return run(python, "-I", "-c", script, *arguments)


# --- what is built --------------------------------------------------------------------------------


def test_only_the_last_steps_differ(shared: Shared) -> None:
    run_steps = [step for name in MODELS for step in shared.results[name]["run"]]
    # Other tests may have built the runtime, which is the same for all models.
    assert sorted({step.partition("/")[2] for step in run_steps} - {"runtime"}) == [
        *("project", "verify", "wheel")
    ]
    assert len(run_steps) <= 3 * len(MODELS) + 1
    for name in MODELS:
        assert shared.results[name]["report"]["passed"]
        assert shared.results[name]["needed"] == [str(shared.runtime)]


def test_names_of_the_files(shared: Shared) -> None:
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert {path.name for path in shared.out.glob("*.whl")} == {
        *(f"model_{name}-1.0.0-py3-none-{PLATFORM}.whl" for name in MODELS),
        f"modelwheel_runtime-{RUNTIME_VERSION}-{tag}-{tag}-{PLATFORM}.whl",
    }


@pytest.mark.parametrize("name", MODELS)
def test_members_of_the_archive(shared: Shared, built: Built, name: str) -> None:
    module = built.module(name)
    with zipfile.ZipFile(shared.wheel(name)) as ours, zipfile.ZipFile(built.wheel(name)) as theirs:
        members, others = set(ours.namelist()), set(theirs.namelist())
        wheel = ours.read(f"{module}-1.0.0.dist-info/WHEEL").decode()
        metadata = ours.read(f"{module}-1.0.0.dist-info/METADATA").decode()
    assert members - others == {f"{module}/_core.py"}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    notice = f"{module}-1.0.0.dist-info/licenses/third_party/pybind11-LICENSE"
    assert others - members == {f"{module}/_core{suffix}", f"{module}/_core.pyi", notice}
    assert "Root-Is-Purelib: false" in wheel
    required = Metadata.from_email(metadata).requires_dist
    assert required == [Requirement(NUMPY_REQUIREMENT), Requirement(RUNTIME_REQUIREMENT)]
    assert open_wheel(shared.wheel(name)).manifest.model.bindings == "shared"


def test_the_runtime_is_the_same_each_time(shared: Shared, tmp_path: Path) -> None:
    elsewhere = Modelwheel(tmp_path / "cache")
    elsewhere("runtime", "--wheel", "--out", tmp_path, umask=0o077, TZ="Asia/Tokyo")
    again = tmp_path / shared.runtime.name
    assert again.read_bytes() == shared.runtime.read_bytes()


def test_verify_finds_what_a_wheel_needs(modelwheel: Modelwheel, shared: Shared) -> None:
    (result,) = modelwheel("verify", "--json", shared.wheel("mlp")).json
    assert result["error"] is None
    assert result["whole_reference"]


# --- what it does ---------------------------------------------------------------------------------


def test_outputs_are_those_of_models_with_their_own_extension(
    built: Built, python: Path, environment: Path
) -> None:
    modules = [built.module(name) for name in MODELS]
    ours = ask(python, _DIGESTS, *modules).out
    assert ours == ask(environment, _DIGESTS, *modules).out
    assert {line.split()[0] for line in ours.splitlines()} == set(modules)


def test_the_tests_that_travel_with_a_model_pass(
    built: Built, python: Path, tmp_path: Path
) -> None:
    """Those of the model with its own extension: that all models have the same is shown elsewhere."""
    shutil.copytree(built.project("mlp") / "tests", tmp_path / "tests")
    options = ("-q", "-p", "no:cacheprovider")
    run(python, "-m", "pytest", *options, tmp_path / "tests", PATH=search_path())


def test_the_tests_that_travel_with_the_runtime_pass(
    modelwheel: Modelwheel, python: Path, tmp_path: Path
) -> None:
    done = modelwheel("runtime", "--out", tmp_path, "--json")
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert done.json == {"files": [str(sdist)]}
    tests = unpack_sdist(sdist, tmp_path) / "tests"
    done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert "skipped" not in done.out


def test_models_of_both_kinds_live_in_one_process(built: Built, python: Path) -> None:
    """Where models share the extension its types are one; a model's own extension has its own."""
    script = (
        "import sys, model_kinds._core, modelwheel_runtime\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import model_mlp, model_mlp._core, model_mlp._selftest, model_kinds._selftest\n"
        "assert model_kinds._core.Evaluator is modelwheel_runtime.Evaluator\n"
        "assert model_mlp._core.Evaluator is not modelwheel_runtime.Evaluator\n"
        "for package in model_mlp, model_kinds:\n"
        "    comparisons, _ = package._selftest.compare_all()\n"
        "    print(len(comparisons) > 5 and all(one.passed for one in comparisons))\n"
    )
    assert ask(python, script, str(built.packages)).out == "True\nTrue\n"


def test_the_command_of_the_package(python: Path) -> None:
    described = run(python, "-I", "-m", "model_mlp").out
    assert described.startswith("mlp 1.0.0")
    assert "libmodel_mlp." in described


# --- source distributions -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(
    modelwheel: Modelwheel, shared: Shared, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What is in the source distribution of a model, for this platform alone."""
    directory = tmp_path_factory.mktemp("sdist")
    spec = shared.specs / "mlp.yaml"
    done = modelwheel("compile", "--json", "--platform", HOST, "--out", directory, spec)
    return unpack_sdist(Path(done.json[0]["sdist"]), directory)


def test_the_same_wheel_is_built_from_it(shared: Shared, project: Path, tmp_path: Path) -> None:
    built = build_distribution("wheel", project, tmp_path)
    assert built.name == shared.wheel("mlp").name
    assert built.read_bytes() == shared.wheel("mlp").read_bytes()


# --- another Python -------------------------------------------------------------------------------


def find_another_python() -> Path | None:
    """The newest CPython on this machine that is not this one, where models can be installed."""
    found: dict[int, Path] = {}
    for minor in range(10, 15):
        name = f"python3.{minor}"
        beside = Path(sys.base_prefix).parent.glob(f"*/bin/{name}")
        on_path = shutil.which(name)
        for path in (*beside, *([Path(on_path)] if on_path else [])):
            if minor != sys.version_info[1] and _is_usable(path):
                found[minor] = path
    return found[max(found)] if found else None


def _is_usable(python: Path) -> bool:
    script = "import sys, venv, ensurepip; sys.exit(sys.implementation.name != 'cpython')"
    return subprocess.run([python, "-c", script], capture_output=True, check=False).returncode == 0


def test_another_python_needs_no_other_wheel_of_the_model(
    shared: Shared, built: Built, environment: Path, project: Path, tmp_path: Path
) -> None:
    """Only it is rebuilt, from what comes with the model's source distribution."""
    other = find_another_python()
    if other is None:
        pytest.skip("there is no second CPython on this machine")
    run(other, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    links = ("--find-links", project / NEEDED, "--no-compile")
    run(*pip, "--python", python, "install", *links, shared.wheel("mlp"))
    version = ask(python, "import sys; print(sys.version_info[1])").out
    assert int(version) != sys.version_info[1]
    module = built.module("mlp")
    assert ask(python, _DIGESTS, module).out == ask(environment, _DIGESTS, module).out


# --- types ----------------------------------------------------------------------------------------


_ALLOWED = r"""
.*\._core\.(BoundCall|Evaluator|Library)
.*\._core\.(BoundCall|Evaluator|Library)\.__init__
.*\.__pybind11_module_local_.*
.*\._model\.Model\.(__call__|bind)
"""
"""What stubs leave out on purpose: pybind11's metaclass and its marks, and that `__init__` does nothing; and `_model.py`,
which is the same for all models, the names of their inputs, which `__init__.pyi` has."""


def test_stubs_agree_with_the_modules(shared: Shared, built: Built, tmp_path: Path) -> None:
    """Those of a model of each kind and of the runtime."""
    for wheel in (shared.wheel("kinds"), shared.runtime, built.wheel("mlp")):
        unpack(wheel, tmp_path)
    path = str(tmp_path)
    modules = ("model_kinds", "modelwheel_runtime", "model_mlp")
    (tmp_path / "allowed").write_text(_ALLOWED)
    command = (sys.executable, "-m", "mypy.stubtest", "--allowlist", tmp_path / "allowed")
    run(*command, *modules, PYTHONPATH=path, MYPYPATH=path)
