"""The kernels that are compiled by themselves: from the files of every model, each by a source of its own."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest

from modelwheel.codegen import Packed, compiled_kernels
from modelwheel.dtypes import ElementType
from modelwheel.packaging.kernels import CompiledKernel, kernel_keys
from modelwheel.packaging.template import (
    MODEL_OVERLAYS,
    combine_overlays,
    kernels_template,
    list_overlay,
    render,
    template_directory,
)
from modelwheel.program import ops
from modelwheel.program.steps import Step
from modelwheel.thresholds import header
from tests.support.programs import array, matmul_program, part, pooling

KERNELS = template_directory() / "model" / "src" / "kernels"
COMPILED = sorted(KERNELS.glob("*/*.cpp"))
"""Found by their names alone, in whatever folder they are."""
FAMILIES = (
    *("base", "parts", "elementwise", "sorting", "fft", "gemm", "pooling"),
    *("attention", "convolution", "bytes"),
)
"""The folders of kernels: a header includes its own family and earlier ones. So threads that share a step by its rows
know nothing of how convolutions are divided."""
LARGEST_FOLDER = 20
ANY_PROGRAM = shlex.quote(Path(sys.executable).as_posix())
"""Stands for a compiler: it has a version."""


def test_they_are_compiled_from_the_files_of_every_model() -> None:
    own = {place for place, _ in list_overlay("kernels")}
    project = combine_overlays(MODEL_OVERLAYS["extension"])
    compiled = kernels_template()
    assert {place for place, path in compiled.items() if project.get(place) != path} == own


def test_their_project_has_what_it_includes_and_knows_no_model(tmp_path: Path) -> None:
    # Every variable of a template that is not a fact would be undefined here, which is an error.
    render(kernels_template(), {}, tmp_path)
    for name in re.findall(r"include\((.+)\)", (tmp_path / "CMakeLists.txt").read_text()):
        assert "MODEL_MODULE" not in (tmp_path / name).read_text()
    sources = [*tmp_path.glob("src/kernels/*/*.h"), *tmp_path.glob("src/kernels/*/*.cpp")]
    included = {name for one in sources for name in re.findall(r'#include "(.+)"', one.read_text())}
    assert [name for name in sorted(included) if not (tmp_path / "src" / name).is_file()] == []
    assert (tmp_path / "src/kernels/base/thresholds.h").read_text() == f"{header()}\n"


def test_a_folder_of_headers_is_no_corridor() -> None:
    counted = Counter(path.parent.name for path in KERNELS.rglob("*.h*"))
    assert {name for name, headers in counted.items() if headers > LARGEST_FOLDER} == set()


def test_headers_of_a_family_include_families_below_it() -> None:
    for path in (*KERNELS.rglob("*.h"), *COMPILED):
        own = FAMILIES.index(path.parent.name)
        for name in re.findall(r'#include "(.+)"', path.read_text()):
            family = name.split("/")[1]
            assert FAMILIES.index(family) <= own, f"{path} includes {name}"


def test_a_source_defines_what_its_header_declares() -> None:
    pattern = r"template [^;]*?(\w+(?:<float, [^>]+>)?)(?:<float>)?\("
    declaring = [path for path in KERNELS.rglob("*.h") if "\nextern template" in path.read_text()]
    assert {path.with_suffix(".cpp") for path in declaring} == set(COMPILED)
    for path in declaring:
        declared = re.findall(rf"\nextern {pattern}", path.read_text())
        source = path.with_suffix(".cpp").read_text().replace("<Element", "<float")
        assert set(declared) == set(re.findall(rf"\n{pattern}", source))


def kernels_of(*steps: Step) -> set[str]:
    """What code is linked with, without element types."""
    program = matmul_program().model_copy(update={"steps": steps})
    return {kernel.rpartition("_")[0] for kernel in compiled_kernels([program])}


def test_every_source_is_listed_for_a_step() -> None:
    (dot,) = matmul_program().steps
    pool = pooling(part(0), part(0), reducer="sum", initial=0.0)
    spectrum = array((1, 3), (1, 0), element_type=ElementType.COMPLEX64)
    fft = Step(
        op=ops.Fft(fft_type="rfft", lengths=(4,)),
        inputs={"input": array((1, 4), (1, 0))},
        outputs={"output": spectrum},
    )
    assert kernels_of(dot) == {"epilogue", "gemm"}
    assert kernels_of(pool) == {"pooling"}
    assert kernels_of(fft) == {"fft"}
    halved = compiled_kernels([matmul_program()], Packed(halved=frozenset({"w"})))
    assert halved == ("bf16_dot_float", "epilogue_float", "gemm_float")
    convolved = {path.stem for path in COMPILED if path.parent.name == "convolution"}
    convolved |= {"epilogue", "gemm"}
    listed = convolved | kernels_of(dot, pool, fft) | {"bf16_dot"}
    assert sorted(listed) == sorted(path.stem for path in COMPILED)  # a name for each


def test_a_key_holds_the_kernel_its_level_and_what_the_compiler_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CC", "CXX"):
        monkeypatch.setenv(name, ANY_PROGRAM)
    kernels = [
        CompiledKernel(level, kernel)
        for level in ("x86_64", "x86_64_v3")
        for kernel in ("gemm_float", "gemm_double")
    ]
    before = kernel_keys(kernels)
    assert len(set(before.values())) == 4
    assert before == kernel_keys(kernels)
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", "/elsewhere")
    assert set(before.values()).isdisjoint(kernel_keys(kernels).values())
