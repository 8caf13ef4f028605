"""The package `modelwheel` as users get it: from its own files, outside of any checkout."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from modelwheel import __version__
from modelwheel.codes import all_codes
from modelwheel.levels import host_levels
from tests.support.commands import Done, Modelwheel, run
from tests.support.once import Once

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GIVEN = "MODELWHEEL_DIST"
"""A directory with the files to check, as the workflow of a release has it; otherwise they are built."""


@pytest.fixture(scope="module")
def dist(once: Once) -> Path:
    """A directory with the source distribution, and the wheel that was built from it."""

    def make(directory: Path) -> Path:
        if os.environ.get(GIVEN):
            return Path(os.environ[GIVEN]).resolve()
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory)]
        run(*command, str(ROOT))
        return directory

    return once("tool", make)


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


class Installed:
    """The wheel in an environment of its own."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.scripts = directory / ("Scripts" if os.name == "nt" else "bin")
        self.cache = cache

    def __call__(self, *arguments: str | Path, cwd: Path, code: int = 0) -> Done:
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            [self.scripts / "modelwheel", *arguments],
            cwd=cwd,
            env={**clean, "MODELWHEEL_CACHE_DIR": str(self.cache)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)


def install(wheel: Path, directory: Path, requirements: Sequence[str]) -> Path:
    """Makes an environment with the wheel alone, or with what it requires."""
    venv.EnvBuilder(with_pip=bool(requirements), symlinks=os.name != "nt").create(directory)
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    run(*pip, *(requirements or ["--no-deps", "--no-index", str(wheel)]))
    return directory


@pytest.fixture(scope="module")
def installed(wheel: Path, modelwheel: Modelwheel, once: Once) -> Installed:
    """The wheel alone; what it requires is that of the tests."""

    def make(directory: Path) -> Path:
        install(wheel, directory, ())
        (packages,) = directory.glob("[lL]ib/**/site-packages")
        # Behind the wheel's own files on the path, so that its modules and its metadata are found first.
        (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
        return directory

    return Installed(once("tool-installed", make), modelwheel.cache)


def test_the_files_have_what_they_need_and_nothing_else(dist: Path, wheel: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    assert wheel.name == f"modelwheel-{__version__}-py3-none-any.whl"
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"pipeline", "wheel_template", "pyproject.toml", "README.md", "LICENSE"} <= tops
    assert not {"tests", ".github", "model_specs"} & tops
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    ours = {
        path.relative_to(ROOT / "pipeline").as_posix()
        for path in (ROOT / "pipeline" / "modelwheel").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    template = ROOT / "wheel_template"
    ours |= {
        f"modelwheel/wheel_template/{path.relative_to(template).as_posix()}"
        for path in template.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == ours


def test_links_of_the_page_on_the_package_index_lead_to_the_repository(wheel: Path) -> None:
    """That page has no files beside it, and no headings to jump to."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        page = archive.read(name).decode()
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    root = f"https://github.com/modelwheel/modelwheel/blob/v{__version__}/"
    ours = [link.removeprefix(root) for link in links if link.startswith(root)]
    (picture,) = [link for link in links if link.endswith(".svg") and "githubusercontent" in link]
    ours.append(picture.partition(f"/v{__version__}/")[2])
    assert [path for path in ours if not (ROOT / path.partition("#")[0]).is_file()] == []
    assert any(path.startswith("README.md#") for path in ours)


def test_it_runs_where_no_checkout_is(installed: Installed, tmp_path: Path) -> None:
    assert installed("--version", cwd=tmp_path).out == f"modelwheel {__version__}\n"
    said = installed("explain", "MW302", cwd=tmp_path).out
    assert said.startswith(f"MW302: {all_codes()['MW302'].title} (exit code 4)\n")
    installed("schema", "--out", "schema.json", cwd=tmp_path)
    assert "compilation" in json.loads((tmp_path / "schema.json").read_text())["properties"]


def test_scriv_collects_the_changes(tmp_path: Path) -> None:
    """As a release does, in a copy: the section of this version is on top, with every item."""
    for name in ("changelog.d", "pyproject.toml", "CHANGELOG.md"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    init = tmp_path / "pipeline/modelwheel/__init__.py"
    init.parent.mkdir(parents=True)
    init.write_text('__version__ = "9.9.9"\n')
    script = "import os, sys; os.chdir(sys.argv.pop(1)); from scriv.cli import cli; cli()"
    run(sys.executable, "-c", script, tmp_path, "collect", "--keep")
    collected = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    section = collected.partition("\n## 9.9.9 (")[2].partition("\n## ")[0]
    for fragment in (ROOT / "changelog.d").glob("2*.md"):
        for item in re.findall(r"^- .*$", fragment.read_text(encoding="utf-8"), re.MULTILINE):
            assert item in section


def readme_steps() -> list[str]:
    """The commands of README's section for authors."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = (
        block
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if "\nmodelwheel new my-model" in block
    )
    return re.findall(r"^modelwheel .*$", block, re.MULTILINE)


def follow_readme(
    installed: Installed, model: Path, directory: Path, options: Sequence[str] = ()
) -> None:
    """Runs README's steps in an empty directory that has the model alone, and looks at what they leave.

    Args:
        installed: The command.
        model: A SavedModel.
        directory: The empty directory.
        options: Those that make the build quicker.
    """
    shutil.copytree(model, directory / "path/to/saved_model")
    for line in readme_steps():
        command, *words = shlex.split(line, comments=True)[1:]
        installed(command, *words, *(options if command == "build" else ()), cwd=directory)
    specs = directory / "model_specs"
    first = (specs / "my-model.yaml").read_text().partition("\n")[0]
    assert first.endswith("$schema=schema.json")
    assert "$id" in json.loads((specs / "schema.json").read_text())
    assert len(list((directory / "dist").glob("model_my_model-1.0.0-*.whl"))) == 1


def test_the_steps_of_the_readme(installed: Installed, models: Path, tmp_path: Path) -> None:
    options = ["--batch-size", "1", "--level", host_levels()[0].name]
    follow_readme(installed, models / "mlp", tmp_path, options)


@pytest.mark.exhaustive
def test_the_steps_of_the_readme_with_all_that_pip_installs(
    wheel: Path, models: Path, tmp_path: Path
) -> None:
    environment = install(wheel, tmp_path / "environment", [f"{wheel}[compile]"])
    work = tmp_path / "work"
    work.mkdir()
    follow_readme(Installed(environment, tmp_path / "cache"), models / "mlp", work)
