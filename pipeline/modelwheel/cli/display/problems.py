"""Errors as JSON, for editors and the annotations of a pull request."""

from __future__ import annotations

from typing import TypedDict

from ...errors import ModelwheelError, SpecError
from ...spec.reading.problems import InvalidSpecsError, Problem, format_field
from ...util.words import shorten

_LONGEST = 300
"""Characters of a message: a spec may hold any text, and messages quote it."""


class Row(TypedDict):
    """One mistake. Everything but the message is None where a mistake is not in one place of a file."""

    file: str | None
    line: int | None
    column: int | None
    field: str | None
    message: str
    hint: str | None
    code: str


def problem_rows(error: ModelwheelError) -> list[Row]:
    """The mistakes that an error reports, in its order."""
    if isinstance(error, InvalidSpecsError):
        return [_row(problem) for problem in error.problems]
    # Errors about specs have a line for each mistake; others may quote the output of a program.
    lines = str(error).splitlines() if isinstance(error, SpecError) else [str(error)]
    return [
        Row(file=None, line=None, column=None, field=None, message=line, hint=None, code=error.code)
        for line in lines
    ]


def _row(problem: Problem) -> Row:
    return Row(
        file=str(problem.file),
        line=problem.position.line,
        column=problem.position.column,
        field=format_field(problem.field) or None,
        message=shorten(problem.wrong, _LONGEST),
        hint=shorten(problem.hint, _LONGEST) or None,
        code=problem.code,
    )
