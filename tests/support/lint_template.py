"""Checks what ruff and mypy cannot see by themselves: `python -m tests.support.lint_template`.

C and C++ sources must be formatted as `.clang-format` says, and the Python code of every kind of project that is
rendered from `wheel_template/` must pass `mypy --strict`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from modelwheel.packaging.runtime import write_project
from modelwheel.packaging.template import template_directory
from tests.support.projects import render_model
from tests.support.tools import find_tool

ROOT = Path(__file__).parents[2]
SOURCES = ("*.c", "*.cpp", "*.h", "*.hpp")


def list_sources() -> Iterator[Path]:
    """All C and C++ sources but those that are rendered, which are not valid C++ yet."""
    for directory in (template_directory(), ROOT / "pipeline", ROOT / "tests"):
        for pattern in SOURCES:
            yield from sorted(
                path
                for path in directory.rglob(pattern)
                if "build" not in path.relative_to(directory).parts
            )


def check_format() -> bool:
    """Whether clang-format would change nothing; it prints what it would change."""
    command = (find_tool("clang-format"), "--dry-run", "--Werror", *map(str, list_sources()))
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def check_types() -> bool:
    """Whether the packages of models and of modelwheel-runtime pass mypy; it prints its findings."""
    with tempfile.TemporaryDirectory(prefix="modelwheel-lint-") as directory:
        own, shared, runtime = (Path(directory, name) for name in ("own", "shared", "runtime"))
        render_model(own, "extension")
        render_model(shared, "shared")
        runtime.mkdir()
        write_project(runtime)
        return all(
            [
                run_mypy(own / "python", "model_digits"),
                run_mypy(shared / "python", "model_digits", runtime / "python"),
                run_mypy(runtime / "python", "modelwheel_runtime"),
            ]
        )


def run_mypy(directory: Path, package: str, *search: Path) -> bool:
    """Whether a package below a directory passes `mypy --strict`."""
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'template'}"
    options = ("--strict", "--config-file=", "--python-version=3.10", cache)
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, (directory, *search)))}
    command = (sys.executable, "-m", "mypy", *options, "--package", package)
    return subprocess.run(command, env=environment, cwd=directory, check=False).returncode == 0


def main() -> int:
    """The exit status."""
    return 0 if all([check_format(), check_types()]) else 1


if __name__ == "__main__":
    sys.exit(main())
