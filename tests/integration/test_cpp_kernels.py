"""The hand-written kernels' headers and symbols: each level has its own copy of everything."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from modelwheel.levels import LEVELS, host_levels
from tests.support.kernels import COMPILED, HEADERS, SOURCES, include_options, write_instances

FLAGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror", "-fno-exceptions"]
FLAGS += ["-fno-rtti", "-std=c++17"]
LEVEL = host_levels()[2 if len(host_levels()) > 2 else 0]
LIBC = {"memcpy", "memmove", "memset", "sin", "cos", "sincos"}
_INSTRUCTIONS = {
    "kernels/base/asked.h": ("cpuid.h",),
    "kernels/gemm/bytes_isa.h": ("immintrin.h", "arm_neon.h"),
    "kernels/elementwise/typed.h": ("immintrin.h",),
}
"""Headers of compilers whose functions are always inlined."""
LINKER = {"_GLOBAL_OFFSET_TABLE_"}


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compile_for_level(source: Path, directory: Path, *flags: str) -> None:
    run(
        "c++",
        *FLAGS,
        *include_options(directory),
        f"-march={LEVEL.name}",
        f"-DMODELWHEEL_LEVEL={LEVEL.identifier}",
        *flags,
        source,
    )


@pytest.mark.parametrize("header", HEADERS)
def test_header_stands_alone(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "{header}"\n', encoding="utf-8")
    compile_for_level(source, tmp_path, "-fsyntax-only")


@pytest.mark.parametrize("header", HEADERS)
def test_header_keeps_out_of_the_standard_library(header: str) -> None:
    text = (SOURCES / header).read_text(encoding="utf-8")
    included = set(re.findall(r"#include <(.+)>", text))
    assert included <= {"cstddef", "cstdint", "cstring", *_INSTRUCTIONS.get(header, ())}
    used = set(re.findall(r"\bstd::(\w+)", text))
    assert used <= {"size_t", "memcpy", "memmove", "memset"} | {
        f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
    }


@pytest.mark.parametrize("optimization", ["-O0", "-O2"])
def test_every_symbol_belongs_to_the_level(optimization: str, tmp_path: Path) -> None:
    """The linker keeps one of several weak symbols of a name: levels must not share any."""
    symbols = []
    instances = tmp_path / "instances.cpp"
    write_instances(instances)
    for source in (instances, *COMPILED):
        target = str(tmp_path / f"{source.stem}.o")
        element = "-DMODELWHEEL_ELEMENT=float"
        compile_for_level(source, tmp_path, optimization, element, "-c", "-o", target)
        symbols += [line.split()[-2:] for line in run("nm", target).splitlines()]
    owned = f"{len(LEVEL.identifier)}{LEVEL.identifier}"
    defined = [name for kind, name in symbols if kind not in "Ur" and not name.startswith(".L")]
    assert len(defined) > 100
    assert [name for name in defined if owned not in name] == []
    used = {name for kind, name in symbols if kind == "U"}
    assert [name for name in used - LIBC - LINKER if owned not in name] == []


_ASKED = """
#include "kernels/base/asked.h"
#include <cstdio>

int main() {
  using namespace modelwheel::x86_64_v4;
  for (int again = 0; again < 2; ++again) std::printf("%d %d\\n", has_vnni(), has_amx_int8());
}
"""


@pytest.mark.skipif(
    LEVELS["x86-64-v4"] not in host_levels() or not Path("/proc/cpuinfo").exists(),
    reason="needs Linux and x86-64-v4",
)
def test_the_cpu_is_asked_what_linux_knows(tmp_path: Path) -> None:
    source, program = tmp_path / "asked.cpp", tmp_path / "asked"
    source.write_text(_ASKED, encoding="utf-8")
    level = LEVELS["x86-64-v4"]
    options = [f"-march={level.name}", f"-DMODELWHEEL_LEVEL={level.identifier}"]
    run("c++", *FLAGS, *include_options(tmp_path), *options, source, "-o", program)
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii").split()
    vnni, amx = (
        all(
            flag in flags
            for feature in level.asked
            if feature.name.startswith(prefix)
            for flag in feature.linux
        )
        for prefix in ("AVX512_VNNI", "AMX_")
    )
    first, again = run(program).splitlines()
    assert first == again
    assert first in {f"{vnni:d} {amx:d}", f"{vnni:d} 0"}  # a sandbox may refuse AMX
