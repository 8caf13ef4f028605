"""Docstrings say what a thing is: `The same` points at a neighbour that may move, and `What` begins a question."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pipeline" / "modelwheel"


def _docstrings(path: Path) -> Iterator[tuple[bool, str]]:
    """Whether it is of a module, class or function, not of a field, and each docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        for number, part in enumerate(body if isinstance(body, list) else ()):
            value = part.value if isinstance(part, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield number == 0, value.value


def test_docstrings_begin_with_what_they_are_about() -> None:
    found = [
        (path.relative_to(PACKAGE).as_posix(), text.partition("\n")[0])
        for path in sorted(PACKAGE.rglob("*.py"))
        for is_own, text in _docstrings(path)
        if text.startswith("The same ") or (is_own and text.startswith("What "))
    ]
    assert found == []
