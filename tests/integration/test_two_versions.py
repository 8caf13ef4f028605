"""Two versions of one model in one process: each computes with its own library."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.pages import ROOT, blocks
from tests.support.wheels import Built

pytestmark = pytest.mark.slow

_SCRIPT = """
import numpy as np

for module, version in ((old, "1.0.0"), (new, "1.1.0")):
    assert module.Model.version == module.about()["model"]["version"] == version
spec = old.Model.inputs[0]
array = np.ones([2 if extent is None else extent for extent in spec.shape], spec.dtype)
results = [module.Model()(array).tolist() for module in (old, new)]
assert results[0] != results[1], results
assert results == [module.Model()(array).tolist() for module in (old, new)]
print(*sorted(line.split()[-1] for line in open("/proc/self/maps") if "libmodel_mlp" in line and "r-xp" in line))
"""

_PROGRAM = """
#include <cstdio>
#include <cstring>
#include "modelwheel/library.hpp"
#include "modelwheel/model.hpp"

int main(int, char **paths) {
  modelwheel::Model one(modelwheel::open_library(paths[1], "model_mlp"));
  modelwheel::Model two(modelwheel::open_library(paths[2], "model_mlp"));
  std::printf("%s %s\\n", one.version().c_str(), two.version().c_str());
}
"""


@pytest.fixture(scope="module")
def versions(built: Built, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two directories with the package: as it was built, and with another version and other weights."""
    directory = tmp_path_factory.mktemp("versions")
    one, two = directory / "one", directory / "two"
    for place in (one, two):
        shutil.copytree(built.packages / "model_mlp", place / "model_mlp")
    for path in two.rglob("*"):
        if path.suffix in (".so", ".py", ".json"):
            path.write_bytes(path.read_bytes().replace(b"1.0.0", b"1.1.0"))
    weights = next((built.project("mlp") / "weights").iterdir()).read_bytes()
    library = two / "model_mlp" / "lib" / "libmodel_mlp.so"
    content = library.read_bytes()
    start = content.index(weights)
    library.write_bytes(content[:start] + bytes(len(weights)) + content[start + len(weights) :])
    return one, two


def test_in_python(versions: tuple[Path, Path]) -> None:
    """With the lines of consumers.md."""
    (block,) = [b for b in blocks(ROOT / "docs/consumers.md", "python") if "digits_1_0" in b.text]
    script = block.text.replace("digits", "mlp") + _SCRIPT
    for name, place in zip(("old/", "new/"), versions, strict=True):
        script = script.replace(name, f"{place}/")
    libraries = run(sys.executable, "-c", script).out.split()
    assert libraries == sorted(
        str(place / "model_mlp" / "lib" / "libmodel_mlp.so") for place in versions
    )


def test_in_cpp(versions: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(_PROGRAM)
    include = versions[0] / "model_mlp" / "include"
    run(
        "c++",
        "-std=c++17",
        "-Wall",
        "-Werror",
        tmp_path / "main.cpp",
        f"-I{include}",
        "-o",
        tmp_path / "main",
        "-ldl",
    )
    libraries = [place / "model_mlp" / "lib" / "libmodel_mlp.so" for place in versions]
    assert run(tmp_path / "main", *libraries).out == "1.0.0 1.1.0\n"
