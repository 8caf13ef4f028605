"""Values as JSON: files that a step saves, and what commands print with `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .text import one_line

if TYPE_CHECKING:
    from typing_extensions import Self


_Value = TypeVar("_Value")


def omitted(default: _Value) -> _Value:
    """The default of a field that is not written where it has it: many records are smaller then."""
    field: _Value = Field(default=default, exclude_if=lambda value: bool(value == default))
    return field


class JsonRecord(BaseModel):
    """An immutable value that is saved as a JSON file; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    JSON_INDENT: ClassVar[int | None] = 1
    """None writes everything in one line, for large records."""

    def to_json(self) -> bytes:
        """The record as JSON: the same bytes for the same value, on every system."""
        return f"{self.model_dump_json(indent=self.JSON_INDENT)}\n".encode()

    def save(self, path: Path) -> None:
        """Writes `to_json` to a file."""
        path.write_bytes(self.to_json())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            pydantic.ValidationError: The file holds something else.
        """
        return cls.model_validate_json(path.read_bytes())


def first_mistake(error: ValidationError, root: str = "") -> str:
    """The first mistake as `field.item: what is wrong`, safe for one line.

    Args:
        error: What pydantic raised.
        root: What the fields belong to, which comes first.
    """
    first = error.errors()[0]
    where = ".".join(filter(None, (root, *map(str, first["loc"]))))
    return one_line(f"{where}: {first['msg']}" if where else first["msg"])


def parse_json(content: bytes) -> Any:
    """The value of a JSON text that somebody else wrote.

    Raises:
        ValueError: It is not JSON, not Unicode, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_json(value: object) -> Any:
    """A value as `json.dumps` takes it.

    Pydantic models, dataclasses, paths, versions, exceptions, enumerations, mappings, sets (sorted)
    and sequences are converted with everything in them. A dataclass with a class attribute
    `JSON_FIELDS` is shown with those attributes, which may be properties, in that order.

    Raises:
        TypeError: The value has no JSON form.
    """
    if value is None or isinstance(value, bool | int | float | str):
        # An enumeration may be a str or an int as well.
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        names = getattr(value, "JSON_FIELDS", None) or [field.name for field in fields(value)]
        return {name: as_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, Enum):
        return as_json(value.value)
    if isinstance(value, Path | Version | BaseException):
        return str(value)
    if isinstance(value, AbstractSet):
        return sorted(map(as_json, value))
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        return [as_json(entry) for entry in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")
