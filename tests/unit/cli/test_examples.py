"""The examples at the end of each command's help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from modelwheel.cli import cms
from tests.support.commands import GROUP, parse


def commands(group: Any, prefix: str = "modelwheel") -> Iterator[tuple[str, Any]]:
    """Every command with what users type for it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


ALL = dict(commands(GROUP))
CMS = {
    "cms_tfaot_compile": typer.main.get_command(cms.compile_app),
    "cmsml_check_aot_compatibility": typer.main.get_command(cms.check_app),
}


def examples(command: Any) -> list[str]:
    return re.findall(r"^\$ (.+)$", command.epilog or "", re.MULTILINE)


@pytest.mark.parametrize("name", [*ALL, *CMS])
def test_every_command_has_an_example_of_itself(name: str) -> None:
    lines = examples({**ALL, **CMS}[name])
    assert lines
    assert all(line.startswith(name) for line in lines)


@pytest.mark.parametrize("line", [line for command in ALL.values() for line in examples(command)])
def test_examples_parse(line: str) -> None:
    parse(shlex.split(line)[1:])


@pytest.mark.parametrize("name", CMS)
def test_examples_of_cms_parse(name: str) -> None:
    for line in examples(CMS[name]):
        with CMS[name].make_context(name, shlex.split(line)[1:]):
            pass


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_json(name: str) -> None:
    options = [option for parameter in ALL[name].params for option in parameter.opts]
    assert "--json" in options
