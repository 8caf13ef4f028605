"""`modelwheel list`: entry points and manifests of installed models, read without importing one."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from modelwheel.levels import host_levels
from tests.support.commands import Modelwheel
from tests.support.index_wheels import make_manifest


def _install(site: Path, name: str, version: str = "1.0.0", entry: str = "") -> None:
    module = f"model_{name.replace('-', '_')}"
    levels = (host_levels()[0].name,)
    described = make_manifest(name, version=version).model_copy(update={"levels": levels})
    (site / module).mkdir(parents=True)
    (site / module / "__init__.py").write_text("raise SystemExit('imported')\n")
    described.save(site / module / "_manifest.json")
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: model-{name}\nVersion: {version}\n"
    )
    entry = entry or f"[modelwheel.models]\n{name} = {module}\n"
    (info / "entry_points.txt").write_text(entry)


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment with two models and a package that is none."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(tmp_path / "venv")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "venv" / "lib" / version / "site-packages"
    _install(site, "two-words", "2.0")
    _install(site, "digits")
    _install(site, "other", entry="[console_scripts]\nother = model_other:main\n")
    return tmp_path / "venv" / "bin" / "python"


def test_models_of_another_python(modelwheel: Modelwheel, python: Path) -> None:
    level, site = host_levels()[0].name, next(python.parents[1].glob("lib/*/site-packages"))
    lines = modelwheel("list", "--python", python).out.splitlines()
    assert [line.split() for line in lines] == [
        ["digits", "1.0.0", level, f"{site}/model_digits"],
        ["two-words", "2.0", level, f"{site}/model_two_words"],
    ]
    digits, words = modelwheel("list", "--json", "--python", python).json
    assert (digits["name"], words["module"]) == ("digits", "model_two_words")
    assert (words["distribution"], words["levels"]) == ("model-two-words", [level])


def test_a_model_without_its_manifest_is_listed(modelwheel: Modelwheel, python: Path) -> None:
    for manifest in python.parents[1].rglob("_manifest.json"):
        manifest.write_text("[")
    assert [row["level"] for row in modelwheel("list", "--json", "--python", python).json] == [
        None,
        None,
    ]


def test_an_environment_without_models(modelwheel: Modelwheel, tmp_path: Path) -> None:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(tmp_path / "venv")
    done = modelwheel("list", "--python", tmp_path / "venv" / "bin" / "python")
    assert (done.out, done.err) == (
        "",
        "no models are installed here; --python names another environment\n",
    )
    assert modelwheel("--quiet", "list", "--python", tmp_path / "venv" / "bin" / "python").err == ""


def test_a_python_that_is_none(modelwheel: Modelwheel, tmp_path: Path) -> None:
    for name in ("absent", "python"):
        (tmp_path / "python").write_text("no program")
        done = modelwheel("list", "--python", tmp_path / name, code=2)
        assert "is not an interpreter; name one such as venv/bin/python" in done.err
