"""The install lines of the catalogue, pasted into a shell, install the models into an empty environment."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest

from modelwheel.index.site import write_site
from tests.support.index_wheels import make_wheel
from tests.support.indexes import make_wheel as make_module
from tests.support.install_codes import install_codes
from tests.support.site_server import serve

RUNTIME = "modelwheel_runtime"


def make_default_index(directory: Path) -> Path:
    """A simple index with a NumPy, in place of the one that pip is configured with."""
    wheels = directory / "numpy"
    wheels.mkdir(parents=True)
    path = make_module(wheels, "numpy", "2.0")
    (wheels / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    return directory


def paste(code: str, directory: Path, default_index: str) -> Path:
    """Runs lines in a shell whose pip is that of a new, empty environment; returns its interpreter."""
    environment = directory / "environment"
    venv.EnvBuilder(with_pip=True, symlinks=True).create(environment)
    settings = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    settings |= {
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": default_index,
        "PIP_NO_CACHE_DIR": "1",
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
        code = install_codes(site)[0]
        assert code.splitlines()[1].endswith("'modelwheel-runtime<2,>=1.0' model-digits")
        python = paste(code, tmp_path, theirs.url)
        assert not any("digits" in path for path in theirs.requests)
        assert not any("modelwheel" in path for path in theirs.requests)
        assert not any("numpy" in path for path in ours.requests)
    script = "import numpy, model_digits; print(model_digits.NAME)"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "digits\n"


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
        text = install_codes(site)[2]
        assert text.count("--hash") == 3
        (tmp_path / "requirements.txt").write_text(text)
        first = text.splitlines()[0].removeprefix("# first: ")
        paste(f"{first}\npip install -r requirements.txt\n", tmp_path, theirs.url)
        # Any other file under this name is refused.
        (tmp_path / "requirements.txt").write_text(text.replace("sha256:", "sha256:00"))
        with pytest.raises(AssertionError, match="hash"):
            paste("pip install --force-reinstall -r requirements.txt\n", tmp_path, theirs.url)
