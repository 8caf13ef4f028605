"""The C++ interfaces of a model, over hand-written tables and the real runtime, under sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modelwheel.wheel import template_directory

TESTS = Path(__file__).parent / "cpp"
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-D_GLIBCXX_ASSERTIONS"]
RUNTIME = ("batching.cpp", "cpu_level.cpp", "model.cpp")


def run(*command: str | Path) -> None:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Objects of the toy model, the runtime, and a second unit with all headers."""
    directory = tmp_path_factory.mktemp("toy_model")
    sources = [template_directory() / "src" / name for name in RUNTIME]
    sources += [TESTS / "interfaces" / name for name in ("toy_model.cpp", "other_unit.cpp")]
    return [compile_object(source, directory) for source in sources]


def compile_object(source: Path, directory: Path) -> Path:
    """Compiles with all warnings as errors."""
    template = template_directory()
    target = directory / f"{source.stem}.o"
    includes = [f"-I{path}" for path in (template / "include", template / "src", TESTS)]
    run("c++", "-std=c++17", "-g", *WARNINGS, *SANITIZERS, *includes, "-c", source, "-o", target)
    return target


@pytest.mark.parametrize("name", ["batch_rules", "tfaot_model", "compiled_function", "modern"])
def test_interface(name: str, toy_model: list[Path], tmp_path: Path) -> None:
    test = compile_object(TESTS / "interfaces" / f"test_{name}.cpp", tmp_path)
    run("c++", *SANITIZERS, test, *toy_model, "-o", tmp_path / name)
    run(tmp_path / name)
