"""docs/seeds.md: every element has a state, and the tests that it names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OF_THE_CARD = [f"C{number}" for number in range(1, 16)]
OF_THE_TEXTS = [str(number) for number in range(1, 93)]

_ROW = re.compile(
    r"^\| (C?\d+) \| (.+) \| (has|other form|not here) \| (.*?) ?\| (.*?) ?\|$", re.MULTILINE
)


def rows() -> list[tuple[str, ...]]:
    """Number, element, state, reason and tests of each element."""
    return _ROW.findall((ROOT / "docs" / "seeds.md").read_text(encoding="utf-8"))


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names of the tests in a file."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(one.name for one in body if isinstance(one, ast.FunctionDef))


def test_every_element_is_there_once() -> None:
    assert [number for number, *_ in rows()] == OF_THE_CARD + OF_THE_TEXTS


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_tests_that_it_names_exist(row: tuple[str, ...]) -> None:
    _, _, state, reason, shown = row
    named = re.findall(r"`([^`]+)`", shown)
    assert re.sub(r"`[^`]+`| ", "", shown) == ""
    assert named or state == "not here"
    assert reason or state == "has"
    for name in named:
        file, separator, test = name.partition("::")
        assert separator
        assert test.startswith("test_")
        assert test in names_in(ROOT / file)


def test_the_directories_of_the_card_are_there() -> None:
    for name in (".github", "model_specs", "pipeline", "tests", "wheel_template"):
        assert any((ROOT / name).iterdir())
    assert (ROOT / "pyproject.toml").is_file()
