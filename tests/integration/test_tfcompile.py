"""The graphs that tfcompile is tested with, from their Configs to a C++ program that uses all generated classes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from modelwheel.engine.build import BuildOptions, BuildResult, build
from modelwheel.packaging.project import render_project
from modelwheel.request import make_request
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from tests.support.commands import run
from tests.support.toys import Recorder
from tests.support.wheels import HOST, LOWEST

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("programs") / "tfcompile_classes.cpp"
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror")

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}, path: {stem}.pb, config: {stem}.config.pbtxt{more}}}
targets: [{level}]
"""


class _Reporter(Recorder):
    """Remembers nothing else."""

    def findings(self, name: str, findings: object) -> None:
        self.events.append(("findings", f"{name}: {findings}"))


@dataclass(frozen=True)
class Projects:
    """What became of every graph."""

    results: dict[str, BuildResult]
    """By the name of the graph."""
    directory: Path
    """Holds the rendered project of each."""

    def errors(self, graph: str) -> str:
        """Why a graph was refused."""
        return " ".join(str(error) for _, error in self.results[graph].errors)


@pytest.fixture(scope="module")
def projects(graphs: Path, tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """The projects from which wheels would be made: the classes need no more."""
    work = tmp_path_factory.mktemp("tfcompile")
    stems = sorted(
        path.name.removesuffix(".config.pbtxt") for path in graphs.glob("*.config.pbtxt")
    )
    requests = []
    for stem in stems:
        spec = work / f"{stem}.yaml"
        name = f"tf-{stem.replace('_', '-')}"
        has_checkpoint = any(graphs.glob(f"{stem}.ckpt*"))
        more = f", checkpoint: {stem}.ckpt" if has_checkpoint else ""
        spec.write_text(
            _SPEC.format(name=name, directory=graphs, stem=stem, level=LOWEST, more=more),
            encoding="utf-8",
        )
        requests.append(make_request(load_spec(spec)))
    store = Store(work / "store")
    try:
        sandbox = choose_sandbox(Policy.PREFERRED)
        options = BuildOptions(work / "dist", sandbox, "project", work / "steps", 1)
        results = dict(zip(stems, build(requests, store, options, _Reporter()), strict=True))
    finally:
        store.close()
    for stem, result in results.items():
        if not result.errors:
            project = work / "projects" / stem
            shutil.copytree(work / "steps" / result.request.name / "project" / "out", project)
            render_project(project)
    return Projects(results, work / "projects")


def _library(project: Path, module: str, runtime: list[Path], directory: Path) -> Path:
    """The shared library of a model, as its CMake project builds it, but quickly."""
    platform, library = project / "platforms" / HOST, directory / f"lib{module}.so"
    (weights,) = (project / "weights").iterdir()
    names = (f"-DMODELWHEEL_PREFIX={module}", f'-DMODELWHEEL_HEADER="{module}.h"')
    level = LOWEST.replace("-", "_")
    where = [f"-I{project / name}" for name in ("src", "include", ".")]
    command: list[str | Path] = ["c++", "-shared", "-fPIC", "-fvisibility=hidden"]
    command += [*names, *where, "-DMODELWHEEL_BUILDING", f"-DMODELWHEEL_LEVEL={level}"]
    command += [f'-DMODELWHEEL_WEIGHTS_FILE="weights/{weights.name}"']
    command += [project / "src" / "c_api.cpp", *platform.glob("generated/*.cpp")]
    command += ["-x", "c", project / "src" / "weights.c", "-x", "none"]
    run(*command, *runtime, *platform.glob("objects/*.o"), "-o", library)
    return library


def test_a_program_uses_all_classes(projects: Projects, tmp_path: Path) -> None:
    built = {stem: result for stem, result in projects.results.items() if not result.errors}
    first = projects.directory / next(iter(built))
    runtime = []
    # The same in all models: only what has their names is compiled for each.
    for name in ("batching", "cpu_level", "model", "sentence"):
        runtime.append(tmp_path / f"{name}.o")
        source = first / "src" / f"{name}.cpp"
        flags = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-I", first / "include")
        run("c++", *flags, "-c", source, "-o", runtime[-1])
    program: list[str | Path] = ["c++", *STRICT, "-I", PROGRAM.parent, PROGRAM]
    for stem, result in built.items():
        project, module = projects.directory / stem, result.request.spec.module
        program += ["-I", project / "include", _library(project, module, runtime, tmp_path)]
    run(*program, f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "program")
    run(tmp_path / "program")


def test_random_numbers_are_refused(projects: Projects) -> None:
    assert "random numbers" in projects.errors("random_uniform")


@pytest.mark.parametrize(
    "graph", ["variable", "variable_sequential_updates", "variable_uninitialized"]
)
def test_variables_that_are_written_are_refused(projects: Projects, graph: str) -> None:
    assert "keeps state in variables between calls" in projects.errors(graph)
