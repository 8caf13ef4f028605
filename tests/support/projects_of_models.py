"""Many models compiled in one go, and their libraries linked without CMake.

What the libraries of all models have in common is compiled once. Compilers get the options of
`wheel_template/model/cmake/library.cmake`; only warnings are left to the tests of wheels.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from modelwheel.engine.build import BuildOptions, BuildResult, build
from modelwheel.levels import cmake_flags
from modelwheel.packaging.kernels import CompiledKernel, read_kernels
from modelwheel.packaging.project import render_project
from modelwheel.platforms import host_platform
from modelwheel.program.program import Program
from modelwheel.program.walk import walk
from modelwheel.release.cross import CROSS_TARGETS
from modelwheel.release.cross.build import build_environment
from modelwheel.request import Request
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from tests.support.commands import run
from tests.support.toys import Recorder

_PROGRAM = "program.json"


class _Reporter(Recorder):
    """Remembers nothing else."""

    def findings(self, name: str, findings: object) -> None:
        self.events.append(("findings", f"{name}: {findings}"))


@dataclass(frozen=True)
class Projects:
    """What became of some models."""

    results: Mapping[str, BuildResult]
    """By the name of the model."""
    directory: Path
    kinds: frozenset[str]
    """Kinds of steps in all programs."""

    @property
    def compiled(self) -> list[str]:
        """The names of the models that were not refused."""
        return [name for name, result in self.results.items() if not result.errors]

    def project(self, name: str) -> Path:
        """The rendered project of a model that was compiled."""
        return self.directory / name

    def errors(self, name: str) -> list[str]:
        """Why a model was refused."""
        return [str(error) for _, error in self.results[name].errors]


def compile_projects(requests: Iterable[Request], cache: Path, work: Path) -> Projects:
    """Compiles models up to the project that a wheel is made from, by one pool of workers.

    Args:
        requests: What to compile; each model has a name of its own.
        cache: The directory of the store.
        work: An existing directory.
    """
    store, kinds = Store(cache), set[str]()
    try:
        options = BuildOptions(work / "dist", choose_sandbox(Policy.PREFERRED), "project")
        built = build(list(requests), store, options, _Reporter())
        results = {result.request.spec.model.name: result for result in built}
        projects = Projects(results, work / "projects", frozenset())
        for name in projects.compiled:
            records = results[name].outcome.records
            project = records[f"{results[name].request.name}/project"]
            store.materialize(project, projects.project(name))
            render_project(projects.project(name))
            kinds |= _find_kinds(records.values(), store)
    finally:
        store.close()
    return replace(projects, kinds=frozenset(kinds))


def _find_kinds(records: Iterable[Record], store: Store) -> set[str]:
    """The kinds of steps in all programs of a build."""
    files = [store.path(one, _PROGRAM) for one in records if _PROGRAM in one.files]
    return {step.op.kind for path in files for step in walk(Program.load(path).steps)}


@dataclass(frozen=True)
class Toolchain:
    """A compiler for the libraries of one platform."""

    platform: str
    """As in `modelwheel.platforms.PLATFORMS`."""
    c: tuple[str, ...] = ("cc",)
    cxx: tuple[str, ...] = ("c++",)
    zig: bool = False

    def level_flags(self, identifier: str) -> list[str]:
        """The options for files of one CPU level."""
        pattern = rf"set\(LEVEL_FLAGS_{identifier} ([^)]*)\)"
        found = re.findall(pattern, cmake_flags())
        return str(found[-1 if self.zig else 0]).split()


def host_toolchain() -> Toolchain:
    """This machine's."""
    return Toolchain(host_platform().name)


def zig_toolchain(tag: str) -> Toolchain:
    """zig's for wheels with a platform tag."""
    target = CROSS_TARGETS[tag]
    zig = build_environment(target)["MODELWHEEL_ZIG"]
    c, cxx = ((zig, name, "-target", target.zig) for name in ("cc", "c++"))
    return Toolchain(target.platform, c, cxx, zig=True)


class Linker:
    """Links libraries of models with one toolchain; several threads may."""

    def __init__(self, toolchain: Toolchain, work: Path) -> None:
        self.toolchain = toolchain
        self._work = work
        self._runtime: list[Path] = []
        self._kernels: dict[CompiledKernel, Path] = {}
        self._guard = threading.Lock()

    def link(self, project: Path, library: Path) -> None:
        """Links the library of a rendered project."""
        with self._guard:
            self._runtime = self._runtime or self._compile_runtime(project)
            kernels = self._compile_kernels(project)
        objects = library.with_suffix(".objects")
        objects.mkdir(parents=True)
        platform = project / "platforms" / self.toolchain.platform
        made = [self._compile(project, project / "src" / "c_api.cpp", objects)]
        made += [self._compile(project, one, objects) for one in platform.glob("generated/*.cpp")]
        (weights,) = (project / "weights").iterdir()
        named = f'-DMODELWHEEL_WEIGHTS_FILE="weights/{weights.name}"'
        made.append(self._compile(project, project / "src" / "weights.c", objects, named))
        exports = objects / "exports.map"
        exports.write_text(f"{{ global: {library.stem[3:]}_*; local: *; }};\n", encoding="utf-8")
        run(
            *self.toolchain.c,
            *("-shared", f"-Wl,--version-script={exports}", "-Wl,--no-undefined"),
            *self._runtime,
            *made,
            *kernels,
            *platform.glob("objects/*.o"),
            *("-lm", "-o", library),
        )
        shutil.rmtree(objects)

    def _compile_runtime(self, project: Path) -> list[Path]:
        """What has the name of no model."""
        self._work.mkdir(parents=True, exist_ok=True)
        sources = sorted((project / "src").glob("*.cpp"))
        names = ("c_api.cpp", "bindings.cpp")
        return [self._compile(project, one, self._work) for one in sources if one.name not in names]

    def _compile_kernels(self, project: Path) -> list[Path]:
        """The kernels of a model, each compiled once."""
        platform = self.toolchain.platform
        generated = project / "platforms" / platform / "generated"
        levels = [path.stem.removeprefix("program_") for path in generated.glob("program_*.cpp")]
        made = []
        for kernel in (
            CompiledKernel(level, name)
            for level in levels
            for name in read_kernels(project, platform)
        ):
            source, _, element = kernel.kernel.rpartition("_")
            if kernel not in self._kernels:
                (path,) = (project / "src" / "kernels").glob(f"*/{source}.cpp")
                option = f"-DMODELWHEEL_ELEMENT={element}"
                out = self._work / kernel.name
                out.mkdir()
                made_here = self._compile(project, path, out, option, level=kernel.level)
                self._kernels[kernel] = made_here
            made.append(self._kernels[kernel])
        return made

    def _compile(
        self, project: Path, source: Path, out: Path, *more: str, level: str | None = None
    ) -> Path:
        module = module_of(project)
        command: list[str | Path] = [*self.toolchain.c, "-std=c99"]
        if source.suffix == ".cpp":
            command = [*self.toolchain.cxx, "-std=c++17", "-fno-exceptions", "-fno-rtti"]
            command += ["-fno-threadsafe-statics"]
        if source.name.startswith("program_"):
            level = source.stem.removeprefix("program_")
        if level:
            flags = self.toolchain.level_flags(level)
            command += ["-O3", "-ffp-contract=fast", "-fno-math-errno", *flags]
        else:
            command += ["-O2"]
        command += ["-DNDEBUG", "-fPIC", "-fvisibility=hidden"]
        command += ["-ffunction-sections", "-fdata-sections"]
        command += ["-DMODELWHEEL_BUILDING", f"-DMODELWHEEL_PREFIX={module}", *more]
        command += [f'-DMODELWHEEL_HEADER="{module}.h"']
        command += [f"-DMODELWHEEL_LEVEL={level}"] if level else []
        command += [f"-I{project / name}" for name in ("src", "include", ".")]
        target = out / f"{source.stem}.o"
        run(*command, "-c", source, "-o", target)
        return target


def module_of(project: Path) -> str:
    """The name of the package in a rendered project."""
    (package,) = (project / "python").iterdir()
    return package.name


def make_packages(projects: Projects, toolchain: Toolchain, work: Path) -> Path:
    """Makes the Python packages of all models that were compiled, without bindings of their own.

    Returns:
        The directory that holds them.
    """
    packages = work / "packages"
    linker = Linker(toolchain, work / "runtime")
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        made = [
            threads.submit(_make_package, projects.project(name), linker, packages)
            for name in projects.compiled
        ]
    for one in made:
        one.result()
    return packages


def _make_package(project: Path, linker: Linker, packages: Path) -> None:
    module = module_of(project)
    package = packages / module
    shutil.copytree(project / "python" / module, package)
    manifest = project / "platforms" / linker.toolchain.platform / "manifest.json"
    shutil.copy(manifest, package / "_manifest.json")
    (package / "lib").mkdir()
    linker.link(project, package / "lib" / f"lib{module}.so")
