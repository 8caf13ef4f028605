"""What all commands share: help, version, and how errors end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel import __version__, errors, project
from modelwheel.errors import ModelwheelError
from modelwheel.util.processes import process
from tests.support.commands import COMMAND, GROUP, Modelwheel, run


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a command prints on a terminal that can show colours."""
    pty = pytest.importorskip("pty")
    primary, secondary = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    subprocess.run(
        [*COMMAND, *arguments],
        stderr=secondary,
        env={**env, "TERM": "xterm", **environment},
        check=False,
    )
    os.close(secondary)
    text = os.read(primary, 10_000).decode()
    os.close(primary)
    return text


def test_errors_are_coloured_only_where_that_is_wanted(tmp_path: Path) -> None:
    arguments = ("check", str(tmp_path / "absent.yaml"))
    assert on_a_terminal(*arguments).startswith("\x1b[31m\x1b[1merror\x1b[0m: ")
    assert on_a_terminal(*arguments, NO_COLOR="1").startswith("error: ")
    assert on_a_terminal(*arguments, TERM="dumb").startswith("error: ")
    assert on_a_terminal(*arguments, NO_COLOR="").startswith("\x1b[")


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(modelwheel: Modelwheel, option: str) -> None:
    assert modelwheel(option).out == f"modelwheel {__version__}\n"


def test_help_groups_the_commands(modelwheel: Modelwheel) -> None:
    overview = modelwheel("--help").out
    panels = re.split(r"─ ([A-Z][a-z ]+) ─+", overview)[1:]
    names = {
        title: set(re.findall(r"^│ (\w+) ", text, re.MULTILINE))
        for title, text in zip(panels[::2], panels[1::2], strict=True)
    }
    assert {"new", "check", "build"} <= names["Model author"]
    assert {"compile", "wheel", "audit", "publish"} <= names["Release"]
    assert {"doctor", "cache"} <= names["Maintenance"]
    assert "Commands" not in names
    assert "<bool>" not in overview


@pytest.mark.parametrize("command", GROUP.commands)
def test_help_shows_no_types_of_python(modelwheel: Modelwheel, command: str) -> None:
    text = modelwheel(command, "--help").out
    assert not re.findall(r"<\w+[\[>]|<\w+ range>|[{}]", text.partition("Exit codes:")[0])


@pytest.mark.parametrize(
    "command", sorted(set(GROUP.commands) - {"export"})
)  # it writes files for others
def test_every_command_has_json(command: str) -> None:
    options = [name for parameter in GROUP.commands[command].params for name in parameter.opts]
    assert "--json" in options


def test_help_has_the_exit_code_of_every_error(modelwheel: Modelwheel) -> None:
    _, _, table = modelwheel("--help").out.partition("Exit codes:")
    codes = [int(code) for code in re.findall(r"^ *(\d+)  \S", table, re.MULTILINE)]
    expected = {
        value.exit_code
        for module in (errors, process)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ModelwheelError)
    }
    assert codes == sorted({0, 130, 143} | expected)


_PROBE = """
import logging, sys
from modelwheel.cli import app, main
from modelwheel.util.processes.process import run

@app.command()
def probe() -> None:
    logging.getLogger("filelock").debug("noise")
    run([sys.executable, "--version"])

sys.argv = ["modelwheel", "--verbose", "probe"]
main()
"""


def test_verbose_logs_commands_and_no_other_library() -> None:
    done = run(sys.executable, "-c", _PROBE)
    assert "--version" in done.err
    assert "noise" not in done.err


def test_issues_are_reported_where_the_package_says() -> None:
    assert project.url("Issues").startswith("https://")
    assert project.url("Issues").startswith(project.url())
