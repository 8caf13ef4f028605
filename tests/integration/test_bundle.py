"""Bundles: a model built and tested by make, CMake and pkg-config on a machine without Python in its PATH."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.platforms import host_platform
from tests.containers.apt import UnavailableError
from tests.support.bazel import require_bazel, run_bazel
from tests.support.commands import Done, Modelwheel, run
from tests.support.foreign import run_here, run_musl, run_windows, run_windows_wheel
from tests.support.julia import find_julia
from tests.support.static_arena import run_trapped, run_trapped_by_cmake, trap_options
from tests.support.tools import find_tool, path_without_python
from tests.support.wheels import EVERYWHERE, LEVELS, spec_text, unpack

pytestmark = pytest.mark.slow

HOST = host_platform().name
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

PROGRAM = """\
#include <model_mlp.h>
#include <stdio.h>

int main(void) {
  modelwheel_model *model;
  const modelwheel_status status = model_mlp_create(NULL, &model, NULL, 0);
  if (status != MODELWHEEL_OK) return status == MODELWHEEL_UNSUPPORTED ? 3 : 1;
  printf("%s", model_mlp_name());
  model_mlp_destroy(model);
  return 0;
}
"""

PROJECT = """\
cmake_minimum_required(VERSION 3.21)
project(program LANGUAGES C)
find_package(model_mlp 1.0 REQUIRED)
add_executable(program program.c)
target_link_libraries(program model_mlp::model_mlp)
"""


@pytest.fixture(scope="module")
def spec(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of a wheel that other tests build, so that they compile it for these."""
    text = spec_text("mlp", levels=EVERYWHERE).replace("directory: ", f"directory: {models}/")
    path = tmp_path_factory.mktemp("spec") / "mlp.yaml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def bundle(modelwheel: Modelwheel, spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundles")
    (result,) = modelwheel("bundle", spec, "--out", out, "--json").json
    assert result["bundle"] == str(out / "model_mlp-1.0.0")
    return Path(result["bundle"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with a compiler and make alone."""
    return path_without_python(tmp_path_factory.mktemp("path"))


def make(directory: Path, path: str, *arguments: str, code: int = 0) -> Done:
    """Runs make without Python."""
    return run("make", "-C", directory, *arguments, code=code, PATH=path)


def test_a_bundle_is_built_tested_and_timed_by_make(
    bundle: Path, path: str, tmp_path: Path
) -> None:
    copy = shutil.copytree(bundle, tmp_path / "bundle")
    strict = "CPPFLAGS=-Wpedantic -Wconversion -Werror"
    done = make(copy, path, "-j2", strict, "test", "benchmark")
    for level in LEVELS:
        assert done.out.count(f"\n{level}  ") >= 5  # rows of the compiled batch sizes, and between
    assert "\npassed\n" in done.out
    assert "batch size 4: " in done.out

    # What the test reads decides: other outputs are refused.
    reference = copy / "tests/reference.bin"
    content = bytearray(reference.read_bytes())
    content[-8:] = b"\0\0\0\x41" * 2
    reference.write_bytes(content)
    assert "FAILED" in make(copy, path, "test", code=2).out


def test_with_a_static_arena_nothing_is_allocated(
    modelwheel: Modelwheel, bundle: Path, spec: Path, path: str, tmp_path: Path
) -> None:
    modelwheel("bundle", spec, "--static-arena", "--out", tmp_path)
    static = tmp_path / bundle.name
    for printed in (
        run_trapped(static, tmp_path / "make", path),
        run_trapped_by_cmake(static, tmp_path / "make", path),
    ):
        assert "\npassed\n" in printed
        for level in LEVELS:
            assert printed.count(f"{level}  ") >= 5

    # The library says what it lacks, and the same program with memory of malloc ends in the trap.
    (tmp_path / "program.c").write_text(PROGRAM)
    for directory, option, code in ((static, "", 3), (bundle, trap_options(tmp_path, path), 99)):
        library = directory / "lib" / HOST / "libmodel_mlp.a"
        program = ("-DMODELWHEEL_STATIC", f"-I{directory}/include", tmp_path / "program.c", library)
        run("cc", *program, *option.split(), "-lm", "-o", tmp_path / "program", PATH=path)
        run(tmp_path / "program", code=code)


def test_a_program_finds_the_finished_library(bundle: Path, path: str, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    directory = bundle / "lib" / HOST
    cmake = find_tool("cmake")
    package = f"-Dmodel_mlp_DIR={directory}/cmake/model_mlp"
    generator = ("-G", "Unix Makefiles")
    run(cmake, *generator, "-S", tmp_path, "-B", tmp_path / "build", package, PATH=path)
    run(cmake, "--build", tmp_path / "build", PATH=path)
    assert run(tmp_path / "build" / "program").out == "mlp"
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    options = run(
        "pkg-config", "--cflags", "--libs", "model_mlp", PKG_CONFIG_PATH=f"{directory}/pkgconfig"
    ).out.split()
    run("cc", tmp_path / "program.c", *options, "-o", tmp_path / "program", PATH=path)
    assert run(tmp_path / "program").out == "mlp"


@pytest.mark.skipif(HOST != "linux-x86_64", reason="musl-gcc compiles for this machine")
def test_the_library_serves_musl_with_the_same_bits(bundle: Path, tmp_path: Path) -> None:
    try:
        assert run_musl(bundle, tmp_path) == run_here(bundle, tmp_path)
    except UnavailableError as problem:
        pytest.skip(str(problem))


def write_rows(bundle: Path, path: Path) -> np.ndarray[Any, Any]:
    """Writes seven recorded rows as the examples read them; returns what the model made of them."""
    header = (bundle / "tests/reference.h").read_text()
    case = re.findall(r"^    (\{7,.*\}),$", header, re.MULTILINE)[0]
    values = ast.literal_eval(case.replace("{", "[").replace("}", "]"))
    inputs, outputs, elements = values[3:6]
    content = (bundle / "tests/reference.bin").read_bytes()
    path.write_bytes(content[inputs[0] : inputs[0] + 7 * 4 * 4])
    return np.frombuffer(content, np.float32, elements[0], outputs[0])


def test_the_example_in_rust_computes_what_the_model_did(bundle: Path, tmp_path: Path) -> None:
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    source = (EXAMPLES / "predict.rs").read_text().replace("model_digits", "model_mlp")
    (tmp_path / "predict.rs").write_text(source)
    options = ("-L", bundle / "lib" / HOST, "-l", "static=model_mlp", "-l", "m")
    run("rustc", "-D", "warnings", tmp_path / "predict.rs", *options, "-o", tmp_path / "predict")
    expected = write_rows(bundle, tmp_path / "rows")
    computed = run(tmp_path / "predict", tmp_path / "rows").out.split()
    np.testing.assert_allclose(np.array(computed, np.float32), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
def test_the_example_in_julia_computes_what_the_model_did(
    modelwheel: Modelwheel, bundle: Path, spec: Path, tmp_path: Path
) -> None:
    try:
        julia = find_julia(tmp_path / "debian", tmp_path)
    except UnavailableError as problem:
        pytest.skip(str(problem))
    modelwheel("build", spec, "--out", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    library = unpack(wheel, tmp_path / "wheel") / "model_mlp/lib/libmodel_mlp.so"
    source = (EXAMPLES / "predict.jl").read_text().replace("model_digits", "model_mlp")
    (tmp_path / "predict.jl").write_text(source)
    expected = write_rows(bundle, tmp_path / "rows")
    computed = run(*julia, tmp_path / "predict.jl", library, tmp_path / "rows").out.split()
    np.testing.assert_allclose(np.array(computed, np.float32), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(HOST != "linux-x86_64", reason="Bazel is Debian's for this processor")
def test_bazel_builds_a_program_and_runs_the_test(bundle: Path, tmp_path: Path) -> None:
    require_bazel()
    copy = shutil.copytree(bundle, tmp_path / "bundle")
    printed = run_bazel(tmp_path, copy, PROGRAM)
    for level in LEVELS:
        assert printed.count(f"\n{level}  ") >= 5
    assert "\npassed\n" in printed
    assert "//:program " in printed  # the one that is linked with @model_mlp


def test_nothing_else_is_replaced(modelwheel: Modelwheel, spec: Path, tmp_path: Path) -> None:
    other = tmp_path / "model_mlp-1.0.0"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    failed = modelwheel("bundle", spec, "--out", tmp_path, code=2)
    assert "exists and is not a bundle" in failed.err
    assert [path.name for path in tmp_path.rglob("*")] == ["model_mlp-1.0.0", "thesis.tex"]


@pytest.mark.exhaustive
@pytest.mark.skipif(HOST != "linux-x86_64", reason="cross-builds are for Linux on x86-64")
def test_bundles_for_other_platforms_are_the_same_bytes_each_time(
    spec: Path, tmp_path: Path
) -> None:
    platforms = "linux-x86_64,linux-aarch64,windows-amd64,macos-arm64"
    found = []
    for number in (1, 2):
        # A store of its own, so that everything is built again, elsewhere.
        other = Modelwheel(tmp_path / f"cache{number}")
        out = tmp_path / f"out{number}"
        other("bundle", spec, "--platform", platforms, "--batch-size", "1", "--out", out)
        found.append((out / "model_mlp-1.0.0" / "SHA256SUMS").read_text())
    assert found[0] == found[1]
    for platform in platforms.split(","):
        assert f"lib/{platform}/libmodel_mlp.a" in found[0]


@pytest.mark.exhaustive
@pytest.mark.skipif(HOST != "linux-x86_64", reason="Wine runs programs for this processor")
def test_the_libraries_for_windows_compute_the_same_bits_under_wine(
    modelwheel: Modelwheel, models: Path, tmp_path: Path
) -> None:
    levels = ("x86-64", "x86-64-v2", "x86-64-v3")
    text = spec_text("mlp", levels=levels, more="package: {bindings: shared}")
    spec = tmp_path / "mlp.yaml"
    text = text.replace("[1, 4]", "[1, 3, 8]")  # seven numbers of rows are compared
    spec.write_text(text.replace("directory: ", f"directory: {models}/"))
    platforms = "linux-x86_64,windows-amd64"
    modelwheel("bundle", spec, "--platform", platforms, "--out", tmp_path)
    bundle = tmp_path / "model_mlp-1.0.0"
    modelwheel("compile", spec, "--platform", "windows-amd64", "--out", tmp_path)
    (sdist,) = tmp_path.glob("*.tar.gz")
    modelwheel("wheel", sdist, "--cross", "win_amd64", "--out", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    try:
        lines = run_windows(bundle, tmp_path)
        assert run_windows_wheel(wheel, bundle, tmp_path) == lines
    except UnavailableError as problem:
        pytest.skip(str(problem))
    assert lines == run_here(bundle, tmp_path)
    assert [
        lines.count(f"{level}  {rows} rows  ")
        for level in levels
        for rows in (1, 2, 3, 6, 8, 11, 16)
    ] == [1] * 21
