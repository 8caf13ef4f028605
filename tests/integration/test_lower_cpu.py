"""The CPU that other runtimes see: without what is beyond the wheel's level, in every thread and in the sandbox."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel.bench.cpu import SOURCE, build_lower_cpu, lower_cpu
from modelwheel.bench.native import compile_cpp
from modelwheel.bench.patched import copy_package, patched_package
from modelwheel.bench.process import Program, start
from modelwheel.levels import LEVELS, Level, cpu_level, features_up_to, levels_of
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy

_X86 = levels_of("x86_64")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or cpu_level() not in _X86, reason="only Linux on x86 can do it"
)

_LIBRARY = """\
#include <cpuid.h>
#include <cstdio>

extern "C" void show() {
    const unsigned leaves[][2] = {{0, 0}, {1, 0}, {7, 0}, {7, 1}, {0x80000001, 0}, {0x80000002, 0}};
    for (const auto &leaf : leaves) {
        unsigned found[4];
        __cpuid_count(leaf[0], leaf[1], found[0], found[1], found[2], found[3]);
        if (leaf[0] == 1) found[1] = 0;  // the core that it runs on
        std::printf("%u %u %u %u ", found[0], found[1], found[2], found[3]);
    }
    std::puts("");
}
"""
"""Shows parts of CPUID."""

_PROGRAM = """\
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <unistd.h>

extern "C" int lower_cpu(int patched);

static void leave(int) { _exit(7); }

static void (*load(const char *library))() {
    void *const handle = dlopen(library, RTLD_NOW);
    if (handle == nullptr) std::abort();
    return reinterpret_cast<void (*)()>(dlsym(handle, "show"));
}

int main(int count, char **values) {
    const bool patched = std::strcmp(values[1], values[2]) != 0;
    if (count > 3 && std::strcmp(values[3], "handled") == 0) std::signal(SIGSEGV, leave);
    load(values[1])();
    if (!lower_cpu(patched)) return 3;
    void (*const show)() = load(values[2]);
    show();
    std::thread(show).join();
    if (count > 3) *static_cast<volatile int *>(nullptr) = 1;
}
"""
"""Shows what a library sees of the whole CPU, then what it or its copy sees, also in another thread; then may fail."""

# Register of the output of `_PROGRAM` and bit, by the name in levels.toml; from Intel's manual, volume 2A, CPUID.
_BITS = {
    "pni": (6, 0),
    "ssse3": (6, 9),
    "fma": (6, 12),
    "cx16": (6, 13),
    "sse4_1": (6, 19),
    "sse4_2": (6, 20),
    "movbe": (6, 22),
    "popcnt": (6, 23),
    "xsave": (6, 26),
    "avx": (6, 28),
    "f16c": (6, 29),
    "bmi1": (9, 3),
    "avx2": (9, 5),
    "bmi2": (9, 8),
    "avx512f": (9, 16),
    "avx512dq": (9, 17),
    "avx512cd": (9, 28),
    "avx512bw": (9, 30),
    "avx512vl": (9, 31),
    "lahf_lm": (18, 0),
    "abm": (18, 5),
}
_BEYOND = ((10, 11), (11, 23), (11, 24), (12, 5), (15, 19))
"""AVX512_VNNI, AVX512_FP16, AMX-TILE, AVX512_BF16, AVX10."""


def above(level: Level) -> list[Level]:
    """The levels above one."""
    return list(_X86[_X86.index(level) + 1 :])


def can_fault(directory: Path) -> bool:
    """Whether CPUID can fault here."""
    library = directory / "can_fault.so"
    compile_cpp(SOURCE, library, "-shared", "-fPIC", "-DLEVEL=1")
    return bool(ctypes.CDLL(str(library)).can_fault())


@pytest.fixture(params=["faulting", "patched"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """How the CPU is hidden; copies are patched everywhere."""
    if request.param == "faulting" and not can_fault(tmp_path):
        pytest.skip("this system does not let CPUID fault")
    return str(request.param)


def run(
    level: Level, way: str, directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Runs the program, which sees a CPU of a level."""
    main, library = directory / "main.cpp", directory / "library.cpp"
    main.write_text(_PROGRAM, encoding="utf-8")
    library.write_text(_LIBRARY, encoding="utf-8")
    original, program = directory / "package" / "show.so", directory / "program"
    original.parent.mkdir()
    compile_cpp(library, original, "-O1", "-shared", "-fPIC")
    number = f"-DLEVEL={_X86.index(level) + 1}"
    compile_cpp(main, program, number, "-pthread", str(SOURCE), "-ldl")
    used = original
    if way == "patched":
        copy_package(original.parent, directory / "copy")
        used = directory / "copy" / original.name
    command = [str(program), str(original), str(used), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("level", _X86[:-1], ids=lambda level: level.name)
def test_what_higher_levels_add_is_hidden_and_nothing_else(
    level: Level, way: str, tmp_path: Path
) -> None:
    done = run(level, way, tmp_path)
    assert done.returncode == 0, done.stderr
    whole, seen, in_thread = ([int(n) for n in line.split()] for line in done.stdout.splitlines())
    assert in_thread == seen
    kept = {_BITS[name] for feature in features_up_to(level) for name in feature.linux}
    hidden = {name for one in above(level) for feature in one.features for name in feature.linux}
    for place, bit in kept:
        assert (seen[place] ^ whole[place]) >> bit & 1 == 0
    for place, bit in (*(_BITS[name] for name in hidden), *_BEYOND):
        assert seen[place] >> bit & 1 == 0
    # Bits vanish, none appears; maker and name, and the registers of no features, stay.
    assert all(now & ~was == 0 for was, now in zip(whole, seen, strict=True))
    assert (seen[:6], seen[20:]) == (whole[:6], whole[20:])


@pytest.mark.parametrize(("argument", "code"), [("unhandled", -signal.SIGSEGV), ("handled", 7)])
def test_other_faults_go_where_they_went(
    argument: str, code: int, way: str, tmp_path: Path
) -> None:
    assert run(_X86[2], way, tmp_path, argument).returncode == code


_SIDE = """\
import ctypes, json, sys
library, *copies = sys.argv[1:]
lowered = ctypes.CDLL(library).lower_cpu(bool(copies))
sys.path[:0] = copies
from numpy._core import _multiarray_umath as numpy
print(json.dumps([lowered, numpy.__file__, numpy.__cpu_features__]))
"""


@pytest.mark.parametrize(
    ("name", "gone", "left"),
    [("x86-64-v3", "AVX512F", "AVX2"), ("x86-64-v2", "AVX2", "SSE42")],
)
def test_numpy_in_the_sandbox_sees_the_level(
    name: str, gone: str, left: str, way: str, tmp_path: Path
) -> None:
    level = LEVELS[name]
    if cpu_level() not in above(level):
        pytest.skip(f"this CPU has no level above {name}")
    library = build_lower_cpu(level, tmp_path)
    assert library is not None
    given = [library]
    if way == "patched":
        copy = patched_package("numpy", tmp_path / "copies")
        assert copy is not None
        given.append(copy)
    script = tmp_path / "numpy_side.py"
    script.write_text(_SIDE, encoding="utf-8")
    program = Program(Path(sys.executable), script, given, tuple(given), {})
    process = start(program, choose_sandbox(Policy.PREFERRED), tmp_path / "side")
    said, _ = process.communicate(timeout=60)
    lowered, file, found = json.loads(said)
    assert lowered
    assert Path(file).is_relative_to(tmp_path) == (way == "patched")
    assert not found[gone]
    assert found[left]


def test_sides_are_given_copies_where_cpuid_cannot_fault(tmp_path: Path) -> None:
    if cpu_level() == _X86[0]:
        pytest.skip("this CPU has no lower level")
    lower = lower_cpu(_X86[0], tmp_path, tmp_path / "copies")
    assert lower is not None
    copies = () if can_fault(tmp_path) else (tmp_path / "copies" / "numpy",)
    assert lower.files("numpy") == (tmp_path / "cpu.so", *copies)


def test_the_own_level_of_the_machine_hides_nothing(tmp_path: Path) -> None:
    assert build_lower_cpu(cpu_level(), tmp_path) is None
