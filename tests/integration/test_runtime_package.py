"""The package modelwheel-runtime: its version, its project, and how models differ for it."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from modelwheel.assembly.sbom import SBOM_TEMPLATE
from modelwheel.errors import UsageError
from modelwheel.packaging.runtime import (
    NEEDED_SDIST,
    build_runtime,
    require_tag,
    write_project,
)
from modelwheel.packaging.sdist import unpack
from modelwheel.packaging.template import template_directory
from modelwheel.versions import ABI_VERSION, NUMPY_REQUIREMENT, RUNTIME_REQUIREMENT, RUNTIME_VERSION
from tests.support.commands import TINY_SPEC, Modelwheel
from tests.support.projects import render_model

TEMPLATE = template_directory()


def settings(project: Path) -> list[str]:
    """The lines of a project's `pyproject.toml`."""
    return (project / "pyproject.toml").read_text(encoding="utf-8").splitlines()


def names(directory: Path) -> set[str]:
    return {
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    }


# --- versions -------------------------------------------------------------------------------------


def test_the_major_version_is_that_of_the_abi() -> None:
    header = (TEMPLATE / "common" / "include" / "modelwheel" / "abi.h").read_text()
    (defined,) = re.findall(r"^#define MODELWHEEL_ABI_VERSION (\d+)$", header, re.MULTILINE)
    assert int(defined) == ABI_VERSION == Version(RUNTIME_VERSION).major


def test_models_take_releases_for_their_abi_that_offer_no_less() -> None:
    requirement = SpecifierSet(RUNTIME_REQUIREMENT.removeprefix("modelwheel-runtime"))
    version = Version(RUNTIME_VERSION)
    assert version in requirement
    assert f"{version.major}.{version.minor + 1}.0" in requirement
    assert f"{version.major + 1}.0.0" not in requirement
    assert f"{version.major - 1}.99" not in requirement


# --- its project ----------------------------------------------------------------------------------


def test_the_project_has_all_that_its_files_name(tmp_path: Path) -> None:
    write_project(tmp_path)
    files = names(tmp_path)
    assert {name for name in files if name.endswith((".in", ".inc"))} == {SBOM_TEMPLATE}
    for path in tmp_path.rglob("*"):
        if path.suffix in {".h", ".hpp", ".cpp", ".c"}:
            included = re.findall(r'^#include "(.+)"$', path.read_text(), re.MULTILINE)
            assert {
                f"src/{name}" if f"src/{name}" in files else f"include/{name}" for name in included
            } <= files
    for included in re.findall(
        r"^include\((.+)\)$", (tmp_path / "CMakeLists.txt").read_text(), re.MULTILINE
    ):
        assert included in files


def test_what_the_project_says_of_itself(tmp_path: Path) -> None:
    write_project(tmp_path)
    expected = {
        'name = "modelwheel-runtime"',
        f'version = "{RUNTIME_VERSION}"',
        f'dependencies = ["{NUMPY_REQUIREMENT}"]',
    }
    assert expected <= set(settings(tmp_path))
    assert f"version {RUNTIME_VERSION}, for ABI {ABI_VERSION}" in " ".join(
        (tmp_path / "README.md").read_text().split()
    )


def test_the_source_distribution_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    one = build_runtime("sdist", tmp_path / "one")
    done = Modelwheel(tmp_path / "cache")("runtime", "--out", tmp_path / "two", umask=0o077)
    two = tmp_path / "two" / one.name
    assert done.out == f"wrote {two}\n"
    assert one.name == f"modelwheel_runtime-{RUNTIME_VERSION}.tar.gz"
    assert one.read_bytes() == two.read_bytes()
    (tmp_path / "project").mkdir()
    write_project(tmp_path / "project")
    (tmp_path / "unpacked").mkdir()
    unpacked = unpack(two, tmp_path / "unpacked")
    assert names(unpacked) == names(tmp_path / "project") | {"PKG-INFO"}
    with tarfile.open(two) as archive:
        assert {member.mtime for member in archive} == {315532800}


# --- models that need it --------------------------------------------------------------------------


def test_a_model_that_shares_its_bindings(tmp_path: Path) -> None:
    project = render_model(tmp_path, "shared")
    expected = {
        f'dependencies = ["{NUMPY_REQUIREMENT}", "{RUNTIME_REQUIREMENT}"]',
        'requires = ["scikit-build-core>=1.1"]',
        'wheel.py-api = "py3"',
        f'before-test = "pip install {{project}}/{NEEDED_SDIST}"',
    }
    assert expected <= set(settings(project))
    files = names(project)
    assert "python/model_digits/_core.py" in files
    assert not [name for name in files if "bindings" in name or "extension" in name]


def test_a_model_with_an_extension(tmp_path: Path) -> None:
    project = render_model(tmp_path, "extension")
    expected = {
        f'dependencies = ["{NUMPY_REQUIREMENT}"]',
        'requires = ["scikit-build-core>=1.1", "pybind11>=3.1"]',
    }
    assert expected <= set(settings(project))
    assert not [line for line in settings(project) if "py-api" in line or "before-test" in line]
    files = names(project)
    assert {"src/bindings.cpp", "src/bindings/module.cpp", "cmake/model_extension.cmake"} <= files
    assert "library: Library" in (project / "python" / "model_digits" / "_core.pyi").read_text()
    assert "python/model_digits/_core.py" not in files


def test_everything_else_is_the_same(tmp_path: Path) -> None:
    for bindings in ("shared", "extension"):
        render_model(tmp_path / bindings, bindings)
    differing = {
        *(
            "pyproject.toml",
            "cmake/model.cmake",
            "platforms/linux-x86_64/manifest.json",
            "README.md",
        ),
    }
    both = names(tmp_path / "shared") & names(tmp_path / "extension")
    assert len(both) > 60
    for name in both - differing:
        contents = {
            (tmp_path / bindings / name).read_bytes() for bindings in ("shared", "extension")
        }
        assert len(contents) == 1, name


def test_it_is_built_before_a_model_that_needs_it_is_verified(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "tiny.yaml").write_text(f"{TINY_SPEC}package: {{bindings: shared}}\n")
    steps = list(Modelwheel(tmp_path / "cache").plan(tmp_path / "tiny.yaml"))
    assert steps[-6:] == ["project", "objects", "kernels", "wheel", "runtime", "verify"]


def test_a_tag_releases_its_version_alone() -> None:
    require_tag(f"modelwheel-runtime-{RUNTIME_VERSION}")
    with pytest.raises(
        UsageError, match=f"is not 'modelwheel-runtime-{RUNTIME_VERSION}'; increase"
    ):
        require_tag("modelwheel-runtime-0.9")
