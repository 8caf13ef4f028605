"""Cross-building as far as it goes without a compiler: targets, the Python that is built for, names, mistakes."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import zipfile
from pathlib import Path

import lief
import pytest
from packaging.utils import parse_wheel_filename

from modelwheel.errors import EnvironmentProblemError, UsageError, WheelError
from modelwheel.platforms import PLATFORMS, WheelPlatform
from modelwheel.release.cross import CROSS_TARGETS, build_wheels, find_target
from modelwheel.release.cross.build import (
    TOOLCHAIN,
    build_environment,
    extension_environment,
    module_suffix,
    require_name,
)
from modelwheel.release.cross.interpreter import Interpreter, find_interpreter
from modelwheel.release.cross.mach_o import hide_symbols
from modelwheel.release.cross.targets import python_platform
from tests.support.commands import Modelwheel, run

X86_64 = CROSS_TARGETS["manylinux_2_17_x86_64"]
AARCH64 = CROSS_TARGETS["manylinux_2_17_aarch64"]
MUSL = CROSS_TARGETS["musllinux_1_2_aarch64"]
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


def fake_interpreter(include: Path = Path("include"), flags: str = "") -> Interpreter:
    return Interpreter(
        executable=sys.executable,
        version="3.13",
        flags=flags,
        include=str(include),
        multiarch="x86_64-linux-gnu",
    )


# --- targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", CROSS_TARGETS)
def test_parts_of_a_target_agree(tag: str) -> None:
    target = CROSS_TARGETS[tag]
    platform = PLATFORMS[target.platform]
    assert target.zig.startswith(f"{platform.architecture}-{platform.system}")
    (parsed,) = parse_wheel_filename(f"model_x-1.0-py3-none-{target.cross_tag}.whl")[3]
    assert parsed.platform.endswith(platform.name.partition("-")[2])


def test_platforms_of_python() -> None:
    found = {tag: python_platform(target) for tag, target in CROSS_TARGETS.items()}
    assert found["musllinux_1_2_aarch64"] == "linux-aarch64"
    assert found["manylinux_2_17_x86_64"] == "linux-x86_64"
    assert found["macosx_11_0_arm64"] == "macosx_11_0_arm64"
    assert [target.libc for target in (AARCH64, MUSL)] == ["glibc", "musl"]


@pytest.mark.parametrize(
    ("tag", "built"),
    [
        ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64"),
        ("manylinux2014_aarch64", "manylinux_2_17_aarch64"),
        ("manylinux_2_39_aarch64", "manylinux_2_17_aarch64"),
    ],
)
def test_wheels_for_an_older_library_serve_newer_tags(tag: str, built: str) -> None:
    assert find_target(tag).cross_tag == built


@pytest.mark.parametrize(
    "tag", ["manylinux_2_12_x86_64", "manylinux_2_28_riscv64", "manylinux_3_x86_64"]
)
def test_tags_that_no_wheel_serves(tag: str) -> None:
    with pytest.raises(UsageError, match=f"cannot cross-build for '{tag}'"):
        find_target(tag)


def test_unknown_target() -> None:
    with pytest.raises(UsageError, match=r"; did you mean 'manylinux_2_17_aarch64'\?"):
        find_target("manylinux_2_17_arm64")
    with pytest.raises(UsageError, match=r"choose from manylinux_2_17_x86_64, .*win_amd64"):
        find_target("linux")


# --- the Python that is built for -----------------------------------------------------------------


def test_this_python() -> None:
    found = find_interpreter(None)
    assert found.is_this
    assert found.name == THIS
    assert found == find_interpreter(THIS)
    assert Path(found.include) == Path(sysconfig.get_path("include"))


def test_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that do not run, as pyenv leaves them on PATH, and those of other versions are passed over."""
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = '{"executable": "/x/python", "version": "3.99", "flags": "t", "include": "/i", "multiarch": ""}'
    write_program(tmp_path / "python3.99t", "exit 127")
    write_program(tmp_path / "python3.99", f"echo '{answer}'")
    found = find_interpreter("3.99t")
    assert (found.executable, found.digits, found.is_this) == ("/x/python", "399t", False)
    with pytest.raises(EnvironmentProblemError, match=r"put a `python3\.99` on PATH, or build for"):
        find_interpreter("3.99")


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("version", ["three", "3", "3.9.1", "cp311", ""])
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(
        UsageError, match=r"is not a version of Python; examples are 3\.12 and 3\.13t"
    ):
        find_interpreter(version)


def test_headers_of_debian(tmp_path: Path) -> None:
    """What depends on the architecture is found in a directory that a cross compiler does not search."""
    include = tmp_path / "usr" / "include" / "python3.13"
    actual = include.parent / "x86_64-linux-gnu" / "python3.13"
    for directory in (include / "cpython", actual):
        directory.mkdir(parents=True)
    (include / "Python.h").write_text("Python")
    (include / "cpython" / "object.h").write_text("object")
    (include / "pyconfig.h").write_text("#include <aarch64-linux-gnu/python3.13/pyconfig.h>")
    (actual / "pyconfig.h").write_text("#define SIZEOF_LONG 8")
    staged = fake_interpreter(include).stage_headers(tmp_path)
    assert (staged / "Python.h").read_text() == "Python"
    assert (staged / "cpython" / "object.h").read_text() == "object"
    assert (staged / "pyconfig.h").read_text() == "#define SIZEOF_LONG 8"


def test_no_headers(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblemError, match=r"`apt install python3\.13t-dev`"):
        fake_interpreter(tmp_path, "t").stage_headers(tmp_path)


# --- what the build is told -----------------------------------------------------------------------


def test_environment_of_a_build(tmp_path: Path) -> None:
    environment = build_environment(AARCH64)
    assert environment["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
    assert environment["MODELWHEEL_ZIG_TARGET"] == "aarch64-linux-gnu.2.17"
    assert environment["CMAKE_ARGS"] == f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}"
    assert os.access(environment["MODELWHEEL_ZIG"], os.X_OK)
    assert environment["PATH"].startswith(sysconfig.get_path("scripts"))
    include = tmp_path / "python3.13"
    include.mkdir()
    (include / "Python.h").touch()
    (tmp_path / "staged").mkdir()
    more = extension_environment(AARCH64, fake_interpreter(include), tmp_path / "staged")
    assert more["SETUPTOOLS_EXT_SUFFIX"] == ".cpython-313-aarch64-linux-gnu.so"
    headers = tmp_path / "staged" / "python3.13"
    assert more["CMAKE_ARGS"].endswith(f" -DPython_INCLUDE_DIR={headers}")


@pytest.mark.parametrize(
    ("target", "flags", "suffix"),
    [
        (X86_64, "", ".cpython-313-x86_64-linux-gnu.so"),
        (MUSL, "", ".cpython-313-aarch64-linux-musl.so"),
        (X86_64, "t", ".cpython-313t-x86_64-linux-gnu.so"),
    ],
)
def test_suffixes_of_extensions(target: WheelPlatform, flags: str, suffix: str) -> None:
    assert module_suffix(target, fake_interpreter(flags=flags)) == suffix


@pytest.mark.parametrize("tool", ["ziglang", "auditwheel"])
def test_tools_that_are_missing(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == tool else real(name)
    )
    with pytest.raises(EnvironmentProblemError, match=rf"requires {tool}, .*modelwheel\[release\]"):
        list(build_wheels([], X86_64, None, tmp_path))


def test_what_is_no_source_distribution(tmp_path: Path) -> None:
    sdist = tmp_path / "model_x-1.0.tar.gz"
    sdist.write_bytes(b"not packed")
    (outcome,) = build_wheels([sdist], X86_64, None, tmp_path / "out")
    assert isinstance(outcome.error, WheelError)
    assert str(sdist) in str(outcome.error)
    assert list((tmp_path / "out").iterdir()) == []


# --- names of what was built ----------------------------------------------------------------------


def write_wheel(directory: Path, tags: str, *members: str) -> Path:
    path = directory / f"model_x-1.0-{tags}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member in (
            "model_x/__init__.py",
            "model_x/_core.pyi",
            "model_x/lib/libmodel_x.so",
            *members,
        ):
            archive.writestr(member, "")
    return path


def test_right_names(tmp_path: Path) -> None:
    tags = "cp313-cp313-manylinux2014_aarch64.manylinux_2_17_aarch64"
    module = "model_x/_core.cpython-313-aarch64-linux-gnu.so"
    require_name(write_wheel(tmp_path, tags, module), AARCH64, fake_interpreter())
    tags = "cp313-cp313t-manylinux_2_17_aarch64"
    module = "model_x/_core.cpython-313t-aarch64-linux-gnu.so"
    require_name(write_wheel(tmp_path, tags, module), AARCH64, fake_interpreter(flags="t"))
    require_name(write_wheel(tmp_path, "py3-none-manylinux_2_17_aarch64"), AARCH64, None)


@pytest.mark.parametrize(
    "tags",
    [
        "cp313-cp313-manylinux_2_27_aarch64",
        "cp313-cp313-linux_aarch64",
        "cp312-cp312-manylinux_2_17_aarch64",
        "cp313-cp313t-manylinux_2_17_aarch64",
        "py3-none-manylinux_2_17_aarch64",
        "cp313-cp313-manylinux_2_17_x86_64",
    ],
)
def test_wrong_tags(tags: str, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, tags, "model_x/_core.cpython-313-aarch64-linux-gnu.so")
    with pytest.raises(
        WheelError, match="should be a wheel for cp313-cp313-manylinux_2_17_aarch64"
    ):
        require_name(wheel, AARCH64, fake_interpreter())


@pytest.mark.parametrize(
    "modules",
    [
        (),
        ("model_x/_core.cpython-313-x86_64-linux-gnu.so",),
        ("model_x/_core.cpython-313-aarch64-linux-gnu.so", "model_x/other.so"),
    ],
)
def test_wrong_modules(modules: tuple[str, ...], tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "cp313-cp313-manylinux_2_17_aarch64", *modules)
    with pytest.raises(WheelError, match=r"the extension _core\.cpython-313-aarch64-linux-gnu\.so"):
        require_name(wheel, AARCH64, fake_interpreter())


# --- Mach-O ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["aarch64", "x86_64"])
def test_symbols_are_hidden(architecture: str, tmp_path: Path) -> None:
    """All that are defined; what an object takes from elsewhere stays visible."""
    source, path = tmp_path / "a.c", tmp_path / "a.o"
    source.write_text("int elsewhere(void); int here = 1; static int f(void) { return here; }\n")
    with source.open("a") as file:
        file.write("int g(void) { return elsewhere() + f(); }\n")
    zig = build_environment(X86_64)["MODELWHEEL_ZIG"]
    run(zig, "cc", "-target", f"{architecture}-macos", "-g", "-O1", "-c", source, "-o", path)
    assert visible_symbols(path) == {"_here", "_g", "_elsewhere"}
    hide_symbols(path)
    assert visible_symbols(path) == {"_elsewhere"}
    hidden = path.read_bytes()
    hide_symbols(path)
    assert path.read_bytes() == hidden


def visible_symbols(path: Path) -> set[str]:
    """N_EXT without N_PEXT (mach-o/nlist.h)."""
    binary = lief.parse(str(path))
    assert isinstance(binary, lief.MachO.Binary)
    return {str(symbol.name) for symbol in binary.symbols if symbol.raw_type & 0x11 == 0x01}


# --- the command line -----------------------------------------------------------------------------


def test_an_unknown_platform_tag(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").touch()
    done = Modelwheel(tmp_path)(
        "wheel", tmp_path / "x.tar.gz", "--cross", "solaris", code=UsageError.exit_code
    )
    assert "cannot cross-build for 'solaris'; choose from" in done.err
