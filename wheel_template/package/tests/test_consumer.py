"""Programs in C and C++, built against the installed wheel, compute the same bytes as Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

SOURCES = Path(__file__).with_name("consumer")


def run(*command, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need(tool):
    """The path of a program, in this environment or on PATH; without it the test is skipped."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which(tool, path=path)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


@pytest.fixture(autouse=True, scope="session")
def _has_headers(interfaces):
    if "c" not in interfaces:
        pytest.skip("the wheel has no headers")


@pytest.fixture(scope="session")
def programs(package, interfaces, tmp_path_factory):
    """The directory with the consumers, built by CMake from what the wheel installed."""
    need("cc")
    need("c++")
    cmake = need("cmake")
    directory = tmp_path_factory.mktemp("consumer")
    name = package.__name__
    definitions = (f"-DMODEL={name}", f"-D{name}_DIR={package.get_cmake_dir()}")
    definitions = (*definitions, f"-DHAS_CPP={'cpp' in interfaces}")
    run(cmake, "-S", SOURCES, "-B", directory, *definitions)
    run(cmake, "--build", directory)
    return directory


def check(package, arrays, tmp_path, rows, *command):
    """Runs a consumer on these inputs and compares its outputs with those of Python."""
    model, by_row = package.Model(), command[-1] == "tfaot"
    for index, (spec, array) in enumerate(zip(model.inputs, arrays, strict=True)):
        (tmp_path / f"input_{index}").write_bytes(to_bytes(spec, array, by_row))
    run(*command[:1], tmp_path, rows, *command[1:])
    expected = model(*arrays)
    expected = [expected] if isinstance(expected, np.ndarray) else list(expected.values())
    for index, (spec, array) in enumerate(zip(model.outputs, expected, strict=True)):
        assert (tmp_path / f"output_{index}").read_bytes() == to_bytes(spec, array, by_row)


def to_bytes(spec, array, by_row):
    """An array as files have it: with the model's axes, or one row after the other."""
    return (
        np.moveaxis(array, spec.batch_axis, 0) if by_row and spec.batch_axis else array
    ).tobytes()


def test_c(package, arrays, sample, programs, tmp_path):
    check(package, arrays, tmp_path, sample.rows, programs / "consumer_c")


@pytest.mark.parametrize("standard", [17, 20])
def test_cpp(package, arrays, sample, programs, tmp_path, cpp_interface, standard):
    program = programs / f"consumer_cpp{standard}"
    check(package, arrays, tmp_path, sample.rows, program, cpp_interface)


def test_tfcompile_classes(package, samples, programs, tmp_path, library, interfaces):
    if "cpp" not in interfaces:
        pytest.skip("the wheel has no headers for C++")
    sample = samples[-1]
    sizes = [size for size in package.Model.batch_sizes if size <= sample.rows]
    if not sizes:
        pytest.skip("the sample has fewer rows than the smallest batch size")
    for size in sizes if library.no_emulation_reason is None else sizes[-1:]:
        part = sample.first(size) if library.batched else sample
        arrays = [part.arguments[spec.name] for spec in package.Model.inputs]
        check(package, arrays, tmp_path, size, programs / "consumer_cpp17", "tfcompile")


def test_the_tool_file_of_scram_has_the_directory(package, interfaces):
    if "cmssw" not in interfaces:
        pytest.skip("the wheel has no tool file")
    tool = ET.fromstring(run(sys.executable, "-m", package.__name__, "--scram"))
    base, *places = (one.attrib for one in tool.findall("client/environment"))
    root = Path(package.__file__).parent
    assert Path(base["default"]) == root
    found = {one["name"]: one["default"].replace(f"${base['name']}", str(root)) for one in places}
    assert Path(found["LIBDIR"]) == root / "lib"
    assert Path(found["INCLUDE"], f"{tool.attrib['name']}", "model.h").is_file()


def test_flags_of_the_package(package, arrays, sample, tmp_path):
    compiler = need("cc")
    flags = run(sys.executable, "-m", package.__name__, "--cflags", "--libs").split()
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]
    run(compiler, *strict, SOURCES / "main.c", "-o", tmp_path / "by_flags", *flags)
    check(package, arrays, tmp_path, sample.rows, tmp_path / "by_flags")


def test_pkg_config(package, arrays, sample, tmp_path):
    compiler = need("cc")
    pkg_config = need("pkg-config")
    search = {"PKG_CONFIG_PATH": package.get_pkgconfig_dir()}
    flags = run(pkg_config, "--cflags", "--libs", package.__name__, **search).split()
    version = run(pkg_config, "--modversion", package.__name__, **search)
    assert version.strip() == package.__version__
    run(compiler, "-std=c99", SOURCES / "main.c", "-o", tmp_path / "by_pkg_config", *flags)
    check(package, arrays, tmp_path, sample.rows, tmp_path / "by_pkg_config")
