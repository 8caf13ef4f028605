"""What a model's page gives to paste does what it says: programs run, and every install text works in an empty environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.index.site import write_site
from tests.support.commands import run
from tests.support.pasted_texts import pasted_texts
from tests.support.site_server import serve
from tests.support.wheels import SPECS, WITH_HEADERS, Built

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A site with the wheels of all specs, whose pages know where it is served."""
    wheels = [built.wheel(name) for name in SPECS]
    directory = write_site(wheels, tmp_path_factory.mktemp("out") / "site").directory
    with serve(directory) as served:
        yield write_site(wheels, directory, None, f"{served.url}simple/").directory


def texts_of(site: Path, name: str) -> dict[str, str]:
    return pasted_texts(site, f"model-{name}")


@pytest.mark.parametrize("name", SPECS)
def test_the_program_in_python_runs(
    site: Path, environment: Path, tmp_path: Path, name: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(texts_of(site, name)["Program in Python"])
    done = run(environment, program)
    assert re.search(r"\(\d*,? ?\d*", done.out), done.out


@pytest.mark.parametrize("name", WITH_HEADERS)
@pytest.mark.parametrize(("language", "ending"), [("C", "c"), ("C++", "cpp")])
def test_the_programs_in_c_and_cpp_run(
    site: Path, environment: Path, tmp_path: Path, name: str, language: str, ending: str
) -> None:
    source = tmp_path / f"program.{ending}"
    source.write_text(texts_of(site, name)[f"Program in {language}"])
    flags = run(environment, "-m", f"model_{name}", "--cflags", "--libs").out.split()
    compiler, standard = ("cc", "-std=c99") if ending == "c" else ("c++", "-std=c++17")
    strict = ["-Wall", "-Wextra", "-Werror", standard]
    run(compiler, *strict, source, "-o", tmp_path / "program", *flags)
    assert run(tmp_path / "program").out != ""


@pytest.mark.parametrize("name", sorted(set(SPECS) - set(WITH_HEADERS)))
def test_a_wheel_for_python_alone_offers_no_more(site: Path, name: str) -> None:
    assert not any(text.endswith((" C", " C++", " CMake")) for text in texts_of(site, name))


@pytest.mark.exhaustive
@pytest.mark.parametrize("tab", ["pip", "Requirements", "CMake", "C", "uv"])
def test_an_install_text_works_in_an_empty_environment(
    site: Path, tmp_path: Path, tab: str
) -> None:
    """With NumPy from the default index of the machine."""
    texts = texts_of(site, "mlp")
    for language, file in (("Python", "program.py"), ("C", "program.c"), ("C++", "program.cpp")):
        (tmp_path / file).write_text(texts[f"Program in {language}"])
    text = texts[f"Install with {tab}"]
    if tab == "uv":
        (tmp_path / "pyproject.toml").write_text(text)
        lines = "uv sync\n.venv/bin/python program.py"
    elif tab == "Requirements":
        (tmp_path / "requirements.txt").write_text(text)
        first = text.splitlines()[0].removeprefix("# first: ")
        lines = f"{first}\npip install -r requirements.txt\npython program.py"
    else:
        lines = f"{text}\npython program.py"
    environment = tmp_path / "environment"
    venv.EnvBuilder(with_pip=True, symlinks=True).create(environment)
    programs = [str(environment / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["sh", "-e"], input=lines, cwd=tmp_path, env={**os.environ, "PATH": os.pathsep.join(programs)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
    assert "[" in done.stdout.splitlines()[-1]
