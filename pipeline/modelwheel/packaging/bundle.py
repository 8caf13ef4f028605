"""Bundles: a model's static library with headers, sources, a test and build files, without any Python.

They are made from the same project as wheels; `wheel_template/bundle/` takes the place of the Python package.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from ..assembly.manifest import PROGRAMS, Manifest
from ..errors import WheelError
from ..levels import LEVELS
from ..platforms import ARCHITECTURES, PLATFORMS, Platform
from ..signature import Tensor
from ..util.processes.process import ProcessError, run
from .backend import STEERING, explain
from .kernels import read_kernels
from .project import MANIFEST_FILE, load_manifests, project_context, require_files
from .template import SOURCE_DATE_EPOCH, bundle_template, render

if TYPE_CHECKING:
    import numpy as np

    _Array: TypeAlias = np.ndarray[Any, Any]

MAX_REFERENCE_BYTES = 4 << 20
"""Inputs and outputs that a bundle carries: as many evaluations as this holds, but at least one."""

_ALIGNMENT = 64

_TRIPLE_WORDS = {"linux": ("linux",), "macos": ("darwin", "macos"), "windows": ("mingw", "windows")}
"""How compilers call operating systems in target triples (`cc -dumpmachine`)."""

_OF_WHEELS = ("sbom.cdx.json.in",)
"""Names of files of a project that only wheels have."""


_MEMORY_HEADER = PurePosixPath("include/__module___memory.h.in")
"""The place of the header that is written last, because it has sizes of finished libraries."""

_SIZE_NOTE = re.compile(rb"modelwheel (\w+) bytes: (\d{12})")
"""How libraries name their sizes: `SizeNote` in `src/memory.h`."""

_SYSTEM_MACROS = {"linux": "__linux__", "macos": "__APPLE__", "windows": "_WIN32"}
_ARCHITECTURE_MACROS = {"x86_64": ("__x86_64__", "_M_X64"), "aarch64": ("__aarch64__", "_M_ARM64")}


def render_bundle(project: Path, reference: Path, *, static_arena: bool = False) -> None:
    """Turns the files of a model into a bundle without the finished library, in the same directory.

    Args:
        project: A directory with a `manifest.json` for each platform and the files that these list.
        reference: All recorded inputs and outputs; see `modelwheel.model.reference_result`.
        static_arena: Whether the library is by default one that allocates no memory.

    Raises:
        WheelError: A file is missing or does not match the manifest.
    """
    manifests = load_manifests(project)
    for manifest in manifests:
        require_files(manifest, project)
    shutil.rmtree(project / "python")
    for path in project.rglob("*"):
        if path.name in _OF_WHEELS:
            path.unlink()
    for manifest in manifests:
        kept = tuple(file for file in manifest.files if (project / file.path).is_file())
        path = project / "platforms" / manifest.platform / MANIFEST_FILE
        manifest.model_copy(update={"files": kept}).save(path)
    (project / "tests").mkdir()
    cases = list(_write_reference(manifests[0], reference, project / "tests/reference.bin"))
    context = {
        **_context(project, manifests, static_arena=static_arena),
        "cases": cases,
        "reference_bytes": (project / "tests/reference.bin").stat().st_size,
    }
    template = dict(bundle_template(manifests[0].model.interfaces))
    del template[_MEMORY_HEADER]
    # Every bundle is tested, whether its test stays in it or not.
    render(template, {**context, "programs": PROGRAMS}, project)


def remove_programs(project: Path, *, static_arena: bool = False) -> None:
    """Removes the test and the benchmark from a finished bundle, where the spec wants none.

    Args:
        project: What `render_bundle` wrote.
        static_arena: What it was given.
    """
    manifests = load_manifests(project)
    model = manifests[0].model
    if model.programs == PROGRAMS:
        return
    for program in set(PROGRAMS) - set(model.programs):
        (project / "tests" / f"{model.module}_{program}.c").unlink()
    if "test" not in model.programs:
        for name in ("reference.h", "reference.bin"):
            (project / "tests" / name).unlink()
    if not model.programs:
        (project / "tests").rmdir()
        (project / "cmake/programs.cmake").unlink()
    whole = bundle_template(model.interfaces)
    template = {place: whole[place] for place in map(PurePosixPath, _NAME_PROGRAMS)}
    render(template, _context(project, manifests, static_arena=static_arena), project)


_NAME_PROGRAMS = ("BUILD.bazel.in", "CMakeLists.txt.in", "Makefile.in", "README.md.in")
"""Files that say how the programs are built, beside those that are copied."""


def _context(
    project: Path, manifests: Sequence[Manifest], *, static_arena: bool
) -> dict[str, object]:
    return {
        **project_context(manifests),
        "static_arena": static_arena,
        "platforms": [_platform(manifest, project) for manifest in manifests],
        "level_options": [
            (level.identifier, " ".join((f"-march={level.march}", *level.tuning)))
            for level in LEVELS.values()
        ],
        "level_names": [(level.name, level.identifier) for level in LEVELS.values()],
    }


def _platform(manifest: Manifest, project: Path) -> dict[str, object]:
    platform = PLATFORMS[manifest.platform]
    directory = project / "platforms" / platform.name / "objects"
    return {
        "name": platform.name,
        "system": platform.system,
        "architecture": platform.architecture,
        "triples": " | ".join(_triples(platform)),
        "level_identifiers": [LEVELS[level].identifier for level in manifest.levels],
        "weights": manifest.weights,
        "kernels": read_kernels(project, platform.name),
        "objects": sorted(str(p.relative_to(project).as_posix()) for p in directory.glob("*.o")),
    }


def _triples(platform: Platform) -> Iterator[str]:
    """Patterns of the shell for the triples of compilers for a platform."""
    for name in (platform.architecture, *ARCHITECTURES[platform.architecture]):
        for word in _TRIPLE_WORDS[platform.system]:
            yield f"{name}-*{word}*"


# --- what the library is compared with ----------------------------------------------------------------


def _write_reference(manifest: Manifest, reference: Path, path: Path) -> Iterator[dict[str, Any]]:
    """Writes recorded inputs and outputs as C programs read them; yields where those of each case are."""
    import numpy as np

    signature, size = manifest.signature, 0
    with np.load(reference) as arrays, path.open("wb") as file:
        for number, (case, rows, length, call) in enumerate(_cases(manifest)):
            where = "in" if call is None else f"in@{call}"
            inputs = [
                _first(tensor, arrays[f"{where}/{tensor.name}"], rows, length)
                for tensor in signature.inputs
            ]
            expected = [
                expect_output(manifest, arrays, case, tensor) for tensor in signature.outputs
            ]
            outputs = [output.bits for output in expected]
            limits = [output.limits for output in expected if output.limits is not None]
            size += sum(array.nbytes for array in (*inputs, *outputs, *limits))
            if number and size > MAX_REFERENCE_BYTES:
                break
            yield {
                "rows": rows,
                "length": length,
                "first": not call,
                "inputs": [_append(file, array) for array in inputs],
                "outputs": [_append(file, array) for array in outputs],
                "elements": [array.size for array in outputs],
                "allowed": [output.allowed for output in expected],
                "allowed_each": [
                    0 if output.limits is None else _append(file, output.limits)
                    for output in expected
                ],
                "output_bytes": sum(
                    -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in outputs
                ),
            }


class Expected(NamedTuple):
    """The expected values of an output of a library."""

    bits: _Array
    """The truth where it is known, in the model's element type."""
    allowed: float
    """By which an element may differ."""
    limits: _Array | None
    """For each element, in float32, if they differ; infinite for what decides nothing."""


def expect_output(
    manifest: Manifest, arrays: Mapping[str, _Array], case: str, tensor: Tensor
) -> Expected:
    """The expected values of an output; the wheel's `_selftest.py` judges in the same way."""
    import numpy as np

    verification, place = manifest.verification, f"{case}/{tensor.name}"
    values = arrays[f"out/{place}"]
    largest = float(np.abs(values[np.isfinite(values)].astype(np.complex128)).max(initial=0.0))
    tolerance = verification.tolerances[tensor.name]
    allowed = max(
        tolerance.atol + tolerance.rtol * largest,
        verification.truth.least_allowed(tensor.name, tolerance.rtol, largest),
    )
    noise = arrays[f"noise/{place}"] if f"noise/{place}" in arrays else np.zeros(())
    noise = np.broadcast_to(noise, values.shape).astype(np.float64)
    limits = np.maximum(allowed, verification.error_factor * noise)
    if f"exact/{place}" in arrays:
        exact = arrays[f"exact/{place}"]
        if values.dtype.kind in "biu":  # a value on a boundary: both decisions are right
            limits = np.where(exact != 0, np.inf, limits)
        else:
            values = (values + exact).astype(values.dtype)
    bits = own_array(tensor, values)
    limits = np.moveaxis(limits, 0, tensor.batch_axis) if tensor.batch_axis else limits
    if not limits.size or (limits.max() == limits.min() < np.inf):
        return Expected(bits, float(limits.max(initial=allowed)), None)
    return Expected(bits, allowed, np.ascontiguousarray(limits, np.float32))


def _cases(manifest: Manifest) -> Iterator[tuple[str, int, int | None, int | None]]:
    """The recorded evaluations: name, rows, length and number of the call."""
    recorded = manifest.verification
    calls = (None,) if recorded.calls is None else range(recorded.calls)
    cases = [(rows, None, call) for rows in recorded.rows for call in calls]
    shorter = [(rows, n, None) for n in recorded.lengths for rows in recorded.length_rows]
    for name, case in zip(recorded.cases, (*cases, *shorter), strict=True):
        yield (name, *case)


def _first(tensor: Tensor, values: _Array, rows: int, length: int | None) -> _Array:
    """The first rows of an input, cut to a length."""
    shape = tensor.rows_first(tensor.shape_at(rows, length))
    return own_array(tensor, values[tuple(map(slice, shape))])


def own_array(tensor: Tensor, values: _Array) -> _Array:
    """An array of a reference as the model has it: references have rows first, and float32 in place of bfloat16."""
    import numpy as np

    values = np.moveaxis(values, 0, tensor.batch_axis) if tensor.batch_axis else values
    if tensor.dtype == "bfloat16":
        values = (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(values)


def _append(file: BinaryIO, array: _Array) -> int:
    """Writes an array at the next multiple of the alignment; returns the offset."""
    file.write(bytes(-file.tell() % _ALIGNMENT))
    start = file.tell()
    file.write(array.tobytes())
    return start


# --- the finished library -----------------------------------------------------------------------------


def build_library(
    project: Path, platform: str, environment: Mapping[str, str], build: Path
) -> None:
    """Builds the library of a bundle with CMake, and installs it to `lib/PLATFORM` of the bundle.

    Args:
        project: What `render_bundle` wrote.
        platform: One of its platforms.
        environment: Variables that make CMake build for another platform; empty for this machine.
        build: A directory for the build.

    Raises:
        WheelError: The compiler failed; the message ends with its output.
    """
    options = [f"-DCMAKE_INSTALL_LIBDIR=lib/{platform}", f"-DCMAKE_INSTALL_PREFIX={project}"]
    run_cmake(project, build, [*options, "-DMODEL_TESTS=OFF"], environment, install=True)


def build_programs(project: Path, build: Path) -> None:
    """Builds the test and the benchmark where `build_library` built the library for this machine.

    Raises:
        WheelError: The compiler failed; the message ends with its output.
    """
    run_cmake(project, build, ["-DMODEL_TESTS=ON"], {})


def run_cmake(
    project: Path,
    build: Path,
    options: Sequence[str],
    environment: Mapping[str, str],
    *,
    install: bool = False,
) -> None:
    """Configures and builds a project, and installs it on request.

    Args:
        project: A directory with `CMakeLists.txt`.
        build: A directory for the build.
        options: Of CMake.
        environment: Variables that make CMake build for another platform; empty for this machine.
        install: Whether to install what was built.

    Raises:
        WheelError: The compiler failed; the message ends with its output.
    """
    scripts = sysconfig.get_path("scripts")
    variables = {
        **{name: value for name, value in os.environ.items() if not STEERING.fullmatch(name)},
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
        "LC_ALL": "C.UTF-8",
        **environment,
    }
    options = [*options, *shlex.split(variables.pop("CMAKE_ARGS", ""))]
    try:
        run(["cmake", "-G", "Ninja", "-S", project, "-B", build, *options], env=variables)
        run(["cmake", "--build", build], env=variables)
        if install:
            run(["cmake", "--install", build], env=variables)
    except ProcessError as error:
        raise WheelError(
            f"building the library of {project.name} failed: {explain(error)}", code="MW601"
        ) from error


def write_memory_header(project: Path) -> None:
    """Writes the header with the sizes of instances, which the compilers of the libraries have computed.

    Args:
        project: A bundle with a finished library for each of its platforms.

    Raises:
        WheelError: A library does not have its sizes.
    """
    manifests = load_manifests(project)
    memory = [_memory(manifest, project) for manifest in manifests]
    context = {**project_context(manifests), "memory": memory}
    template = bundle_template(manifests[0].model.interfaces)
    render({_MEMORY_HEADER: template[_MEMORY_HEADER]}, context, project)


def _memory(manifest: Manifest, project: Path) -> dict[str, object]:
    platform = PLATFORMS[manifest.platform]
    (library,) = (project / "lib" / platform.name).glob("*.a")
    sizes = {name.decode(): int(size) for name, size in _SIZE_NOTE.findall(library.read_bytes())}
    identifiers = [LEVELS[level].identifier for level in manifest.levels]
    if missing := {"common", *identifiers} - sizes.keys():
        raise WheelError(
            f"{library} does not name the size of {', '.join(sorted(missing))}; build it without "
            "link-time optimisation (CMAKE_ARGS)"
        )
    levels = [(name, sizes["common"] + sizes[name]) for name in identifiers]
    machine = " || ".join(
        f"defined({name})" for name in _ARCHITECTURE_MACROS[platform.architecture]
    )
    return {
        "name": platform.name,
        "condition": f"defined({_SYSTEM_MACROS[platform.system]}) && ({machine})",
        "levels": levels,
        "largest": max(size for _, size in levels),
        "weights": (project / manifest.weights).stat().st_size,
    }
