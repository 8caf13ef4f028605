"""The meaning of each code of a message: the sections of `resources/codes.md`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from . import errors
from .errors import ModelwheelError, UsageError
from .resources import read_text
from .util.processes import process

_HEAD = re.compile(r"^## (MW[0-9]{3}) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Code:
    """One kind of mistake."""

    code: str
    """Such as `MW302`."""
    title: str
    text: str
    """What it means, why it is one, how to fix it, and often an example: Markdown."""

    @property
    def exit_code(self) -> int:
        """The code that a command ends with: those of a class of errors follow the general one of the class."""
        general = max(code for code in _exit_codes() if code <= self.code)
        return _exit_codes()[general]

    JSON_FIELDS: ClassVar = ("code", "exit_code", "title", "text")


@cache
def _exit_codes() -> Mapping[str, int]:
    """The general code of each class of errors, with its exit code."""
    values = [value for module in (errors, process) for value in vars(module).values()]
    classes = [value for value in values if isinstance(value, type)]
    return {c.code: c.exit_code for c in classes if issubclass(c, ModelwheelError)}


@cache
def all_codes() -> Mapping[str, Code]:
    """Every code in the order of the numbers."""
    _, *parts = _HEAD.split(read_text("codes.md"))
    sections = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {code: Code(code, title, text.strip()) for code, title, text in sections}


def find_code(name: str) -> Code:
    """The code of this name, which may be written in small letters or as its number alone.

    Raises:
        UsageError: There is no such code.
    """
    codes = all_codes()
    wanted = name.strip().upper()
    wanted = f"MW{wanted}" if wanted.isdecimal() else wanted
    if wanted not in codes:
        raise UsageError(f"there is no code {name!r}; `modelwheel explain` lists all of them")
    return codes[wanted]
