"""The C++ interfaces of a model, over hand-written tables and the real runtime, under sanitizers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from modelwheel.packaging.template import template_directory

TEMPLATE = template_directory()
TESTS = Path(__file__).parents[1] / "cpp"
SHARED = [TEMPLATE / "model" / "src" / f"{name}.cpp" for name in ("batching", "cpu_level", "model")]
SHARED += [TESTS / "interfaces" / f"{name}.cpp" for name in ("toy_model", "other_unit")]
"""The runtime, the toy model, and a second unit that includes all headers."""

FLAGS = ["-std=c++17", "-g", "-pthread"]
FLAGS += ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]
FLAGS += [
    f"-I{TEMPLATE / path}"
    for path in ("common/include", "model/include", "model/src", "bindings/src")
]
FLAGS += [f"-I{TESTS}"]
MEMORY = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-D_GLIBCXX_ASSERTIONS"]
THREADS = ["-fsanitize=thread"]


def run(*command: str | Path) -> None:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def compile_objects(
    sources: Sequence[Path], sanitizers: Sequence[str], directory: Path
) -> list[Path]:
    objects = []
    for source in sources:
        objects.append(directory / f"{source.stem}.o")
        run("c++", *FLAGS, *sanitizers, "-c", source, "-o", objects[-1])
    return objects


def run_test(name: str, shared: Sequence[Path], sanitizers: Sequence[str], directory: Path) -> None:
    source = TESTS / "interfaces" / f"test_{name}.cpp"
    objects = compile_objects([source], sanitizers, directory)
    run("c++", "-pthread", *sanitizers, *objects, *shared, "-o", directory / name)
    run(directory / name)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return compile_objects(SHARED, MEMORY, tmp_path_factory.mktemp("shared"))


@pytest.mark.parametrize(
    "name", ["batch_rules", "tfaot_model", "compiled_function", "modern", "instance_pool"]
)
def test_interface(name: str, shared: list[Path], tmp_path: Path) -> None:
    run_test(name, shared, MEMORY, tmp_path)


def test_instances_are_shared_between_threads_without_races(tmp_path: Path) -> None:
    run_test("instance_pool", compile_objects(SHARED, THREADS, tmp_path), THREADS, tmp_path)
