"""The codes of messages: each is used, explained, and belongs to the class of errors that is raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel import errors
from modelwheel.codes import Code, all_codes, find_code
from modelwheel.errors import ModelwheelError, SpecError, UsageError
from modelwheel.sandbox.policy import SandboxError
from modelwheel.util.processes import process
from modelwheel.workers.endings import WorkerError
from tests.support import codes_page

PACKAGE = Path(__file__).parents[2] / "pipeline" / "modelwheel"
CLASSES = {
    name: value
    for module in (errors, process)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, ModelwheelError)
} | {"SandboxError": SandboxError, "WorkerError": WorkerError}
SOURCES = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
codes = pytest.mark.parametrize("code", all_codes().values(), ids=lambda code: code.code)


def test_every_code_that_is_raised_is_explained_and_no_other() -> None:
    used = {code for text in SOURCES.values() for code in re.findall(r'"(MW[0-9]{3})"', text)}
    assert used == set(all_codes())


def raised() -> Iterator[tuple[str, str, type[ModelwheelError]]]:
    """Where each code is given, and the class that is raised with it."""
    for path, text in SOURCES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                for keyword in node.keywords:
                    known = isinstance(keyword.value, ast.Constant) and node.func.id in CLASSES
                    if keyword.arg == "code" and known:
                        assert isinstance(keyword.value, ast.Constant)
                        yield (
                            f"{path}:{node.lineno}",
                            str(keyword.value.value),
                            CLASSES[node.func.id],
                        )


def test_a_code_belongs_to_the_exit_code_of_its_error() -> None:
    found = list(raised())
    assert len(found) > 100
    wrong = [where for where, code, kind in found if all_codes()[code].exit_code != kind.exit_code]
    assert wrong == []


def test_every_class_has_a_general_code_of_its_own() -> None:
    general = [kind.code for kind in CLASSES.values()]
    assert len(set(general)) == len(general)


@codes
def test_a_text_says_what_is_wrong_and_how_to_fix_it(code: Code) -> None:
    what, *rest = code.text.split("\n\n")
    assert re.match(r"(modelwheel|cibuildwheel|[A-Z`]).*[.:]$", what, re.DOTALL)
    assert any(part.startswith("Fix: ") for part in rest)
    assert code.text.count("```") % 2 == 0
    assert max(map(len, code.text.splitlines())) <= 140


def test_the_page_is_up_to_date() -> None:
    stored = codes_page.PAGE.read_text(encoding="utf-8")
    assert stored == codes_page.text(), "update it: python -m tests.support.codes_page"


@pytest.mark.parametrize("name", ["MW302", "mw302", " 302 "])
def test_a_code_is_found_however_it_is_written(name: str) -> None:
    assert find_code(name).code == "MW302"


@pytest.mark.parametrize("name", ["MW999", "", "MW"])
def test_an_unknown_code(name: str) -> None:
    with pytest.raises(UsageError, match="`modelwheel explain` lists all"):
        find_code(name)


def test_messages_with_codes() -> None:
    assert ModelwheelError("one\ntwo", code="MW302").shown() == "one [MW302]\ntwo"
    several = SpecError("a\nb\n2 problems.", line_codes=["MW101", "MW102", ""])
    assert several.shown() == "a [MW101]\nb [MW102]\n2 problems."
    assert str(several) == "a\nb\n2 problems."
