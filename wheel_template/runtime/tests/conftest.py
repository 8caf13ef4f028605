"""Libraries to open, compiled from one C file, and the installed runtime."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("doubling.c")
INCLUDE = Path(__file__).parents[1] / "include"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


@pytest.fixture(scope="session")
def compile_library(tmp_path_factory):
    """Compiles `doubling.c` with these definitions; returns the library's path."""
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        pytest.skip("there is no C compiler")

    def compile_one(*definitions, name="libmodel_doubling"):
        path = tmp_path_factory.mktemp("library") / f"{name}{SUFFIX}"
        flags = ["-shared", "-O1", "-DMODELWHEEL_BUILDING", f"-I{INCLUDE}", "-o", path, SOURCE]
        if sys.platform != "win32":
            flags.append("-fPIC")
        options = [f"-D{definition}" for definition in definitions]
        subprocess.run([*compiler.split(), *options, *flags], check=True)
        return str(path)

    return compile_one


@pytest.fixture(scope="session")
def library_path(compile_library):
    """The library as it should be."""
    return compile_library()


@pytest.fixture
def library(library_path):
    """The same, opened."""
    import modelwheel_runtime

    return modelwheel_runtime.open_library(library_path, "model_doubling")


@pytest.fixture
def evaluator(library):
    """An evaluator of it at its own choice of level."""
    import modelwheel_runtime

    return modelwheel_runtime.Evaluator(library, None)
