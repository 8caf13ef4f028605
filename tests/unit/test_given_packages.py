"""The packages that modelwheel builds on are dependencies, and the product uses each of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
GIVEN = ["tensorflow", "scikit-build-core", "cibuildwheel", "pybind11", "pyyaml", "twine", "pytest"]

_ROW = re.compile(r"^\| ([\w-]+) \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)
"""A row of docs/architecture.md: the package, a file, and what is written there."""

_BUILT_FROM = "wheel_template/package/pyproject.toml.in"


def _rows() -> dict[str, tuple[str, str]]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Given packages\n")[2].partition("\n## ")[0]
    return {name: (file, text) for name, file, text in _ROW.findall(section)}


def _dependencies() -> Iterator[str]:
    """Names of all that pyproject.toml and the wheels' own one require."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"].values()
    written = [
        *project["project"]["dependencies"],
        *(one for extra in project["project"]["optional-dependencies"].values() for one in extra),
        *(one for group in groups for one in group if isinstance(one, str)),
    ]
    yield from (canonicalize_name(Requirement(one).name) for one in written)


def test_the_table_names_each_package() -> None:
    assert list(_rows()) == GIVEN


@pytest.mark.parametrize("name", GIVEN)
def test_a_given_package_is_required_and_used(name: str) -> None:
    file, text = _rows()[name]
    assert name in set(_dependencies())
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    code = [line.strip() for line in lines]
    code = [line for line in code if not line.startswith(("//", "# "))]
    assert [line for line in code if text in line], f"{file} does not say {text}"


def test_wheels_are_compiled_against_the_binding_layer() -> None:
    """Not only a name in a list: each extension's classes are pybind11's."""
    bindings = ROOT / "wheel_template" / "bindings"
    module = (bindings / "src" / "bindings" / "module.cpp").read_text(encoding="utf-8")
    for needed in (
        "PYBIND11_MODULE(",
        "py::class_<Evaluator>",
        "py::class_<Library>",
        "mod_gil_not_used",
    ):
        assert needed in module
    assert "find_package(pybind11" in (bindings / "cmake" / "bindings.cmake").read_text("utf-8")
    assert "pybind11>=3.1" in (ROOT / _BUILT_FROM).read_text(encoding="utf-8")
