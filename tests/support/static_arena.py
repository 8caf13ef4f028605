"""Bundles with a static arena: their test with every function that allocates or frees memory replaced by a trap."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import run
from tests.support.tools import find_tool

_FUNCTIONS = (
    *("malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign"),
    *("_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"),  # operators new and delete
)

_TRAP = "#include <stdio.h>\n#include <unistd.h>\n" + "".join(
    f'void __wrap_{name}(void) {{ fprintf(stderr, "trapped: {name}\\n"); _exit(99); }}\n'
    for name in _FUNCTIONS
)


def trap_options(work: Path, path: str) -> str:
    """Options for the linker with which the functions in the objects that it links are traps."""
    (work / "trap.c").write_text(_TRAP)
    run("cc", "-c", work / "trap.c", "-o", work / "trap.o", PATH=path)
    return " ".join([str(work / "trap.o"), *(f"-Wl,--wrap={name}" for name in _FUNCTIONS)])


def run_trapped(bundle: Path, work: Path, path: str) -> str:
    """What the test of a bundle prints, built by make with traps; `path` has a compiler and no Python."""
    work.mkdir(exist_ok=True)
    run("make", "-C", bundle, "-j2", "all", PATH=path)
    (library,) = bundle.glob("build/*/*.a")
    undefined = {line.split()[-1] for line in run("nm", "-u", library).out.splitlines() if line}
    assert undefined.isdisjoint(_FUNCTIONS)
    flags = f"LDFLAGS={trap_options(work, path)}"
    return run("make", "-C", bundle, flags, "test", "benchmark", PATH=path).out


def run_trapped_by_cmake(bundle: Path, work: Path, path: str) -> str:
    """The same, built by CMake."""
    cmake, build = find_tool("cmake"), work / "build"
    flags = f"-DCMAKE_EXE_LINKER_FLAGS={trap_options(work, path)}"
    run(cmake, "-G", "Unix Makefiles", "-S", bundle, "-B", build, flags, PATH=path)
    run(cmake, "--build", build, "-j2", PATH=path)
    (test,) = build.glob("*_test")
    return run(test, bundle / "tests/reference.bin").out
