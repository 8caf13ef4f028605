"""The element types: one row each, and the C and C++ headers agree with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from modelwheel.dtypes import DTYPES, ElementType
from modelwheel.packaging.template import template_directory

COMMON = template_directory() / "common" / "include"
MODEL = template_directory() / "model"


def test_the_c_enum_has_the_same_names_and_numbers() -> None:
    text = (COMMON / "modelwheel" / "abi.h").read_text()
    enum = text.partition("typedef enum modelwheel_dtype {")[2].partition("}")[0]
    found = {name: int(value) for name, value in re.findall(r"MODELWHEEL_(\w+) = (\d+)", enum)}
    assert found == {element.name: element.value for element in ElementType}


def test_numpy_has_the_same_names_and_sizes() -> None:
    for name, element in DTYPES.items():
        if element is not ElementType.BFLOAT16:
            assert np.dtype(name).itemsize == element.item_bytes, name


def test_the_headers_have_the_same_types_and_sizes(tmp_path: Path) -> None:
    """A program whose static assertions are the rows."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source = tmp_path / "rows.cpp"
    source.write_text(
        '#include "modelwheel/buffer.hpp"\n#include "modelwheel/types.h"\n'
        '#include "kernels/base/numeric.h"\n'
        "using namespace modelwheel;\nusing namespace modelwheel::MODELWHEEL_LEVEL;\n"
        "constexpr bool equal(const char *a, const char *b) {\n"
        "  return *a == *b && (*a == 0 || equal(a + 1, b + 1));\n}\n"
        + "".join(map(assertions, ElementType)),
        encoding="utf-8",
    )
    includes = [f"-I{path}" for path in (COMMON, MODEL / "include", MODEL / "src")]
    options = ["-std=c++17", "-fsyntax-only", "-DMODELWHEEL_LEVEL=any", "-w"]
    done = subprocess.run(
        [compiler, *options, *includes, str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def assertions(element: ElementType) -> str:
    number = f"MODELWHEEL_{element.name}"
    conditions = [
        f"stores(dtype_of<{element.cpp_type}>(), {number})",
        f'equal(dtype_name({number}), "{element.dtype}")',
        *(
            f"sizeof({name}) == {element.item_bytes}"
            for name in (element.c_type, element.cpp_type, element.kernel_type)
        ),
    ]
    return "".join(f"static_assert({condition});\n" for condition in conditions)
