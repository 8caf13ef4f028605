"""Copies of packages with another instruction in place of CPUID: which bytes are it, and what a copy is made of."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

from modelwheel.bench.native import compile_cpp
from modelwheel.bench.patched import copy_package, find_cpuid, patched_package
from modelwheel.bench.side import uses_copy
from modelwheel.platforms import machine

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or machine() != "x86_64", reason="only x86-64 has CPUID"
)

_MARK = bytes.fromhex("b844332211")
_CPUID, _PATCHED = _MARK + b"\x0f\xa2", _MARK + b"\xcd\xa2"
"""The instruction after one that is nowhere else: `mov eax, 0x11223344`."""

_FUNCTION = """\
extern "C" unsigned function() {
  unsigned a, b, c, d;
  asm volatile("movl $0x11223344, %%eax\\n cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d));
  return a;
}
"""
_OTHERS = """\
extern "C" const unsigned char table[] = {0xb8, 0x44, 0x33, 0x22, 0x11, 0x0f, 0xa2, 0};
extern "C" unsigned immediate() {
  unsigned value;
  asm volatile("movl $0x1122a20f, %0" : "=r"(value));
  return value;
}
"""
_UNWOUND_BY_NOBODY = """\
asm(".text\\n .globl bare\\n .p2align 4\\n"
    "bare:\\n movl $0x1122a20f, %ecx\\n movl $0x11223344, %eax\\n cpuid\\n ret\\n");
"""
_AFTER_DATA = """\
asm(".text\\n .globl after_data\\n"
    ".byte 0x06, 0x06\\n"
    "after_data:\\n movl $0x11223344, %eax\\n cpuid\\n ret\\n");
"""
"""The byte 0x06 begins no instruction."""


def library(directory: Path, *parts: str) -> Path:
    """A library of these parts, the first of which has functions."""
    directory.mkdir(exist_ok=True)
    source, result = directory / "library.cpp", directory / "library.so.1"
    source.write_text("\n".join(parts), encoding="utf-8")
    compile_cpp(source, result, "-O1", "-shared", "-fPIC")
    return result


@pytest.mark.parametrize(
    "parts",
    [
        (_FUNCTION, _OTHERS),
        (_OTHERS, _UNWOUND_BY_NOBODY),
        (_FUNCTION, _UNWOUND_BY_NOBODY, _OTHERS),
    ],
    ids=["function", "assembler", "both"],
)
@pytest.mark.parametrize("sections", [True, False])
def test_the_instruction_is_replaced_and_no_other_bytes(
    parts: tuple[str, ...], *, sections: bool, tmp_path: Path
) -> None:
    path = library(tmp_path / "package", *parts)
    content = path.read_bytes()
    if not sections:
        # No table of sections (e_shoff, e_shnum, e_shstrndx): the segments are all there is.
        content = content[:40] + bytes(8) + content[48:60] + bytes(4) + content[64:]
        path.write_bytes(content)
    copy_package(path.parent, tmp_path / "copy")
    table = content.find(_CPUID + b"\0")
    expected = content.replace(_CPUID, _PATCHED)
    expected = expected[:table] + content[table : table + 8] + expected[table + 8 :]
    assert expected != content
    assert (tmp_path / "copy" / path.name).read_bytes() == expected


def test_code_that_cannot_be_decoded_stays_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = library(tmp_path / "package", _AFTER_DATA)
    assert find_cpuid(path).undecided == 1
    with caplog.at_level(logging.WARNING):
        copy_package(path.parent, tmp_path / "copy")
    assert "1 places may be CPUID or not" in caplog.text
    assert (tmp_path / "copy" / path.name).resolve() == path


def test_files_that_are_no_libraries_have_no_such_instruction(tmp_path: Path) -> None:
    for name, content in {"empty.so": b"", "script.so": b"text \x0f\xa2"}.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert find_cpuid(path).offsets == ()
        assert find_cpuid(path).undecided == 0


def test_a_package_is_copied_once_with_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "runtime_with_cpuid"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    library(package / "inner", _FUNCTION)
    library(tmp_path / "site" / "runtime_with_cpuid.libs", "int nothing;")
    monkeypatch.syspath_prepend(package.parent)
    copy = patched_package(package.name, tmp_path / "copies")
    assert copy is not None
    names = sorted(str(path.relative_to(package.parent)) for path in package.parent.rglob("*"))
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*")) == names
    inner = copy / package.name / "inner" / "library.so.1"
    assert _PATCHED in inner.read_bytes()
    # What has none is the same file under another name.
    needed = "runtime_with_cpuid.libs/library.so.1"
    assert (copy / needed).stat().st_ino == (package.parent / needed).stat().st_ino
    assert not (copy / needed).is_symlink()
    before = inner.stat().st_mtime_ns
    assert patched_package(package.name, tmp_path / "copies") == copy
    assert inner.stat().st_mtime_ns == before


def test_without_a_copy_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = tmp_path / "site" / "runtime_of_links"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "gone.so").symlink_to("nowhere")
    monkeypatch.syspath_prepend(package.parent)
    with caplog.at_level(logging.WARNING):
        assert patched_package(package.name, tmp_path / "copies") is None
    assert "runtime_of_links uses the whole CPU: its copy failed" in caplog.text
    assert patched_package("no_such_runtime", tmp_path / "copies") is None


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        (["COPY/runtime/liba.so", "/usr/lib/libc.so.6"], True),
        (["COPY/runtime/liba.so", "COPY/runtime/b c.so.1"], True),
        (["COPY/runtime/liba.so", "/site/runtime/b c.so.1"], False),
        (["/site/runtime/liba.so"], False),
        (["/usr/lib/libc.so.6", "[heap]"], False),
    ],
)
def test_a_side_knows_whether_its_runtime_is_the_copy(
    loaded: list[str], *, expected: bool, tmp_path: Path
) -> None:
    copy, maps = tmp_path / "copy", tmp_path / "maps"
    (copy / "runtime").mkdir(parents=True)
    for name in ("liba.so", "b c.so.1"):
        (copy / "runtime" / name).touch()
    lines = [f"7f00-7f01 r-xp 00000000 fe:00 12{' ' * 20}{name}" for name in loaded]
    text = os.linesep.join([*lines, "7f02-7f03 rw-p 00000000 00:00 0"])
    maps.write_text(text.replace("COPY", str(copy)), encoding="utf-8")
    assert uses_copy(copy, maps) == expected
