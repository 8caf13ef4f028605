"""Bundles, as far as they come from the template: what they hold, and what their build files name."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.assembly.manifest import Manifest
from modelwheel.packaging.bundle import remove_programs, render_bundle
from modelwheel.packaging.project import project_context
from modelwheel.packaging.template import model_template, render
from modelwheel.signature import Signature, Tensor
from tests.support.index_wheels import make_manifest


def _described(**changes: Any) -> Manifest:
    described = make_manifest("digits")
    return described.model_copy(update={"levels": ("x86-64", "x86-64-v3"), **changes})


def _tensor(name: str, dtype: str = "float32", **changes: Any) -> Tensor:
    values = {
        "name": name,
        "c_name": name,
        "dtype": dtype,
        "shape": (None, 2),
        "leading_per_row": 1,
    }
    return Tensor.model_validate({**values, **changes})


def _render(project: Path, described: Manifest, **arrays: Any) -> Path:
    for platform in ("linux-x86_64", "windows-amd64"):
        directory = project / "platforms" / platform
        (directory / "objects").mkdir(parents=True)
        (directory / "objects" / "x86-64_b1.o").touch()
        described.model_copy(update={"platform": platform}).save(directory / "manifest.json")
    # What make asks for.
    for platform in ("linux-x86_64", "windows-amd64"):
        generated = project / "platforms" / platform / "generated"
        generated.mkdir()
        for name in ("model_tables", "program_x86_64", "program_x86_64_v3"):
            (generated / f"{name}.cpp").touch()
        (generated / "kernels.txt").write_text("windows_float\ngemm_double\n")
    (project / "weights").mkdir()
    (project / described.weights).touch()
    (project / "python").mkdir()
    np.savez(project.with_suffix(".npz"), **arrays)
    render_bundle(project, project.with_suffix(".npz"))
    return project


def _bundle(project: Path, **model: Any) -> Path:
    described = _described()
    described = described.model_copy(update={"model": described.model.model_copy(update=model)})
    shapes = {tensor.name: tensor.shape_at(4, None) for tensor in described.signature.inputs}
    arrays = {f"in/{name}": np.ones(shape, np.float32) for name, shape in shapes.items()}
    for rows in described.verification.rows:
        arrays[f"out/{rows}/scores"] = np.full((rows, 10), rows, np.float32)
    return _render(project, described, **arrays)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return _bundle(tmp_path / "bundle")


def test_nothing_in_a_bundle_is_python(bundle: Path) -> None:
    files = [path for path in bundle.rglob("*") if path.is_file()]
    assert {path.suffix for path in files}.isdisjoint({".py", ".pyi", ".toml"})
    built = [path for path in files if path.name in ("Makefile", "CMakeLists.txt", "BUILD.bazel")]
    assert len(built) == 3
    assert "python" not in "".join(path.read_text() for path in built)


def test_files_of_bazel_are_calls_that_name_what_is_there(bundle: Path) -> None:
    """Starlark is a part of Python's syntax."""
    names = set()
    for file in ("BUILD.bazel", "MODULE.bazel", "WORKSPACE.bazel"):
        for statement in ast.parse((bundle / file).read_text()).body:
            assert isinstance(statement, ast.Expr)
            assert isinstance(statement.value, ast.Call)
        names |= set(re.findall(r'"((?:tests|lib)/[^"$]+)"', (bundle / file).read_text()))
    libraries = {f"lib/{p}/libmodel_digits.a" for p in ("linux-x86_64", "windows-amd64")}
    assert names >= libraries
    assert [name for name in names - libraries if not (bundle / name).is_file()] == []


BUILD_FILES = ("BUILD.bazel", "CMakeLists.txt", "Makefile", "README.md")


@pytest.mark.parametrize("kept", [("test",), ("benchmark",), ()])
def test_programs_that_a_spec_does_not_want_are_removed(
    bundle: Path, tmp_path: Path, kept: tuple[str, ...]
) -> None:
    """`package.gen_test` and `package.gen_benchmark`."""
    other = _bundle(tmp_path / "other", programs=kept)
    assert (other / "tests/model_digits_test.c").is_file()  # with which it is tested
    remove_programs(other)
    remove_programs(bundle)  # which keeps both
    of_program = {
        "test": ["_test.c", "reference.bin", "reference.h"],
        "benchmark": ["_benchmark.c"],
    }
    for program, endings in of_program.items():
        for ending in endings:
            (path,) = (path for path in (bundle / "tests").iterdir() if path.name.endswith(ending))
            assert (other / "tests" / path.name).is_file() == (program in kept)
    assert (other / "cmake/programs.cmake").is_file() == bool(kept)
    for name in BUILD_FILES:
        text = (other / name).read_text()
        for program in ("test", "benchmark"):
            mark = re.compile(rf"(\b|_){program}\b")
            assert bool(mark.search(text)) == (program in kept), f"{name}: {program}"
            assert mark.search((bundle / name).read_text())


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("programs", [("test", "benchmark"), ("test",), ()])
def test_the_makefile_has_the_goals_of_the_programs(
    tmp_path: Path, programs: tuple[str, ...]
) -> None:
    bundle = _bundle(tmp_path / "bundle", programs=programs)
    remove_programs(bundle)
    for goal in ("all", "install", "test", "benchmark"):
        done = subprocess.run(
            ["make", "--dry-run", goal], cwd=bundle, capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) == (goal in ("all", "install", *programs)), done.stderr


@pytest.mark.parametrize(
    ("sizes", "classes"),
    [((1,), ["MatMulComp"]), ((1, 8), ["MatMulComp_bs1", "MatMulComp_bs8"])],
)
def test_a_class_has_the_name_that_the_spec_gives_it(
    tmp_path: Path, sizes: tuple[int, ...], classes: list[str]
) -> None:
    described = _described()
    names = {"cpp_class": "foo::bar::MatMulComp", "cpp_header": "nets/matmul.h"}
    update = {
        "model": described.model.model_copy(update=names),
        "batching": described.batching.model_copy(update={"sizes": sizes}),
    }
    context = project_context([described.model_copy(update=update)])
    render(model_template("shared", ["c", "cpp", "python"]), context, tmp_path)
    header = (tmp_path / "include/nets/matmul.h").read_text()
    assert (
        re.findall(r"^class (\w+) final : public ::tfaot_model::", header, re.MULTILINE) == classes
    )
    assert "namespace foo::bar {" in header


def test_without_a_class_there_is_no_header_of_it(bundle: Path) -> None:
    own = {"model_digits.h", "model_digits.hpp", "modelwheel", "tfaot-model-digits"}
    assert {path.name for path in (bundle / "include").iterdir()} == own


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize(
    ("machine", "platform"),
    [
        ("x86_64-linux-gnu", "linux-x86_64"),
        ("x86_64-pc-linux-musl", "linux-x86_64"),
        ("x86_64-w64-mingw32", "windows-amd64"),
        ("riscv64-linux-gnu", None),
    ],
)
def test_the_makefile_knows_the_platform_of_a_compiler(
    bundle: Path, tmp_path: Path, machine: str, platform: str | None
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho {machine}\n")
    compiler.chmod(0o755)
    done = subprocess.run(
        ["make", "--dry-run", f"CC={compiler}"],
        cwd=bundle,
        capture_output=True,
        text=True,
        check=False,
    )
    if platform is None:
        assert f"machine code for linux-x86_64, windows-amd64, but {compiler}" in done.stderr
    else:
        assert done.returncode == 0
        assert f"-c platforms/{platform}/generated/model_tables.cpp" in done.stdout
        assert f"platforms/{platform}/objects/x86-64_b1.o" in done.stdout
        kernel = f"build/{platform}/kernel_windows_float-x86_64_v3.o"
        (line,) = (line for line in done.stdout.splitlines() if line.endswith(f"-o {kernel}"))
        assert "-march=x86-64-v3 " in line
        assert "-DMODELWHEEL_LEVEL=x86_64_v3 -DMODELWHEEL_ELEMENT=float" in line
        assert "-c src/kernels/convolution/windows.cpp " in line
        assert ("mingw.o" in done.stdout) == (platform == "windows-amd64")


def _cases(bundle: Path) -> list[list[Any]]:
    """The table in `reference.h`: rows, length, first, and lists of offsets and counts."""
    rows = re.findall(r"^    (\{.*\}),$", (bundle / "tests/reference.h").read_text(), re.MULTILINE)
    return [ast.literal_eval(row.replace("{", "[").replace("}", "]")) for row in rows]


def test_the_reference_has_the_first_rows_of_each_case(bundle: Path) -> None:
    content = (bundle / "tests/reference.bin").read_bytes()
    cases = _cases(bundle)
    assert [case[:3] for case in cases] == [[1, 0, 1], [4, 0, 1]]
    for rows, _, _, inputs, outputs, elements, *_ in cases:
        assert all(offset % 64 == 0 for offset in (*inputs, *outputs))
        assert elements[0] == rows * 10
        values = np.frombuffer(content, np.float32, elements[0], outputs[0])
        assert (values == rows).all()


def test_the_reference_has_what_each_row_is_allowed(tmp_path: Path) -> None:
    """As the wheel's own test judges it: the truth, the row's noise, and what decides nothing."""
    given = np.arange(8, dtype=np.float32).reshape(4, 2)
    noise = np.array([[0], [0.25], [np.inf], [0]], np.float32)
    arrays = {"in/x": given, "noise/4/scores": noise, "exact/4/scores": np.full((4, 2), 0.5)}
    verification = _described().verification.model_copy(update={"rows": (4,), "error_factor": 4.0})
    signature = Signature(inputs=(_tensor("x"),), outputs=(_tensor("scores"),))
    described = _described(signature=signature, verification=verification)
    bundle = _render(tmp_path / "bundle", described, **arrays, **{"out/4/scores": given})
    content = (bundle / "tests/reference.bin").read_bytes()
    ((*_, outputs, _, allowed, each),) = _cases(bundle)
    tolerance = verification.tolerances["scores"]
    assert allowed[0] == pytest.approx(tolerance.atol + tolerance.rtol * 7)
    limits = np.frombuffer(content, np.float32, 8, each[0]).reshape(4, 2)
    assert limits[:, 0] == pytest.approx([allowed[0], 1.0, np.inf, allowed[0]])
    values = np.frombuffer(content, np.float32, 8, outputs[0]).reshape(4, 2)
    assert (values == given + np.float32(0.5)).all()


def test_the_reference_has_lengths_calls_and_bits(tmp_path: Path) -> None:
    """Inputs are cut to their length; values of bfloat16 are written as their bits."""
    x = _tensor("x", "bfloat16", shape=(None, 4), extents=((1, 0), (0, 1)))
    signature = Signature(inputs=(x,), outputs=(_tensor("scores"),), lengths=(2, 4))
    verification = _described().verification.model_copy(
        update={"rows": (2,), "lengths": (3,), "length_rows": (1,)}
    )
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    arrays = {"in/x": given, "out/2/scores": given[:, :2], "out/1x3/scores": given[:1, :2]}
    described = _described(signature=signature, verification=verification)
    bundle = _render(tmp_path / "bundle", described, **arrays)
    content = (bundle / "tests/reference.bin").read_bytes()
    whole, short = _cases(bundle)
    assert (whole[:2], short[:2]) == ([2, 0], [1, 3])
    bits = np.frombuffer(content, np.uint16, 3, short[3][0])
    assert bits.tolist() == [0x0000, 0x3F80, 0x4000]


def test_the_reference_has_the_calls_of_a_model_with_state(tmp_path: Path) -> None:
    verification = _described().verification.model_copy(update={"rows": (1,), "calls": 3})
    signature = Signature(inputs=(_tensor("x"),), outputs=(_tensor("scores"),))
    arrays: dict[str, Any] = {}
    for call in range(3):
        arrays[f"in@{call}/x"] = np.full((1, 2), call, np.float32)
        arrays[f"out/1@{call}/scores"] = np.full((1, 2), 10 * call, np.float32)
    described = _described(signature=signature, verification=verification)
    bundle = _render(tmp_path / "bundle", described, **arrays)
    content = (bundle / "tests/reference.bin").read_bytes()
    cases = _cases(bundle)
    assert [case[2] for case in cases] == [1, 0, 0]
    firsts = [np.frombuffer(content, np.float32, 1, case[4][0])[0] for case in cases]
    assert firsts == [0, 10, 20]
