"""Conversions of float16 in the library for Windows: their values, and the names by which machine code calls them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import lief
import numpy as np
import pytest

from modelwheel.compiler.xla.conversions import NAMES, rename_half_conversions
from modelwheel.packaging.template import template_directory
from modelwheel.platforms import machine
from tests.support.commands import run

_SOURCE = """\
float __extendhfsf2(float); float __truncsfhf2(float); float __truncdfhf2(double); float other_function(float);
float all(float x) { return __extendhfsf2(x) + __truncsfhf2(x) + __truncdfhf2(x) + other_function(x); }
"""


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if machine() != "x86_64":
        pytest.skip("a float16 is in a vector register on x86-64")
    library = tmp_path_factory.mktemp("half") / "half.so"
    source = template_directory() / "model" / "src" / "half.c"
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
    run("cc", "-std=c99", "-O2", *warnings, "-shared", "-fPIC", source, "-lm", "-o", library)
    return ctypes.CDLL(str(library))


def convert(function: Any, values: np.ndarray[Any, Any], argument: type) -> np.ndarray[Any, Any]:
    """The bits of results."""
    function.argtypes, function.restype = [argument], ctypes.c_float
    results = np.array([function(value) for value in values.tolist()], np.float32)
    return results.view(np.uint32)


def test_every_float16_becomes_a_float(half: ctypes.CDLL) -> None:
    finite = np.arange(1 << 16, dtype=np.uint32)
    finite = finite[(finite & 0x7C00) != 0x7C00]
    found = convert(half.modelwheel_half_to_float, finite.view(np.float32), ctypes.c_float)
    expected = finite.astype(np.uint16).view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found, expected.view(np.uint32))
    special = np.array([0x7C00, 0xFC00, 0x7E01], np.uint32).view(np.float32)
    found = convert(half.modelwheel_half_to_float, special, ctypes.c_float)
    assert found.tolist() == [0x7F800000, 0xFF800000, 0x7FC02000]


@pytest.mark.parametrize(
    ("kind", "argument"), [("float", ctypes.c_float), ("double", ctypes.c_double)]
)
def test_numbers_are_rounded_once(half: ctypes.CDLL, kind: str, argument: type) -> None:
    dtype = np.dtype(argument)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(dtype)
    between = (halves[1:] + halves[:-1]) / 2  # ties
    values = np.concatenate([halves, between, np.nextafter(between, 0), np.nextafter(between, 9e9)])
    values = np.concatenate([values[::3], values[-5:], [65519.99, 65520, 1e30, np.inf]]).astype(
        dtype
    )
    values = np.concatenate([values, -values])
    found = convert(half[f"modelwheel_{kind}_to_half"], values, argument)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(found, expected)
    assert (
        convert(half[f"modelwheel_{kind}_to_half"], np.array([np.nan]), argument) & 0x7E00 == 0x7E00
    )


def test_objects_for_windows_call_them(tmp_path: Path) -> None:
    (tmp_path / "source.c").write_text(_SOURCE)
    path = tmp_path / "object.o"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-O1"]
    subprocess.run([*command, "-c", tmp_path / "source.c", "-o", path], check=True)

    def called() -> set[str]:
        coff = lief.COFF.parse(str(path))
        assert coff is not None
        (code,) = [section for section in coff.sections if section.name == ".text"]
        return {str(r.symbol.name) for r in code.relocations if r.symbol is not None}

    names = {old.decode(): new.decode() for old, new in NAMES.items()}
    before = called()
    assert names.keys() < before
    rename_half_conversions(path)
    assert called() == {names.get(name, name) for name in before}
