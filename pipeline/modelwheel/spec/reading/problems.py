"""How a mistake in a spec is reported: `file:line:column: field.path: what is wrong. Fix`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...errors import SpecError
from ...util.text import one_line
from ...util.words import count, shorten

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path from the top of a document to a value: keys of mappings and indices of lists."""

GENERAL = SpecError.code
"""The code of mistakes that have none of their own."""

_SENTENCE = 300
_MAX_LINES = 100
"""A spec may be hostile: these limit what it can make us print."""


class Position(NamedTuple):
    """A place in a text file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is, what is wrong and how to fix it."""

    file: Path
    position: Position
    field: KeyPath
    wrong: str
    hint: str = ""
    """How to fix it, as a sentence of its own."""
    code: str = GENERAL
    """The kind of mistake: see `ModelwheelError.code`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hint", f"{self.hint[:1].upper()}{self.hint[1:]}")

    def __str__(self) -> str:
        place = one_line(f"{self.file}:{self.position.line}:{self.position.column}")
        return f"{place}: {self.sentence()}"

    def sentence(self) -> str:
        """The problem in one line without its place, safe for a terminal."""
        field = f"{format_field(self.field)}: " if self.field else ""
        hint = f". {shorten(self.hint, _SENTENCE)}" if self.hint else ""
        return one_line(f"{field}{shorten(self.wrong, _SENTENCE)}{hint}")


class InvalidSpecsError(SpecError):
    """Spec files have mistakes; `problems` has each of them."""

    def __init__(
        self, message: str, problems: Iterable[Problem], *, line_codes: Sequence[str] = ()
    ) -> None:
        super().__init__(message, line_codes=line_codes)
        self.problems = tuple(problems)


def spec_error(problems: Iterable[Problem], spec_count: int) -> InvalidSpecsError:
    """All mistakes of `spec_count` files as one error, a line each and a count at the end."""
    problems = list(problems)
    shown = problems[:_MAX_LINES]
    lines = [str(problem) for problem in shown]
    if len(problems) > _MAX_LINES:
        lines.append(f"... and {len(problems) - _MAX_LINES} more.")
    lines.append(f"{count(len(problems), 'problem')} in {count(spec_count, 'spec')}.")
    codes = [problem.code for problem in shown]
    codes += [""] * (len(lines) - len(shown))
    return InvalidSpecsError("\n".join(lines), problems, line_codes=codes)


def format_field(path: KeyPath) -> str:
    """A key path as people write it: `verify.outputs["a b"].atol`, `compilation.batch_sizes[2]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f'["{shorten(part)}"]'
    return text
