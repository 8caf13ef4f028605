"""A spec file as plain values, with the line and column of every key and value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...util.text import find_unsafe
from .problems import KeyPath, Position, Problem

# Both readers are recursive: a hostile file must not exhaust the stack.
MAX_DEPTH = 32

SYNTAX, NOT_PLAIN, UNREADABLE = "MW106", "MW107", "MW108"
"""Codes of mistakes: not valid YAML or JSON, more than plain values, not readable at all."""


class UnreadableError(Exception):
    """A mistake after which the rest of the file cannot be understood."""

    def __init__(
        self, position: Position, at: KeyPath, wrong: str, hint: str = "", *, code: str = SYNTAX
    ) -> None:
        super().__init__(wrong)
        self.position, self.at, self.wrong, self.hint = position, at, wrong, hint
        self.code = code


@dataclass
class Document:
    """The content of one file. Only its reader changes it."""

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    keys: dict[KeyPath, Position] = field(default_factory=dict)
    """The position of the key of each mapping entry."""
    nodes: dict[KeyPath, Position] = field(default_factory=dict)
    """The position of each value."""
    texts: dict[KeyPath, str] = field(default_factory=dict)
    """How each number, boolean or null was written (`1.10` for the number 1.1)."""
    problems: list[Problem] = field(default_factory=list)
    unreadable: set[KeyPath] = field(default_factory=set)
    """Values with a reported problem: further reports about them would not help."""

    def position(self, at: KeyPath, *, of_key: bool = False) -> Position:
        """The position of a value or its key, or of the nearest parent that exists."""
        while at and at not in self.nodes:
            at = at[:-1]
        if of_key and at in self.keys:
            return self.keys[at]
        return self.nodes.get(at, Position(1, 1))

    def is_unreadable(self, at: KeyPath) -> bool:
        """Whether the value or one that contains it has been reported as unreadable."""
        return any(at[:length] in self.unreadable for length in range(len(at) + 1))

    def note(
        self, position: Position, at: KeyPath, wrong: str, hint: str = "", *, code: str = NOT_PLAIN
    ) -> None:
        """Notes a mistake of the document; the value is still validated."""
        self.problems.append(Problem(self.path, position, at, wrong, hint, code))

    def report(
        self, position: Position, at: KeyPath, wrong: str, hint: str = "", *, code: str = NOT_PLAIN
    ) -> None:
        """Notes a mistake that leaves no value to check; only the first for each value is kept."""
        if not self.is_unreadable(at):
            self.note(position, at, wrong, hint, code=code)
            self.unreadable.add(at)

    def check_depth(self, position: Position, at: KeyPath) -> None:
        """Refuses values that are nested too deeply for a spec.

        Raises:
            UnreadableError: `at` is deeper than `MAX_DEPTH`.
        """
        if len(at) > MAX_DEPTH:
            wrong = f"nested more than {MAX_DEPTH} levels deep"
            raise UnreadableError(position, (), wrong, "No spec needs that: flatten it")

    def add_text(self, position: Position, at: KeyPath, text: str) -> str:
        """Checks text, with its escapes resolved, for unsafe characters; returns it."""
        unsafe = find_unsafe(text, "\n\t")
        if unsafe is not None:
            wrong = f"the text contains the character {unsafe[1]}, which cannot be shown safely"
            self.report(position, at, wrong, "Remove it")
        return text

    def add_entry(
        self, mapping: dict[str, Any], at: KeyPath, position: Position, value: Any
    ) -> None:
        """Stores a value under the last key of `at`; a repeated key is noted and its value dropped."""
        # The first value counts, as do the first positions, which readers store by `setdefault`.
        key = str(at[-1])
        if key not in mapping:
            mapping[key] = value
            return
        wrong = f"the key is given twice (first in line {self.keys[at].line})"
        self.note(position, at, wrong, "Remove one of them", code="MW105")
