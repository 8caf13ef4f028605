"""The section `labels` of a spec: what the numbers of an output stand for, as a list or a file with a line for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from ..util.names import UnsafePathError
from ..util.text import find_unsafe
from ..util.trees import read_below
from ..util.words import shorten
from .fields import GivenName, Mistake, check_relative_path, mistake, mistakes, one_line

MAX_LABELS = 1 << 16
_LONGEST = 256
_MAX_BYTES = MAX_LABELS * (_LONGEST + 1)


def _find_mistake(label: Any) -> tuple[str, str] | None:
    """The mistake in a label, and how to fix it."""
    if not isinstance(label, str):
        return f"a label is text, got {shorten(str(label))}", "Write it in quotation marks"
    if not label.strip() or label != label.strip():
        return "a label is not empty and has no blanks around it", "Write a word"
    if len(label) > _LONGEST:
        return f"a label has at most {_LONGEST} characters", "Shorten it"
    if find_unsafe(label) is not None:
        return "a label has a character that cannot be shown safely", "Remove it"
    return None


def _check(value: Any) -> tuple[str, ...] | str:
    if isinstance(value, str):
        return check_relative_path(one_line(value))
    if not isinstance(value, Sequence) or not value:
        raise mistake(
            "labels are a list of texts, or the name of a file with one in each line",
            "Write [cat, dog] or labels.txt",
        )
    if len(value) > MAX_LABELS:
        raise mistake(f"there are more than {MAX_LABELS} labels", "Leave labels out")
    wrong_labels = [
        Mistake(*wrong, (place,))
        for place, label in enumerate(value)
        if (wrong := _find_mistake(label)) is not None
    ]
    if wrong_labels:
        raise mistakes(wrong_labels)
    return tuple(value)


_Given: TypeAlias = Annotated[
    tuple[str, ...] | str,
    BeforeValidator(_check),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": _LONGEST},
                    "minItems": 1,
                    "maxItems": MAX_LABELS,
                },
            ]
        }
    ),
]

Labels: TypeAlias = Annotated[Mapping[GivenName, _Given], Field(max_length=64)]
"""Lists of labels, or files with them, by output."""


def read_labels(directory: Path, value: tuple[str, ...] | str) -> tuple[str, ...]:
    """The labels themselves; those of a file are its lines.

    Args:
        directory: What a file's name is relative to.
        value: A value of `Labels`.

    Raises:
        ValueError: The file cannot be read, or a line of it is no label. The sentence ends with what to do.
    """
    if not isinstance(value, str):
        return value
    try:
        lines = read_below(directory, value, _MAX_BYTES).decode("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise ValueError(
            f"there is no file '{value}' in the directory of the spec; add it"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"'{value}' is not UTF-8; save it as UTF-8") from None
    except (OSError, UnsafePathError) as error:
        raise ValueError(f"cannot read '{value}': {error}; put the text itself there") from None
    if not 0 < len(lines) <= MAX_LABELS:
        raise ValueError(
            f"'{value}' has {len(lines)} lines; write one label in each, {MAX_LABELS} at most"
        )
    for number, line in enumerate(lines, 1):
        if (wrong := _find_mistake(line)) is not None:
            raise ValueError(f"line {number} of '{value}': {wrong[0]}; correct the line")
    return tuple(lines)


def why_wrong_labels(dtype: str, shape: Sequence[int | None] | None, count: int) -> str:
    """Why an output of a type and shape cannot have so many labels, as a clause; empty if it can, or that is not known.

    Labels name the places of the last axis; the values of an integer, which decide how many there are; or those of a
    truth value.
    """
    if dtype == "bool":
        return "" if count == 2 else "its values are false and true, which are 2"
    if "int" in dtype or shape is None:
        return ""
    if not shape:
        return "it is one number, and labels name the places of an axis"
    if shape[-1] is None or shape[-1] == count:
        return ""
    return f"its last axis has {shape[-1]}"
