"""The code in the README does what it says, as it is printed."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def blocks(package):
    """The blocks of code, by their languages."""
    distribution = package.__name__.replace("_", "-")
    text = importlib.metadata.metadata(distribution).get_payload()
    found = {}
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        found.setdefault(language, []).append(block)
    return found


def run(*command, cwd, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_python(blocks, tmp_path):
    (block,) = blocks["python"]
    said = run(sys.executable, "-c", block, cwd=tmp_path)
    shapes = re.findall(r"# (\(.*\))$", block, re.MULTILINE)
    assert said.startswith(tuple(shapes or "{"))


def test_commands_and_programs(blocks, package, interfaces, tmp_path):
    if "cpp" not in interfaces:
        pytest.skip("the wheel has no headers for C++")
    if sys.platform == "win32":
        pytest.skip("the commands are those of a shell")
    for tool in ("c++", "cmake", "sh"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program, *others = blocks["cpp"]
    (tmp_path / "main.cpp").write_text(program)
    (tmp_path / "CMakeLists.txt").write_text(blocks["cmake"][0])
    install, *commands = blocks["sh"]
    assert install.startswith("pip install model-")
    said = [run("sh", "-ec", command, cwd=tmp_path, PATH=place) for command in commands]
    elements = said[0]
    assert run(tmp_path / "build" / "main", cwd=tmp_path) == elements
    assert int(elements) > 0
    for number, block in enumerate(others):
        directories = [package.get_include()]
        if "pybind11" in block:
            pybind11 = pytest.importorskip("pybind11")
            directories += [pybind11.get_include(), sysconfig.get_path("include")]
        source = tmp_path / f"other_{number}.cpp"
        source.write_text(block)
        options = (f"-I{directory}" for directory in directories)
        run("c++", "-std=c++17", "-fsyntax-only", source, *options, cwd=tmp_path)
