"""The hand-written kernels' headers and symbols: each level has its own copy of everything."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from modelwheel.levels import host_levels
from modelwheel.packaging.template import template_directory

TESTS = Path(__file__).parents[1] / "cpp"
KERNELS = template_directory() / "model" / "src" / "kernels"
HEADERS = sorted(path.name for path in KERNELS.glob("*.h"))
FLAGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror", "-fno-exceptions"]
FLAGS += ["-fno-rtti", "-std=c++17", f"-I{template_directory() / 'model' / 'src'}"]
LEVEL = host_levels()[2 if len(host_levels()) > 2 else 0]
LIBC = {"memcpy", "memmove", "memset", "sin", "cos", "sincos"}
LINKER = {"_GLOBAL_OFFSET_TABLE_"}


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compile_for_level(source: Path, *flags: str) -> None:
    run(
        "c++",
        *FLAGS,
        f"-march={LEVEL.name}",
        f"-DMODELWHEEL_LEVEL={LEVEL.identifier}",
        *flags,
        source,
    )


@pytest.mark.parametrize("header", HEADERS)
def test_header_stands_alone(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "kernels/{header}"\n', encoding="utf-8")
    compile_for_level(source, "-fsyntax-only")


@pytest.mark.parametrize("header", HEADERS)
def test_header_keeps_out_of_the_standard_library(header: str) -> None:
    text = (KERNELS / header).read_text(encoding="utf-8")
    included = set(re.findall(r"#include <(.+)>", text))
    assert included <= {"cstddef", "cstdint", "cstring"}
    used = set(re.findall(r"\bstd::(\w+)", text))
    assert used <= {"size_t", "memcpy", "memmove", "memset"} | {
        f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
    }


@pytest.mark.parametrize("optimization", ["-O0", "-O2"])
def test_every_symbol_belongs_to_the_level(optimization: str, tmp_path: Path) -> None:
    """The linker keeps one of several weak symbols of a name: levels must not share any."""
    symbols = []
    for source in (TESTS / "kernels" / "instantiate.cpp", *KERNELS.glob("*.cpp")):
        target = str(tmp_path / f"{source.stem}.o")
        element = "-DMODELWHEEL_ELEMENT=float"
        compile_for_level(source, optimization, element, "-c", "-o", target)
        symbols += [line.split()[-2:] for line in run("nm", target).splitlines()]
    owned = f"{len(LEVEL.identifier)}{LEVEL.identifier}"
    defined = [name for kind, name in symbols if kind not in "Ur" and not name.startswith(".L")]
    assert len(defined) > 100
    assert [name for name in defined if owned not in name] == []
    used = {name for kind, name in symbols if kind == "U"}
    assert [name for name in used - LIBC - LINKER if owned not in name] == []
