"""The install lines of the catalogue, pasted into a shell, install the models into an empty environment."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from modelwheel.index.site import write_site
from modelwheel.packaging.runtime import NEEDED_SDIST
from tests.support.index_wheels import make_wheel
from tests.support.indexes import make_wheel as make_module
from tests.support.pasted_texts import pasted_texts
from tests.support.projects import render_model
from tests.support.site_server import serve

RUNTIME = "modelwheel_runtime"


def make_default_index(directory: Path) -> Path:
    """A simple index with a NumPy, in place of the one that pip is configured with."""
    wheels = directory / "numpy"
    wheels.mkdir(parents=True)
    path = make_module(wheels, "numpy", "2.0")
    (wheels / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    return directory


def paste(code: str, directory: Path, default_index: str, **variables: str) -> Path:
    """Runs lines in a shell whose pip is that of a new, empty environment; returns its interpreter."""
    environment = directory / "environment"
    venv.EnvBuilder(with_pip=True, symlinks=True).create(environment)
    settings = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    settings |= {
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": default_index,
        "PIP_NO_CACHE_DIR": "1",
        **variables,
    }
    done = subprocess.run(
        ["sh", "-e"], input=code, env=settings, cwd=directory, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
    return environment / "bin" / "python"


def test_pasted_install_lines_work_in_an_empty_environment(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    needed = ["numpy>=1.26", "modelwheel-runtime<2,>=1.0"]
    make_wheel(wheels, "digits", requires=needed)
    make_wheel(wheels, "digits", project=RUNTIME, version="1.1", requires=needed[:1])
    site = write_site([wheels], tmp_path / "site").directory
    default = make_default_index(tmp_path / "default")
    with serve(site) as ours, serve(default) as theirs:
        site = write_site([wheels], tmp_path / "site", None, f"{ours.url}simple/").directory
        code = pasted_texts(site)["Install with pip"]
        assert code.splitlines()[1].endswith("simple/model-digits/requirements-1.0.0.txt")
        python = paste(code, tmp_path, theirs.url)
        assert not any("digits" in path for path in theirs.requests)
        assert not any("modelwheel" in path for path in theirs.requests)
        assert not any("numpy" in path for path in ours.requests)
    script = "import numpy, model_digits; print(model_digits.NAME)"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "digits\n"


def test_a_higher_version_on_a_public_index_does_not_win(tmp_path: Path) -> None:
    """Dependency confusion: anybody can publish a model's name where NumPy comes from."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "digits", requires=["numpy>=1.26"])
    public = make_default_index(tmp_path / "default")
    for version in ("1.0.0", "99"):  # the same version with other bytes, and a higher one
        path = make_wheel(tmp_path, "digits", " of somebody else", version=version)
        page = public / "model-digits"
        page.mkdir(exist_ok=True)
        path.rename(page / path.name)
    (page / "index.html").write_text(
        "".join(f'<a href="{p.name}">{p.name}</a>' for p in page.iterdir())
    )
    site = tmp_path / "site"
    write_site([wheels], site)
    with serve(site) as ours, serve(public) as theirs:
        write_site([wheels], site, None, f"{ours.url}simple/")
        # As a machine is configured on which somebody once followed the advice of an error message.
        python = paste(
            pasted_texts(site)["Install with pip"],
            tmp_path,
            theirs.url,
            PIP_EXTRA_INDEX_URL=theirs.url,
        )
        assert any("model-digits" in path for path in theirs.requests)  # pip did ask there
    (installed,) = python.parents[1].glob("lib/*/site-packages/model_digits*.dist-info")
    assert installed.name == "model_digits-1.0.0.dist-info"
    served = zipfile.ZipFile(wheels / "model_digits-1.0.0-py3-none-any.whl").read(
        "model_digits/_manifest.json"
    )
    assert (installed.parent / "model_digits" / "_manifest.json").read_bytes() == served
    page_text = (site / "simple" / "model-digits" / "index.html").read_text()
    assert (
        "model-digits from this index alone; numpy&gt;=1.26 from your default index." in page_text
    )


BACKEND = """\
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "modelwheel_runtime-1.0.0-py3-none-any.whl"
    info = "modelwheel_runtime-1.0.0.dist-info/"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: modelwheel-runtime\\nVersion: 1.0.0\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""


def test_a_wheel_is_tested_with_the_runtime_that_came_with_it(tmp_path: Path) -> None:
    """Not with a newer one that anybody has put on an index; the command is that of the source distribution."""
    project = render_model(tmp_path / "project", "shared")
    (command,) = re.findall(
        r'^before-test = "(.*)"$', (project / "pyproject.toml").read_text(), re.MULTILINE
    )
    needed = project / NEEDED_SDIST
    needed.parent.mkdir()
    with tarfile.open(needed, "w:gz") as sdist:
        for name, text in (
            (
                "pyproject.toml",
                '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
            ),
            ("b.py", BACKEND),
        ):
            member = tarfile.TarInfo(f"{needed.name.removesuffix('.tar.gz')}/{name}")
            member.size = len(text)
            sdist.addfile(member, io.BytesIO(text.encode()))
    make_wheel(tmp_path, "digits", requires=["modelwheel-runtime<2,>=1.0"])
    public = tmp_path / "public" / "modelwheel-runtime"
    path = make_module(public, "modelwheel-runtime", "1.9")
    (public / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    # As cibuildwheel does: `before-test`, then the wheel.
    lines = f"{command.format(project=project)}\npip install {tmp_path}/model_digits-1.0.0-py3-none-any.whl\n"
    with serve(public.parent) as theirs:
        python = paste(lines, tmp_path, theirs.url)
    (installed,) = python.parents[1].glob("lib/*/site-packages/modelwheel_runtime*.dist-info")
    assert installed.name == "modelwheel_runtime-1.0.0.dist-info"


def test_requirements_with_hashes_install(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    needed = ["numpy>=1.26", "modelwheel-runtime<2,>=1.0"]
    make_wheel(wheels, "digits", requires=needed)
    make_wheel(wheels, "digits", " of Windows", requires=needed, tag="cp39-cp39-win32")
    for version in ("1.1", "2.0"):
        make_wheel(wheels, "digits", project=RUNTIME, version=version, requires=needed[:1])
    default = make_default_index(tmp_path / "default")
    site = tmp_path / "site"
    write_site([wheels], site)
    with serve(site) as ours, serve(default) as theirs:
        write_site([wheels], site, None, f"{ours.url}simple/")
        text = pasted_texts(site)["Install with Requirements"]
        assert text.count("--hash") == 3
        (tmp_path / "requirements.txt").write_text(text)
        first = text.splitlines()[0].removeprefix("# first: ")
        paste(f"{first}\npip install -r requirements.txt\n", tmp_path, theirs.url)
        # Any other file under this name is refused.
        (tmp_path / "requirements.txt").write_text(text.replace("sha256:", "sha256:00"))
        with pytest.raises(AssertionError, match="hash"):
            paste("pip install --force-reinstall -r requirements.txt\n", tmp_path, theirs.url)
