"""`modelwheel recipe`: a recipe for conda-forge from a source distribution, and the script that it builds with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from modelwheel.release.conda import write_recipe
from modelwheel.util.files import digest_file
from tests.support.commands import Modelwheel
from tests.support.described import sdist_files, write_sdist

URL = "https://example.org/model_tiny-1.0.0.tar.gz"


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    return write_sdist(tmp_path, sdist_files())


def test_the_recipe_has_what_conda_forge_asks_for(sdist: Path, tmp_path: Path) -> None:
    written = write_recipe(sdist, tmp_path / "recipe", url=URL, maintainers=["jane"])
    assert not written.is_local
    recipe = yaml.safe_load(written.path.read_text())
    assert recipe["schema_version"] == 1
    assert recipe["source"] == {"url": URL, "sha256": digest_file(sdist).sha256}
    version = recipe["context"]["version"]
    assert isinstance(version, str)
    assert "noarch" not in recipe["build"]
    requirements = recipe["requirements"]
    assert {"pip", "scikit-build-core >=1.1", "pybind11 >=3.1"} <= set(requirements["host"])
    assert "numpy >=1.26" in requirements["run"]
    (exported,) = requirements["run_exports"]
    assert exported == f'${{{{ pin_subpackage("{recipe["package"]["name"]}", upper_bound="x") }}}}'
    module = recipe["package"]["name"].replace("-", "_")
    assert recipe["tests"][0] == {"python": {"imports": [module], "pip_check": True}}
    assert recipe["tests"][1] == {"script": [f"python -m {module} selftest --quiet"]}
    assert "LICENSE" in recipe["about"]["license_file"]
    assert recipe["extra"] == {"recipe-maintainers": ["jane"]}


def test_without_an_address_it_builds_the_file_of_this_machine(sdist: Path, tmp_path: Path) -> None:
    written = write_recipe(sdist, tmp_path / "recipe", url=None, maintainers=[])
    assert written.is_local
    assert yaml.safe_load(written.path.read_text())["source"]["path"] == str(sdist)


def test_cmake_and_pkg_config_are_led_to_the_package(sdist: Path, tmp_path: Path) -> None:
    """As after an installation, with a Python that installs nothing."""
    recipe = write_recipe(sdist, tmp_path / "recipe", url=URL, maintainers=[]).path
    module = yaml.safe_load(recipe.read_text())["package"]["name"].replace("-", "_")
    prefix = tmp_path / "prefix"
    site = prefix / "lib" / "python3.12" / "site-packages"
    for directory in ("cmake/" + module, "pkgconfig"):
        (site / module / "lib" / directory).mkdir(parents=True)
    config = site / module / "lib" / "cmake" / module / f"{module}-config.cmake"
    config.touch()
    pc = site / module / "lib" / "pkgconfig" / f"{module}.pc"
    pc.write_text(
        "prefix=${pcfiledir}/../..\nincludedir=${prefix}/include\nName: m\nDescription: d\nVersion: 1\n"
    )
    environment = {**os.environ, "PREFIX": str(prefix), "SP_DIR": str(site), "PYTHON": "true"}
    subprocess.run([sys.executable, recipe.with_name("build.py")], env=environment, check=True)
    found = prefix / "lib" / "cmake" / module / config.name
    (target,) = re.findall(r'^include\("\$\{CMAKE_CURRENT_LIST_DIR\}/(.*)"\)$', found.read_text())
    assert (found.parent / target).resolve() == config
    led = prefix / "lib" / "pkgconfig" / pc.name
    (start,) = re.findall(r"^prefix=\$\{pcfiledir\}/(.*)$", led.read_text(), re.MULTILINE)
    assert (led.parent / start).resolve() == site / module
    if shutil.which("pkg-config"):
        search = {**os.environ, "PKG_CONFIG_PATH": str(led.parent)}
        command = ("pkg-config", "--variable=includedir", module)
        said = subprocess.run(
            command, env=search, capture_output=True, text=True, check=True
        ).stdout
        assert Path(said.strip()).resolve() == site / module / "include"


def test_the_command_finds_the_source_distribution(
    sdist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    modelwheel = Modelwheel(tmp_path / "cache")
    done = modelwheel("recipe", sdist, "--out", tmp_path / "one")
    assert done.out == f"wrote {tmp_path / 'one' / 'recipe.yaml'}\n"
    assert "conda-forge needs --url" in done.err
    (tmp_path / "spec.yaml").write_text('model: {name: absent, version: "1.0.0"}\n')
    done = modelwheel("recipe", "spec.yaml", code=2)
    assert (
        "there is no file dist/model_absent-1.0.0.tar.gz; `modelwheel compile` makes it" in done.err
    )
    assert not (tmp_path / "recipes").exists()
