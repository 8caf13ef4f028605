"""Properties that every wheel must have, on wheels of tiny models."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import zipfile
from pathlib import Path, PurePosixPath

import lief
import numpy as np
import pytest

from modelwheel.errors import VerifyError
from modelwheel.levels import LEVELS as ALL_LEVELS
from tests.support.commands import Done, Modelwheel, run
from tests.support.interrupting import Rebuilt
from tests.support.tools import cmake, search_path
from tests.support.wheels import HOST, LEVELS, LOWEST, SPECS, WITH_HEADERS, Built

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).with_name("programs")

STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror")


def python(built: Built, script: str, **environment: str) -> Done:
    """Runs Python, with all wheels and whatever the tests themselves have installed."""
    environment["PYTHONPATH"] = str(built.packages)
    return run(sys.executable, "-c", script, code=0, umask=-1, **environment)


def compile_program(built: Built, name: str, model: str, directory: Path) -> Path:
    """Compiles a C program against a wheel, with the flags that the wheel tells."""
    module, program = built.module(model), directory / name
    command = (sys.executable, "-m", module, "--cflags", "--libs")
    flags = run(*command, PYTHONPATH=str(built.packages)).out.split()
    source = PROGRAMS / f"{name}.c"
    run("cc", *STRICT, f"-DMODEL={module}", source, "-o", program, *flags)
    return program


# --- the same bytes -------------------------------------------------------------------------------


def test_two_builds_give_the_same_bytes(built: Built, rebuilt: Rebuilt) -> None:
    """Another directory, home, store, time zone, umask, hash seed and CXXFLAGS."""
    again = Path(rebuilt.result["wheel"])
    assert again.name == built.wheel("mlp").name
    assert again.read_bytes() == built.wheel("mlp").read_bytes()


def test_another_user_gets_the_same_bytes(built: Built, rebuilt: Rebuilt) -> None:
    """The same build as above, which another user has ended."""
    if not rebuilt.other_user:
        pytest.skip("this machine lets nobody have a user namespace (unshare --user)")
    assert Path(rebuilt.result["wheel"]).read_bytes() == built.wheel("mlp").read_bytes()


@pytest.mark.parametrize("name", SPECS)
def test_no_path_of_this_machine_is_in_any_file(built: Built, name: str) -> None:
    home = str(Path.home()).encode()
    places = [str(built.packages.parents[1]).encode(), sys.prefix.encode(), home + b"/", b"/tmp/"]
    with zipfile.ZipFile(built.wheel(name)) as archive:
        for member in archive.namelist():
            content = archive.read(member)
            assert not [place for place in places if place in content], member


@pytest.mark.parametrize("name", SPECS)
def test_members_of_the_archive(built: Built, name: str) -> None:
    with zipfile.ZipFile(built.wheel(name)) as archive:
        members = archive.infolist()
    assert {PurePosixPath(m.filename).parts[0] for m in members} == {
        built.module(name),
        f"{built.module(name)}-1.0.0.dist-info",
    }
    assert {m.date_time for m in members} == {(1980, 1, 1, 0, 0, 0)}
    assert {(m.external_attr >> 16) & 0o777 for m in members} <= {0o644, 0o755}


# --- the library ----------------------------------------------------------------------------------


def parse(path: Path) -> lief.ELF.Binary:
    binary = lief.ELF.parse(str(path))
    assert binary is not None
    return binary


def parse_extension(built: Built, name: str) -> lief.ELF.Binary:
    (extension,) = (built.packages / built.module(name)).glob("_core.*.so")
    return parse(extension)


LIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


@pytest.mark.parametrize("name", SPECS)
def test_the_library_needs_libc_and_libm_alone(built: Built, name: str) -> None:
    binary = parse(built.library(name))
    assert set(binary.libraries) <= LIBC
    for symbol in binary.imported_symbols:
        optional = symbol.binding == lief.ELF.Symbol.BINDING.WEAK
        assert optional or symbol.symbol_version is not None, symbol.name
        assert not str(symbol.name).startswith("_Z"), "a symbol of C++"
    extension = parse_extension(built, name)
    needed = LIBC | {"libstdc++.so.6", "libgcc_s.so.1", built.library(name).name}
    assert set(extension.libraries) <= needed


@pytest.mark.parametrize("name", WITH_HEADERS)
def test_the_library_exports_its_interface_alone(built: Built, name: str) -> None:
    binary = parse(built.library(name))
    exported = {symbol.name for symbol in binary.exported_symbols}
    header = (
        built.packages / built.module(name) / "include" / f"{built.module(name)}.h"
    ).read_text()
    declared = set(
        re.findall(rf"^MODELWHEEL_EXPORT .*?({built.module(name)}_\w+)\(", header, re.MULTILINE)
    )
    assert exported == declared
    assert len(exported) > 20


@pytest.mark.parametrize("name", SPECS)
def test_the_library_is_hardened_and_found_beside_the_extension(built: Built, name: str) -> None:
    binary = parse(built.library(name))
    assert not binary.has(lief.ELF.DynamicEntry.TAG.RUNPATH)
    assert not binary.has(lief.ELF.DynamicEntry.TAG.RPATH)
    stack = binary.get(lief.ELF.Segment.TYPE.GNU_STACK)
    assert stack is not None
    assert not stack.has(lief.ELF.Segment.FLAGS.X)
    assert binary.get(lief.ELF.Segment.TYPE.GNU_RELRO) is not None
    assert not any(s.has(lief.ELF.Segment.FLAGS.W) and s.has(lief.ELF.Segment.FLAGS.X)
                   for s in binary.segments)  # fmt: skip
    extension = parse_extension(built, name)
    entries = extension.dynamic_entries
    paths = [e.runpath for e in entries if isinstance(e, lief.ELF.DynamicEntryRunPath)]
    assert paths == ["$ORIGIN/lib"]
    assert not extension.has(lief.ELF.DynamicEntry.TAG.RPATH)


@pytest.fixture(scope="module")
def compiled(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library of `mlp` is built as from a source distribution, which compiles all kernels."""
    project, build = built.project("mlp"), tmp_path_factory.mktemp("compiled")
    pybind11 = run(sys.executable, "-m", "pybind11", "--cmakedir").out.strip()
    cmake("-S", project, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-G", "Ninja",
          f"-Dpybind11_DIR={pybind11}", f"-DPython_EXECUTABLE={sys.executable}")  # fmt: skip
    cmake("--build", build, "--target", "model_mlp")
    return build


def test_kernels_of_the_store_give_the_same_library(
    built: Built, compiled: Path, tmp_path: Path
) -> None:
    assert (built.steps / "mlp-1.0.0" / "wheel" / "out-kernels").is_dir()
    assert list(compiled.rglob("gemm.cpp.o"))
    run(
        "strip", compiled / "libmodel_mlp.so", "-o", tmp_path / "stripped"
    )  # as when a wheel is made
    assert (tmp_path / "stripped").read_bytes() == built.library("mlp").read_bytes()


def test_what_a_level_defines_carries_its_name(built: Built, compiled: Path) -> None:
    """The linker keeps one of several weak definitions: never may it be that of a higher level."""
    project = built.project("mlp")
    for level in LEVELS:
        name = ALL_LEVELS[level].identifier
        (program,) = compiled.rglob(f"program_{name}.cpp.o")
        own = f"N10modelwheel{len(name)}{name}"
        check_names(program, own)
        (kernel,) = compiled.rglob(f"model_mlp_gemm_float_{name}.dir/**/gemm.cpp.o")
        check_names(kernel, own)
        for size in (1, 4):
            check_names(
                project / "platforms" / HOST / "objects" / f"{level}_b{size}.o",
                f"mw__mlp_b{size}_{name}_",
            )


def check_names(path: Path, own: str) -> None:
    binary, local = parse(path), lief.ELF.Symbol.BINDING.LOCAL
    defined = [str(s.name) for s in binary.symbols if s.binding != local and s.shndx != 0]
    assert defined
    assert [name for name in defined if own not in name] == []


# --- in a process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["model_mlp tensorflow", "tensorflow model_mlp"])
def test_tensorflow_and_the_model_live_in_one_process(built: Built, order: str) -> None:
    first, second = order.split()
    script = f"""
import numpy as np
x = np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32)
import {first}
if "{first}" == "model_mlp":
    before = model_mlp.Model()(x)
else:
    tensorflow.nn.relu(tensorflow.constant(x) @ tensorflow.ones((4, 3)))
import {second}
if "{second}" == "tensorflow":
    tensorflow.nn.relu(tensorflow.constant(x) @ tensorflow.ones((4, 3)))
else:
    before = model_mlp.Model()(x)
loaded = tensorflow.saved_model.load("{built.directory / "mlp"}")
y = loaded.signatures["serving_default"](x=tensorflow.constant(x))["y"].numpy()
after = model_mlp.Model()(x)
assert after.tobytes() == before.tobytes()
assert abs(after - y).max() < 1e-6
"""
    python(built, script, TF_ENABLE_ONEDNN_OPTS="0", TF_CPP_MIN_LOG_LEVEL="3")


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize(
    ("other", "call"),
    [
        ("torch", "(torch.ones(64, 64) @ torch.ones(64, 64)).sum().item()"),
        ("onnxruntime", "onnxruntime.get_available_providers()"),
    ],
)
def test_other_libraries_and_the_model_live_in_one_process(
    built: Built, other: str, call: str, order: str
) -> None:
    """Neither is a dependency of anything here: they are tested where they are installed."""
    if importlib.util.find_spec(other) is None:
        pytest.skip(f"{other} is not installed")
    use = f"import {other}; {call}\n"
    script = f"""
import numpy as np
x = np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32)
{use if order == "before" else ""}
import model_mlp
before = model_mlp.Model()(x)
{use}
assert model_mlp.Model()(x).tobytes() == before.tobytes()
print(before.tobytes().hex())
"""
    alone = python(built, script.replace(use, ""))
    assert python(built, script).out == alone.out


@pytest.mark.parametrize("name", SPECS)
def test_no_thread_is_started(built: Built, name: str) -> None:
    script = f"""
import os
import numpy
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
import {built.module(name)} as package
assert count() == before, "import"
model = package.Model()
assert count() == before, "creation"
inputs = [numpy.zeros([4 * s.leading_per_row if e is None else e for e in s.shape], s.dtype)
          for s in package.Model.inputs]
for _ in range(3):
    model(*inputs)
assert count() == before, "run"
"""
    python(built, script)


@pytest.mark.parametrize("name", WITH_HEADERS)
def test_running_allocates_nothing(built: Built, tmp_path: Path, name: str) -> None:
    program = compile_program(built, "count_allocations", name, tmp_path)
    creation, runs = map(int, run(program).out.split())
    assert creation > 0  # the counter counts
    assert runs == 0


# --- CPU levels -----------------------------------------------------------------------------------


def test_unknown_levels_are_refused(built: Built) -> None:
    script = "import model_mlp\ntry: model_mlp.Model()\nexcept ValueError as error: print(error)"
    assert python(built, script, MODELWHEEL_LEVEL="x86-64-v9").out.strip() == (
        "mlp has no code for CPU level 'x86-64-v9' (from MODELWHEEL_LEVEL); "
        f"it has: {', '.join(LEVELS)}"
    )


def find_emulator() -> str:
    for name in ("qemu-x86_64", "qemu-x86_64-static"):
        if (path := shutil.which(name)) is not None:
            return path
    pytest.skip("qemu-x86_64 is not installed")


@pytest.mark.skipif(len(LEVELS) < 2, reason="this architecture has one level")
def test_levels_beyond_the_cpu_are_refused(built: Built, tmp_path: Path) -> None:
    """On an emulated CPU that has x86-64-v2 and no more."""
    program = compile_program(built, "choose_level", "mlp", tmp_path)
    older = (find_emulator(), "-cpu", "Nehalem", program)
    assert run(*older).out.strip() == LOWEST
    assert run(*older, MODELWHEEL_LEVEL=LOWEST).out.strip() == LOWEST
    assert run(*older, code=1, MODELWHEEL_LEVEL="x86-64-v3").out.strip() == (
        "this CPU cannot run level 'x86-64-v3' (from MODELWHEEL_LEVEL); "
        "the highest it can run here is: x86-64"
    )


# --- where it is installed ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "options",
        *(
            pytest.param(n, marks=pytest.mark.exhaustive)
            for n in SPECS
            if n not in ("mlp", "options")
        ),
    ],
)
def test_the_tests_that_travel_with_the_wheel_pass(
    built: Built, environment: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(built.project(name) / "tests", tmp_path / "tests")
    options = ("-q", "-rs", "-p", "no:cacheprovider")
    done = run(environment, "-m", "pytest", *options, tmp_path / "tests", PATH=search_path())
    assert "failed" not in done.out
    skipped = [line for line in done.out.splitlines() if line.startswith("SKIPPED")]
    assert not [line for line in skipped if "not installed" in line and "pkg-config" not in line]


def test_interfaces_are_those_of_the_spec(built: Built, environment: Path) -> None:
    def has(name: str, *parts: str) -> list[bool]:
        with zipfile.ZipFile(built.wheel(name)) as archive:
            return [any(part in file for file in archive.namelist()) for part in parts]

    parts = (".h", ".hpp", "tfaot-model-", "PhysicsTools/", "share/scram/", "tfaot_wrapper.hpp")
    assert has("options", *parts) == [True] * 6
    assert has("mlp", *parts) == [True] * 3 + [False] * 3
    assert has("batch-mean", *parts, "lib/cmake", "lib/pkgconfig") == [False] * 8
    done = run(environment, "-I", "-m", "model_batch_mean", "--cflags", code=1)
    expected = "error: model_batch_mean has no headers: package.interfaces of its spec leaves out C"
    assert done.err.strip() == expected
    done = run(environment, "-I", "-m", "model_mlp", "--scram", code=1)
    expected = "error: model_mlp has no tool file: package.interfaces of its spec leaves out cmssw"
    assert done.err.strip() == expected


def test_the_environment_has_no_tensorflow(environment: Path) -> None:
    listed = run(
        sys.executable, "-m", "pip", "--python", environment, "list", "--format=freeze"
    ).out
    names = {line.partition("==")[0] for line in listed.split()}
    assert {f"model-{name}" for name in SPECS} < names
    assert not {"tensorflow", "pybind11", "protobuf", "modelwheel"} & names


def test_the_command_of_the_package(environment: Path) -> None:
    def ask(*options: str) -> str:
        return run(environment, "-I", "-m", "model_mlp", *options).out.strip()

    described = ask()
    for words in ("mlp 1.0.0", "x: float32 [batch, 4]", "1, 4 (any number of rows)", "in use: "):
        assert words in described
    assert ask("selftest").endswith("passed")
    assert "us/row" in ask("bench", "--seconds", "0.01")
    assert "7:4" in ask("bench", "--seconds", "0.01", "--batch", "7")
    places = ask("--includedir", "--libdir", "--cmakedir", "--pkgconfigdir").split()
    assert [Path(place).is_dir() for place in places] == [True] * 4
    assert ask("--cflags") == f"-I{places[0]}"
    assert f"-L{places[1]} -lmodel_mlp" in ask("--libs")


# --- damage ---------------------------------------------------------------------------------------


def test_a_changed_weight_is_found(modelwheel: Modelwheel, built: Built, tmp_path: Path) -> None:
    hidden = np.random.default_rng((4, 8)).standard_normal((4, 8)).astype(np.float32)
    library = built.library("mlp").read_bytes()
    place = library.index(hidden.tobytes())
    byte = place + 3  # of the first weight, the one with its sign
    changed = library[:byte] + bytes([library[byte] ^ 0x80]) + library[byte + 1 :]
    wheel = tmp_path / built.wheel("mlp").name
    with zipfile.ZipFile(built.wheel("mlp")) as old, zipfile.ZipFile(wheel, "w") as new:
        for member in old.infolist():
            is_library = member.filename.endswith("libmodel_mlp.so")
            new.writestr(member, changed if is_library else old.read(member))
    # Ordinary rows, those at boundaries, and those beside extreme ones.
    fine = built.wheel("mlp")
    assert modelwheel("verify", fine, "--table").out.count(" ok ") == 3 * len(LEVELS)
    shown = modelwheel("verify", fine).out
    assert len(re.findall(r"^  \S+ +ok, [^ ]+ .*", shown, re.MULTILINE)) == len(LEVELS)
    assert max(map(len, shown.splitlines()[1 : 1 + len(LEVELS)])) <= 80
    done = modelwheel("verify", wheel, code=VerifyError.exit_code)
    assert "exceed their tolerance; worst: output 'y'" in done.err
    assert "exceeded" in done.out
