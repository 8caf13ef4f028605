"""The kernels that take long to compile and are the same for all models: object files, one for each kernel and CPU level.

They are compiled once for each compiler, whatever the Python, and every wheel of this machine is linked from them. As
with the objects of extensions, a source distribution compiles its own by the same lines of CMake and the same build
backend, and both wheels have the same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ..assembly.assemble import KERNELS
from ..store.keys import action_key
from ..util.unfinished import temporary_directory
from .backend import build_distribution, build_environment
from .template import kernels_template, render, template_digest

KIND = "kernel"
"""Of the actions that compile one."""

_DIRECTORY = "kernels"
"""Where the objects are in the wheel that the build backend makes of them."""


class CompiledKernel(NamedTuple):
    """A kernel for one CPU level."""

    level: str
    """The level's identifier."""
    kernel: str
    """Its source and element type: `gemm_float`."""

    @property
    def name(self) -> str:
        """The stem of its object file; `cmake/kernels.cmake` has the same names."""
        return f"{self.kernel}-{self.level}"


def kernels_list(platform: str) -> str:
    """The list of a platform's kernels, by its place in a project."""
    return f"platforms/{platform}/generated/{KERNELS}"


def read_kernels(project: Path, platform: str) -> list[str]:
    """The kernels that the code for a platform is linked with."""
    return (project / kernels_list(platform)).read_text("utf-8").split()


def kernel_keys(kernels: Iterable[CompiledKernel]) -> dict[CompiledKernel, str]:
    """The keys of some kernels in a store, for the compiler of this machine."""
    return {kernel: action_key(KIND, **inputs) for kernel, inputs in kernel_inputs(kernels).items()}


def kernel_inputs(kernels: Iterable[CompiledKernel]) -> dict[CompiledKernel, dict[str, Any]]:
    """Everything that some kernels depend on, for the compiler of this machine: what their keys are made of."""
    digest, environment = template_digest(kernels_template()), build_environment("shared")
    return {
        kernel: {"kernel": kernel.name, "template": digest, "environment": environment}
        for kernel in kernels
    }


def build_kernels(kernels: Collection[CompiledKernel], out: Path) -> None:
    """Compiles kernels into an existing directory, each into a directory of its name.

    Raises:
        WheelError: The compiler or the build backend failed.
    """
    of_level: dict[str, tuple[str, ...]] = {}
    for level, kernel in sorted(kernels):
        of_level[level] = (*of_level.get(level, ()), kernel)
    for some in sorted(set(of_level.values())):
        _build([level for level in of_level if of_level[level] == some], some, out)


def _build(levels: Collection[str], kernels: Collection[str], out: Path) -> None:
    """Compiles each of some kernels for each of some levels."""
    settings = {
        "cmake.define.MODEL_LEVELS": ";".join(levels),
        "cmake.define.MODEL_KERNELS": ";".join(kernels),
    }
    with temporary_directory("kernels") as directory:
        project, built = directory / "project", directory / "built"
        project.mkdir()
        built.mkdir()
        render(kernels_template(), {}, project)
        wheel = build_distribution("wheel", project, built, settings=settings)
        with zipfile.ZipFile(wheel) as members:
            for member in map(PurePosixPath, members.namelist()):
                if member.parent.name == _DIRECTORY:
                    target = out / member.stem / member.name
                    target.parent.mkdir()
                    target.write_bytes(members.read(str(member)))


def kernels_settings(objects: Path) -> Mapping[str, str]:
    """Settings of the build backend, with which a model's library is linked from these objects."""
    return {"cmake.define.MODELWHEEL_KERNELS": objects.absolute().as_posix()}
