"""Files beside a command are never run in place of a package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel.util.python import module_command

_SHADOW = "raise SystemExit('the file of the working directory was run')\n"


@pytest.mark.parametrize("shadow", ["typer.py", "build.py", "yaml.py"])
def test_the_command_imports_nothing_from_the_working_directory(
    tmp_path: Path, shadow: str
) -> None:
    (tmp_path / shadow).write_text(_SHADOW, encoding="utf-8")
    program = (
        "import importlib, runpy, sys\n"
        "sys.argv = ['modelwheel', '--version']\n"
        "try: runpy.run_module('modelwheel', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end: assert not end.code, end\n"
        f"importlib.import_module({shadow.removesuffix('.py')!r})\n"
    )
    # -c puts the working directory first, as -m does.
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    own = [sys.executable, "-m", "modelwheel", "--version"]
    assert subprocess.run(own, cwd=tmp_path, capture_output=True, check=False).returncode == 0


def test_modules_that_are_started_are_those_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    for name in ("pip/__init__.py", "pip/__main__.py", "shutil.py"):
        (tmp_path / name).write_text(_SHADOW, encoding="utf-8")
    command = [*module_command("pip"), "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pip ")
