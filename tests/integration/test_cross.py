"""Wheels for other systems, cross-built with zig: what they are called, what they hold, what they compute."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lief
import pytest

from modelwheel.errors import WheelError
from modelwheel.levels import LEVELS as ALL_LEVELS
from modelwheel.levels import cmake_flags
from modelwheel.packaging.sdist import unpack
from modelwheel.platforms import PLATFORMS, host_platform
from modelwheel.release.cross import CROSS_TARGETS
from modelwheel.release.cross.build import build_environment
from modelwheel.wheelfile.reports import BENCH_SUFFIX, read_timings
from tests.support.commands import Modelwheel, run
from tests.support.emulation import VERSION, ArmPython, UnavailableError, make_python
from tests.support.kernels import include_options, write_instances
from tests.support.wheels import make_environment, spec_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,  # zig compiles the C and C++ libraries of each platform first
    pytest.mark.skipif(
        host_platform().name != "linux-x86_64", reason="cross-builds are for Linux on x86-64"
    ),
]

LEVELS = ("x86-64", "x86-64-v3", "armv8-a", "armv8.2-a+fp16+dotprod")
CPYTHON = f"cp{VERSION.replace('.', '')}"
EXTENSION = "manylinux_2_17_aarch64"
"""With an extension, for which zig first compiles a C++ library: two minutes of CPU time for each target."""

THIS = "manylinux_2_17_x86_64"
SHARED = (
    THIS,
    *("musllinux_1_2_x86_64", "macosx_11_0_arm64", "macosx_10_15_x86_64", "win_amd64"),
)
"""Without: `package.bindings: shared`."""

OF_THE_LINKER = {"__mh_dylib_header", "___dso_handle"}
"""What zig's linker for macOS exports of its own."""


@dataclass(frozen=True)
class Cross:
    """Two source distributions of one model and what was made of them."""

    own: Path
    """With an extension in its wheels."""
    shared: Path
    wheels: dict[str, Path]
    """By their platform tag."""


@pytest.fixture(scope="module")
def cross(modelwheel: Modelwheel, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Cross:
    work = tmp_path_factory.mktemp("cross")
    sdists = {}
    for shape in ("extension", "shared"):
        text = spec_text("mlp", levels=LEVELS, more=f"package: {{bindings: {shape}}}")
        spec = work / f"{shape}.yaml"
        spec.write_text(text.replace("directory: ", f"directory: {models}/"))
        (result,) = modelwheel("compile", "--json", "--out", work / shape, spec).json
        sdists[shape] = Path(result["sdist"])
    outcomes = cross_build(modelwheel, sdists["extension"], work / "wheels", EXTENSION)
    outcomes += cross_build(modelwheel, sdists["shared"], work / "wheels", *SHARED)
    wheels = [Path(outcome["wheels"][0]) for outcome in outcomes]
    return Cross(
        sdists["extension"], sdists["shared"], dict(zip((EXTENSION, *SHARED), wheels, strict=True))
    )


def cross_build(modelwheel: Modelwheel, sdist: Path, out: Path, *tags: str) -> list[dict[str, Any]]:
    options = [option for tag in tags for option in ("--cross", tag)]
    outcomes: list[dict[str, Any]] = modelwheel(
        "wheel", sdist, *options, "--out", out, "--json"
    ).json
    return outcomes


def test_names(cross: Cross) -> None:
    names = {
        tag: wheel.name.removesuffix(".whl").split("-", 2)[2] for tag, wheel in cross.wheels.items()
    }
    assert names == {
        EXTENSION: f"{CPYTHON}-{CPYTHON}-manylinux2014_aarch64.{EXTENSION}",
        **{tag: f"py3-none-{tag}" for tag in SHARED},
        THIS: f"py3-none-manylinux2014_x86_64.{THIS}",
    }


def test_extensions_are_those_of_the_target(cross: Cross) -> None:
    with zipfile.ZipFile(cross.wheels[EXTENSION]) as archive:
        binaries = {name for name in archive.namelist() if ".so" in name}
    module = f"_core.cpython-{VERSION.replace('.', '')}-aarch64-linux-gnu.so"
    assert binaries == {f"model_mlp/{module}", "model_mlp/lib/libmodel_mlp.so"}


def test_wheel_for_this_machine_predicts(
    modelwheel: Modelwheel, cross: Cross, tmp_path: Path
) -> None:
    modelwheel("runtime", "--wheel", "--out", tmp_path / "runtime")
    (runtime,) = (tmp_path / "runtime").glob("*.whl")
    python = make_environment(tmp_path / "environment", runtime, cross.wheels[THIS])
    report = run(python, "-m", "model_mlp", "selftest", "--json").out
    judge(report, {"x86-64", "x86-64-v3"})


def judge(report: str, levels: set[str]) -> None:
    result = json.loads(report)
    assert result["passed"]
    assert {one["level"] for one in result["comparisons"]} | set(result["skipped"]) == levels


def test_building_again_elsewhere_gives_the_same_bytes(
    modelwheel: Modelwheel, cross: Cross, tmp_path: Path
) -> None:
    (outcome,) = cross_build(modelwheel, cross.own, tmp_path / "out", EXTENSION)
    (again,) = outcome["wheels"]
    assert Path(again).read_bytes() == cross.wheels[EXTENSION].read_bytes()
    assert {path.name.removeprefix(Path(again).name) for path in (tmp_path / "out").iterdir()} == {
        "",
        BENCH_SUFFIX,
    }
    assert read_timings(Path(again)) == read_timings(cross.own) != ()  # those of the framework


# --- on an emulated processor ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def arm(cross: Cross, tmp_path_factory: pytest.TempPathFactory) -> ArmPython:
    """Python for aarch64 with the wheel and what its tests need."""
    wheel = cross.wheels[EXTENSION]
    try:
        return make_python(tmp_path_factory.mktemp("arm"), "pytest", wheel)
    except UnavailableError as problem:
        pytest.skip(str(problem))


@pytest.mark.usefixtures("arm")  # which skips where qemu or Debian's Python is missing
def test_numbers_on_aarch64_at_every_level(modelwheel: Modelwheel, cross: Cross) -> None:
    done = modelwheel("verify", "--emulate", "--json", cross.wheels[EXTENSION])
    (result,) = json.loads(done.out)
    report = result["report"]
    assert report["passed"]
    assert report["skipped"] == {}
    assert report["emulated"] == list(LEVELS[2:])
    assert {one["level"] for one in report["comparisons"]} == set(LEVELS[2:])


def test_levels_beyond_the_cpu_are_not_run(arm: ArmPython) -> None:
    """The Cortex-A53 has Armv8.0-A alone."""
    result = json.loads(arm("-m", "model_mlp", "selftest", "--json", cpu="cortex-a53").out)
    assert result["passed"]
    assert {one["level"] for one in result["comparisons"]} == {"armv8-a"}
    assert "the highest it can run here is: armv8-a" in result["skipped"]["armv8.2-a+fp16+dotprod"]


def test_the_tests_that_travel_with_the_model_pass_on_aarch64(
    arm: ArmPython, cross: Cross, tmp_path: Path
) -> None:
    tests = unpack(cross.own, tmp_path) / "tests"
    # Under qemu, processes whose threads are in calls end by SIGSEGV
    # when they fork or end. On real machines these tests run with the wheels of a release.
    emulated = "not daemon_threads and not forks_while_threads"
    done = arm("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", emulated, tests)
    summary = done.out.strip().rpartition("\n")[2]
    assert " passed" in summary
    assert "failed" not in summary


# --- looked at, not run ---------------------------------------------------------------------------


def unpacked_library(cross: Cross, tag: str, directory: Path) -> Any:
    """The model's library, parsed."""
    name = {"macosx": "lib/libmodel_mlp.dylib", "win": "model_mlp.dll"}.get(
        tag.partition("_")[0], "lib/libmodel_mlp.so"
    )
    with zipfile.ZipFile(cross.wheels[tag]) as archive:
        return lief.parse(archive.extract(f"model_mlp/{name}", directory))


@pytest.fixture(scope="module")
def functions(cross: Cross, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What the library for glibc exports."""
    library = unpacked_library(cross, THIS, tmp_path_factory.mktemp("library"))
    names = {str(symbol.name) for symbol in library.exported_symbols}
    assert {"model_mlp_api", "model_mlp_create", "model_mlp_run"} < names
    assert all(name.startswith("model_mlp_") for name in names)
    return names


def test_musl(cross: Cross, functions: set[str], tmp_path: Path) -> None:
    library = unpacked_library(cross, "musllinux_1_2_x86_64", tmp_path)
    assert library.format == lief.Binary.FORMATS.ELF
    assert library.header.machine_type == lief.ELF.ARCH.X86_64
    assert {str(symbol.name) for symbol in library.exported_symbols} == functions
    assert list(library.libraries) == ["libc.so"]
    assert not library.symbols_version_requirement


@pytest.mark.parametrize(
    ("tag", "processor", "oldest"),
    [("macosx_11_0_arm64", "ARM64", [11, 0, 0]), ("macosx_10_15_x86_64", "X86_64", [10, 15, 0])],
)
def test_macos(
    cross: Cross, functions: set[str], tmp_path: Path, tag: str, processor: str, oldest: list[int]
) -> None:
    library = unpacked_library(cross, tag, tmp_path)
    assert library.format == lief.Binary.FORMATS.MACHO
    assert library.header.cpu_type == getattr(lief.MachO.Header.CPU_TYPE, processor)
    assert library.build_version.minos == oldest
    exported = {str(export.symbol.name) for export in library.dyld_info.exports}
    assert exported - OF_THE_LINKER == {f"_{name}" for name in functions}
    assert [str(one.name) for one in library.libraries] == [
        "@rpath/libmodel_mlp.dylib",
        "/usr/lib/libSystem.B.dylib",
    ]
    # Apple's processors run nothing that is not signed.
    assert library.has_code_signature == (processor == "ARM64")


def test_windows(cross: Cross, functions: set[str], tmp_path: Path) -> None:
    library = unpacked_library(cross, "win_amd64", tmp_path)
    assert library.format == lief.Binary.FORMATS.PE
    assert library.header.machine == lief.PE.Header.MACHINE_TYPES.AMD64
    assert {str(entry.name) for entry in library.get_export().entries} == functions
    imported = {str(one.name).lower() for one in library.imports}
    assert all(name.startswith("api-ms-win-crt-") or name == "kernel32.dll" for name in imported)
    with zipfile.ZipFile(cross.wheels["win_amd64"]) as archive:
        names = set(archive.namelist())
        pkg_config = archive.read("model_mlp/lib/pkgconfig/model_mlp.pc").decode()
    assert {
        "model_mlp/model_mlp.dll",
        "model_mlp/lib/model_mlp.lib",
    } <= names  # the latter to link with
    assert "\nLibs: -L${libdir} -lmodel_mlp\n" in pkg_config  # without a path to search


# --- what can go wrong ----------------------------------------------------------------------------


def test_a_source_distribution_without_that_platform(
    modelwheel: Modelwheel, cross: Cross, tmp_path: Path
) -> None:
    spec = cross.own.parent.parent / "extension.yaml"
    options = ("--json", "--platform", "linux-x86_64", "--out", tmp_path)
    (result,) = modelwheel("compile", *options, spec).json
    wheels = (
        "wheel",
        result["sdist"],
        "--cross",
        "manylinux_2_17_aarch64",
        "--out",
        tmp_path / "out",
    )
    done = modelwheel(*wheels, code=WheelError.exit_code)
    assert "has no machine code for linux-aarch64; it was compiled for linux-x86_64" in done.err
    assert list((tmp_path / "out").iterdir()) == []


def test_extensions_that_cannot_be_cross_built(
    modelwheel: Modelwheel, cross: Cross, tmp_path: Path
) -> None:
    wheels = ("wheel", cross.own, "--cross", "win_amd64", "--out", tmp_path)
    done = modelwheel(*wheels, code=WheelError.exit_code)
    assert "no headers of Python for windows-amd64" in done.err
    assert "`package.bindings: shared`" in done.err


# --- kernels --------------------------------------------------------------------------------------

WARNINGS = (
    *("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"),
    "-Wno-unused-command-line-argument",  # of those that zig itself adds
)


@pytest.mark.parametrize("tag", CROSS_TARGETS)
def test_kernels_compile_without_warnings(tag: str, tmp_path: Path) -> None:
    target = CROSS_TARGETS[tag]
    architecture = PLATFORMS[target.platform].architecture
    level = [level for level in ALL_LEVELS.values() if level.architecture == architecture][-1]
    instances = tmp_path / "instances.cpp"
    write_instances(instances)
    run(
        build_environment(target)["MODELWHEEL_ZIG"],
        *("c++", "-target", target.zig, "-std=c++17", "-fno-exceptions", "-fno-rtti", *WARNINGS),
        *zig_flags(level.identifier),
        *include_options(tmp_path),
        *(f"-DMODELWHEEL_LEVEL={level.identifier}", "-O0", "-fno-sanitize=all"),
        *("-c", instances, "-o", tmp_path / "kernels.o"),
    )


def zig_flags(identifier: str) -> list[str]:
    """As in levels.cmake: the last ones are zig's."""
    line = cmake_flags().rpartition(f"set(LEVEL_FLAGS_{identifier} ")[2]
    return line.partition(")")[0].split()
