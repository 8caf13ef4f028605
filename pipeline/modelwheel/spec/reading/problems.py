"""How a mistake in a spec is placed and worded: `file:line:column: field.path: what. remedy`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...errors import SpecError
from .text import escape_unsafe

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way from the top of a document to a value: keys of mappings and indices of lists."""


_SENTENCE = 300
_MAX_LINES = 100
"""What a spec can make us print is bounded, whatever it holds."""


class Position(NamedTuple):
    """A place in a text file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is, what is wrong and how to mend it."""

    file: Path
    position: Position
    field: KeyPath
    wrong: str
    remedy: str = ""

    def __str__(self) -> str:
        place = escape_unsafe(f"{self.file}:{self.position.line}:{self.position.column}")
        return f"{place}: {self.sentence()}"

    def sentence(self) -> str:
        """The problem in one line without its place, fit for a terminal."""
        field = f"{format_field(self.field)}: " if self.field else ""
        remedy = f". {shorten(self.remedy, _SENTENCE)}" if self.remedy else ""
        return escape_unsafe(f"{field}{shorten(self.wrong, _SENTENCE)}{remedy}")


class InvalidSpecsError(SpecError):
    """Spec files have mistakes; `problems` has each of them."""

    def __init__(self, message: str, problems: Iterable[Problem]) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


def spec_error(problems: Iterable[Problem], spec_count: int) -> InvalidSpecsError:
    """All mistakes of `spec_count` files as one error, a line each and a count at the end."""
    problems = list(problems)
    lines = [str(problem) for problem in problems[:_MAX_LINES]]
    if len(problems) > _MAX_LINES:
        lines.append(f"... and {len(problems) - _MAX_LINES} more.")
    lines.append(f"{_count(len(problems), 'problem')} in {_count(spec_count, 'spec')}.")
    return InvalidSpecsError("\n".join(lines), problems)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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


def shorten(text: str, limit: int = 60) -> str:
    """The text itself, or its beginning, fit to stand inside one line of a message."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean 'x'?` for the nearest known word, or a list of them when none is near."""
    known = list(known)
    nearest = nearest_word(word, known)
    if nearest is not None:
        return f"Did you mean '{nearest}'?"
    return f"Known here: {', '.join(known)}"


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most probably stands for; None when none is near."""
    by_folded = {_fold(entry): entry for entry in known}
    matches = difflib.get_close_matches(_fold(word), by_folded, n=1)
    return by_folded[matches[0]] if matches else None


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")
