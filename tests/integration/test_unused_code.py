"""Functions that nothing calls become traps in the objects of every platform; all others stay as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lief
import pytest

from modelwheel.compiler.xla import unused_code

_OBJECT = """\
extern int elsewhere(int);
#define APART __attribute__((noinline))
static APART int below(int x) { return x * x + 3; }
APART int used(int x) { return below(x) - 1; }
static APART int below_unused(int x) { return elsewhere(x) * 5; }
APART int unused(int x) { return below_unused(x) + elsewhere(x + 1); }
"""
_MAIN = "extern int used(int); int main(void) { return used(4) == 18 ? 0 : 1; }\n"

TARGETS = {
    "x86_64-linux-gnu": b"\xcc",
    "aarch64-linux-gnu": bytes.fromhex("000020d4"),
    "x86_64-windows-gnu": b"\xcc",
}


def _compile(directory: Path, target: str, source: str, *options: str) -> Path:
    (directory / "source.c").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-O1", *options]
    out = directory / "object.o"
    subprocess.run([*command, "-c", "source.c", "-o", out], cwd=directory, check=True)
    return out


def _bodies(path: Path) -> dict[str, bytes]:
    """The code of each function by its name."""
    read = unused_code._coff_code if "windows" in path.parent.name else unused_code._elf_code
    code, content = read(path), path.read_bytes()
    assert code is not None
    return {f.name: content[code.first + f.start : code.first + f.end] for f in code.functions}


def _relocations(path: Path) -> list[tuple[str, int]]:
    """Symbol and type of each relocation of the code."""
    coff = lief.COFF.parse(str(path))
    assert coff is not None
    (code,) = [section for section in coff.sections if section.name == ".text"]
    return [(str(r.symbol.name), int(r.type)) for r in code.relocations if r.symbol is not None]


@pytest.mark.parametrize("target", TARGETS)
def test_what_nothing_calls_is_a_trap(target: str, tmp_path: Path) -> None:
    directory = tmp_path / target
    directory.mkdir()
    path = _compile(directory, target, _OBJECT)
    before = _bodies(path)
    unused_code.blank_unused_functions(path, {"used"})
    after = _bodies(path)
    assert set(after) == {"used", "below", "unused", "below_unused"}
    for name in ("used", "below"):
        assert after[name] == before[name]
    for name in ("unused", "below_unused"):
        trap = TARGETS[target]
        assert after[name] == trap * (len(after[name]) // len(trap))


def test_no_relocation_of_a_trap_is_left_for_windows(tmp_path: Path) -> None:
    """GNU ld refuses those of type 0 in a DLL."""
    path = _compile(tmp_path, "x86_64-windows-gnu", _OBJECT)
    assert {symbol for symbol, _ in _relocations(path)} == {"below", "below_unused", "elsewhere"}
    unused_code.blank_unused_functions(path, {"used"})
    assert {symbol for symbol, _ in _relocations(path)} == {"below"}
    assert all(kind != 0 for _, kind in _relocations(path))


def test_the_rest_links_without_what_was_referred_to(tmp_path: Path) -> None:
    """`elsewhere` is nowhere: no relocation is left that needs it."""
    path = _compile(tmp_path, "x86_64-linux-gnu", _OBJECT)
    unused_code.blank_unused_functions(path, {"used"})
    (tmp_path / "main.c").write_text(_MAIN, encoding="utf-8")
    subprocess.run(["cc", "main.c", "object.o", "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)
