"""The CMake project of the C++ tests: every test of every preset, and that no source is left out.

Each item builds what it runs. Parametrised by the files and levels that there are, so that collecting needs no
compiler; `test_ctest_knows_the_same_tests` compares these with what CTest has registered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from modelwheel.levels import LEVELS, host_levels
from modelwheel.platforms import host_platform
from tests.support.tools import cmake, ctest

CPP = Path(__file__).parents[1] / "cpp"
SKIPPED = "***Skipped"
"""What CTest prints for a program that lacks what it tests."""

RUNTIME = [f"runtime_{path.stem[5:]}" for path in sorted(CPP.glob("runtime/test_*.cpp"))]
INTERFACES = [f"interfaces_{path.stem[5:]}" for path in sorted(CPP.glob("interfaces/test_*.cpp"))]
KERNELS = [
    f"kernels_{level.identifier}"
    for level in LEVELS.values()
    if level.architecture == host_platform().architecture
]
RUNNABLE = {f"kernels_{level.identifier}" for level in host_levels()}
FUZZ = [path.stem for path in sorted(CPP.glob("fuzz/fuzz_*.cpp"))]
"""Over their corpus; `test_fuzzing` looks for more."""
ALONE = ("interfaces_memory", "interfaces_tbb")
"""The first has allocation functions of its own, as sanitizers have; TBB keeps what nobody has begun when the program ends."""
TESTS = {
    "default": [*RUNTIME, *INTERFACES, *KERNELS],
    "asan": [
        n for n in (*RUNTIME, *INTERFACES, *FUZZ, *KERNELS) if n not in ALONE and "_v2" not in n
    ],
    "tsan": [
        f"interfaces_{name}" for name in ("instance_pool", "state", "thread_pool_device", "threads")
    ],
}


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The build directory of each preset, configured."""
    directories, python = {}, f"-DPython3_EXECUTABLE={sys.executable}"
    for preset in TESTS:
        directories[preset] = tmp_path_factory.mktemp(preset)
        cmake("-S", CPP, "--preset", preset, "-B", directories[preset], python)
    return directories


def _parameters() -> list[object]:
    return [
        pytest.param(preset, name, marks=_marks(preset, name))
        for preset, names in TESTS.items()
        for name in names
    ]


def _marks(preset: str, name: str) -> list[pytest.MarkDecorator]:
    if "kernels" not in name:
        return []
    # The lower levels have the same sources with shorter vectors; the memory of kernels takes minutes to check.
    quick = preset == "default" and not name.endswith(("_x86_64", "_x86_64_v2"))
    return [pytest.mark.slow, *([] if quick else [pytest.mark.exhaustive])]


@pytest.mark.parametrize(("preset", "name"), _parameters())
def test_cpp(preset: str, name: str, builds: dict[str, Path]) -> None:
    if name in KERNELS and name not in RUNNABLE:
        # Compiling them takes minutes. That kernels of every level compile, each wheel shows.
        pytest.skip("this CPU cannot run code for this level")
    cmake("--build", builds[preset], "--target", name)
    exactly = ("-R", f"^{name}$", "--no-tests=error", "--output-on-failure")
    if SKIPPED in ctest("--test-dir", builds[preset], *exactly).out:
        assert name == "interfaces_tbb"
        pytest.skip("libtbb-dev is not installed")


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("level", [level.identifier for level in host_levels()])
def test_activations_keep_their_bounds_for_many_floats(
    level: str, builds: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELWHEEL_FLOAT_STEP", "97")
    test_cpp("default", f"kernels_{level}", builds)


@pytest.mark.parametrize("preset", TESTS)
def test_ctest_knows_the_same_tests(preset: str, builds: dict[str, Path]) -> None:
    known = json.loads(ctest("--test-dir", builds[preset], "--show-only=json-v1").out)
    assert sorted(test["name"] for test in known["tests"]) == sorted(TESTS[preset])


def test_every_source_belongs_to_a_target(builds: dict[str, Path]) -> None:
    """A source without a target is a test that nothing runs."""
    compiled = {
        Path(command["file"]).resolve()
        for preset in ("default", "asan")
        for command in json.loads((builds[preset] / "compile_commands.json").read_text("utf-8"))
    }
    sources = {path.resolve() for pattern in ("*.c", "*.cpp") for path in CPP.rglob(pattern)}
    assert len(sources) > 15
    assert sorted(sources - compiled) == []
