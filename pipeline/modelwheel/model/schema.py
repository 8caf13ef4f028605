"""The schema of XLA's compilation result, and how that of one TensorFlow differs from that of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..util.records import JsonRecord

_OPTIONS = "xla.DebugOptions"
"""The message of XLA's flags."""


class Schema(JsonRecord):
    """The possible contents of a compilation result; `modelwheel.compiler.print_schema` reads them from a TensorFlow."""

    types: Mapping[str, Mapping[str, tuple[int, str]]]
    """Messages by their names: fields with their numbers and types. Enumerations: values with their numbers."""
    thunks: tuple[str, ...]
    """The kinds of thunks that XLA has."""
    read: tuple[str, ...]
    """Those that this modelwheel reads."""


@dataclass(frozen=True)
class Difference:
    """One field, value or type of a schema that another schema has not, or has in another way."""

    kind: Literal["added", "removed", "changed"]
    what: str
    """Its full name."""
    detail: str = ""
    """What it was and is."""

    @property
    def is_flag(self) -> bool:
        """Whether it belongs to XLA's flags, most of which are for other processors."""
        return self.what.startswith(_OPTIONS)

    @property
    def breaks(self) -> bool:
        """Whether a program that reads the old schema could read something else than was written.

        What is added is no danger by itself: a result that contains it is refused.
        """
        return self.kind != "added" and not self.is_flag


def differences(old: Schema, new: Schema) -> Iterator[Difference]:
    """How a schema differs from an older one, in the order of names."""
    for name in sorted({*old.types, *new.types}):
        if name not in new.types:
            yield Difference("removed", name)
        elif name not in old.types:
            yield Difference("added", name)
        else:
            yield from _fields(name, old.types[name], new.types[name])


def _fields(
    name: str, old: Mapping[str, tuple[int, str]], new: Mapping[str, tuple[int, str]]
) -> Iterator[Difference]:
    for field in sorted({*old, *new}):
        full = f"{name}.{field}"
        if field not in new:
            yield Difference("removed", full)
        elif field not in old:
            yield Difference("added", full)
        elif old[field] != new[field]:
            before, now = (f"{kind} = {number}" for number, kind in (old[field], new[field]))
            yield Difference("changed", full, f"{before}, now {now}")


def unread_thunks(old: Schema, new: Schema) -> list[str]:
    """Kinds of thunks that only the new schema has, and that are not read: models that need one are refused."""
    return sorted({*new.thunks} - {*old.thunks} - {*new.read})
