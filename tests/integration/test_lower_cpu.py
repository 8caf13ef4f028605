"""The CPU that other runtimes see: without what is beyond the wheel's level, in every thread and in the sandbox."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel.bench.cpu import SOURCE, build_lower_cpu
from modelwheel.bench.native import compile_cpp
from modelwheel.bench.process import Program, start
from modelwheel.levels import LEVELS, Level, cpu_level, features_up_to, levels_of
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy

_X86 = levels_of("x86_64")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or cpu_level() not in _X86, reason="only Linux lets CPUID fault on x86"
)

_PROGRAM = """\
#include <cpuid.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <unistd.h>

extern "C" int lower_cpu();

static void show() {
    const unsigned leaves[][2] = {{0, 0}, {1, 0}, {7, 0}, {7, 1}, {0x80000001, 0}, {0x80000002, 0}};
    for (const auto &leaf : leaves) {
        unsigned found[4];
        __cpuid_count(leaf[0], leaf[1], found[0], found[1], found[2], found[3]);
        if (leaf[0] == 1) found[1] = 0;  // the core that it runs on
        std::printf("%u %u %u %u ", found[0], found[1], found[2], found[3]);
    }
    std::puts("");
}

static void leave(int) { _exit(7); }

int main(int count, char **values) {
    if (count > 1 && std::strcmp(values[1], "handled") == 0) std::signal(SIGSEGV, leave);
    show();
    if (!lower_cpu()) return 3;
    show();
    std::thread(show).join();
    if (count > 1) *static_cast<volatile int *>(nullptr) = 1;
}
"""
"""Shows parts of CPUID as they are, as they are after that, and as another thread sees them; then may fail."""

_UNABLE = 3

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


def build(level: Level, directory: Path) -> Path:
    """The program that shows what it sees at a level."""
    main = directory / "main.cpp"
    main.write_text(_PROGRAM, encoding="utf-8")
    number = f"-DLEVEL={_X86.index(level) + 1}"
    program = directory / "show"
    compile_cpp(main, program, number, "-pthread", str(SOURCE))
    return program


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it where the system can."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode == _UNABLE:
        pytest.skip("this system does not let CPUID fault")
    return done


@pytest.mark.parametrize("level", _X86[:-1], ids=lambda level: level.name)
def test_what_higher_levels_add_is_hidden_and_nothing_else(level: Level, tmp_path: Path) -> None:
    done = run(build(level, tmp_path))
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


def test_other_faults_go_where_they_went(tmp_path: Path) -> None:
    program = build(_X86[2], tmp_path)
    assert run(program, "unhandled").returncode == -signal.SIGSEGV
    assert run(program, "handled").returncode == 7


@pytest.mark.parametrize(
    ("name", "gone", "left"),
    [("x86-64-v3", "AVX512F", "AVX2"), ("x86-64-v2", "AVX2", "SSE42")],
)
def test_numpy_in_the_sandbox_sees_the_level(
    name: str, gone: str, left: str, tmp_path: Path
) -> None:
    level = LEVELS[name]
    if cpu_level() not in above(level):
        pytest.skip(f"this CPU has no level above {name}")
    library = build_lower_cpu(level, tmp_path)
    assert library is not None
    script = tmp_path / "numpy_side.py"
    script.write_text(
        "import ctypes, json, sys\n"
        "lowered = ctypes.CDLL(sys.argv[1]).lower_cpu()\n"
        "from numpy._core._multiarray_umath import __cpu_features__ as found\n"
        "print(json.dumps([lowered, found]))\n",
        encoding="utf-8",
    )
    program = Program(Path(sys.executable), script, (library,), (library,), {})
    process = start(program, choose_sandbox(Policy.PREFERRED), tmp_path / "side")
    said, _ = process.communicate(timeout=60)
    lowered, found = json.loads(said)
    if not lowered:
        pytest.skip("this system does not let CPUID fault")
    assert not found[gone]
    assert found[left]


def test_the_own_level_of_the_machine_hides_nothing(tmp_path: Path) -> None:
    assert build_lower_cpu(cpu_level(), tmp_path) is None
