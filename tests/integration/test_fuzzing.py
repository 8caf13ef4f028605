"""libFuzzer and Hypothesis on the runtime: seconds here, hours with MODELWHEEL_FUZZ_SECONDS (see CONTRIBUTING.md)."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.tools import cmake
from tests.support.wheels import Built

CPP = Path(__file__).parents[1] / "cpp"
SECONDS = int(os.environ.get("MODELWHEEL_FUZZ_SECONDS", "3"))
"""For each program."""

# libFuzzer limits the peak of memory that the system reports, and a process inherits the peak of the one that starts it: here
# of a process of tests that may have read large models. A small process between the two starts from nothing.
START_SMALL = (
    sys.executable,
    "-S",
    "-c",
    "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))",
)

PROGRAMS = [path.stem for path in sorted(CPP.glob("fuzz/fuzz_*.cpp"))]


def find_clang() -> str | None:
    """The newest clang++ on PATH that has libFuzzer."""
    names = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
    return next((name for name in names if shutil.which(name) and _has_fuzzer(name)), None)


def _has_fuzzer(compiler: str) -> bool:
    libraries = (f"libclang_rt.fuzzer-{platform.machine()}.a", "libclang_rt.fuzzer.a")
    found = [run(compiler, f"-print-file-name={name}").out.strip() for name in libraries]
    return any(Path(path).is_file() for path in found)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with all programs of the preset `fuzz`."""
    compiler = find_clang()
    if compiler is None:
        pytest.skip("clang++ with libFuzzer is not installed (Debian: clang and libclang-rt-dev)")
    directory = tmp_path_factory.mktemp("fuzz")
    definitions = (f"-DCMAKE_CXX_COMPILER={compiler}", f"-DPython3_EXECUTABLE={sys.executable}")
    cmake("-S", CPP, "--preset", "fuzz", "-B", directory, *definitions)
    cmake("--build", directory)
    return directory


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_input_breaks_the_runtime(build: Path, tmp_path: Path, name: str) -> None:
    """New inputs go to a temporary directory. What breaks the runtime is printed as base64, to be kept in the corpus."""
    corpus = CPP / "fuzz" / "corpus" / name.removeprefix("fuzz_")
    limits = (f"-max_total_time={SECONDS}", "-max_len=4096", "-timeout=60", "-rss_limit_mb=1024")
    done = subprocess.run(
        [*START_SMALL, build / "fuzz" / name, *limits, "-print_final_stats=1", tmp_path, corpus],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    (executions,) = re.findall(r"stat::number_of_executed_units: +(\d+)", done.stderr)
    assert int(executions) > 100


@pytest.mark.slow
def test_no_call_breaks_a_model(built: Built) -> None:
    """Arrays of every dtype, stride, byte order, subclass and shape, and anything as a name, a rule or a number of rows."""
    command = (sys.executable, "-X", "faulthandler", "-m", "tests.support.any_calls", str(SECONDS))
    path = os.pathsep.join([str(CPP.parents[1]), str(built.packages)])
    done = run(*command, built.module("mlp"), built.module("kinds"), PYTHONPATH=path)
    assert re.fullmatch(r"(seed \d+\n)+\d{4,} calls\n", done.out)
