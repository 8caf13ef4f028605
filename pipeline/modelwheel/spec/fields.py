"""Building blocks of a spec's fields: the base class, types of text, and mistakes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictStr,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..util.text import find_unsafe
from .reading.problems import GENERAL, KeyPath

_H = TypeVar("_H", bound=Hashable)


class Mistake(NamedTuple):
    """A mistake that a validator reports; `at` is the path from the validated value to the wrong part."""

    wrong: str
    hint: str = ""
    at: KeyPath = ()
    code: str = GENERAL


def mistake(
    wrong: str, hint: str = "", at: KeyPath = (), *, code: str = GENERAL
) -> PydanticCustomError:
    """The exception by which a validator reports one mistake."""
    return mistakes([Mistake(wrong, hint, at, code)])


def mistakes(several: Iterable[Mistake]) -> PydanticCustomError:
    """The exception by which a validator reports several mistakes at once."""
    several = tuple(several)
    text = "; ".join(item.wrong for item in several)
    return PydanticCustomError("mistakes", "{text}", {"text": text, "mistakes": several})


class Section(BaseModel):
    """A mapping of a spec. Null (or empty text) for an optional key means its default."""

    # No NaN and no infinity: values go into manifests, and JSON has neither.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        # A required key keeps its null, which is then reported at its place.
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        unset = {key for key in optional & set(values) if values[key] is None or values[key] == ""}
        return {key: value for key, value in values.items() if key not in unset}


def find_repeats(values: Iterable[Hashable], wrong: str) -> list[Mistake]:
    """A mistake for each value that occurs before; `wrong` has `{}` in place of the value."""
    seen: set[Hashable] = set()
    repeats = []
    for index, value in enumerate(values):
        if value in seen:
            repeats.append(Mistake(wrong.format(value), "Remove one of them", (index,)))
        seen.add(value)
    return repeats


def unique(values: tuple[_H, ...]) -> tuple[_H, ...]:
    """Refuses a list with repeated values."""
    if repeats := find_repeats(values, "{} is listed twice"):
        raise mistakes(repeats)
    return values


def _safe(text: str) -> str:
    unsafe = find_unsafe(text, "\n\t")
    if unsafe is not None:
        wrong = f"the text contains the character {unsafe[1]}, which cannot be shown safely"
        raise mistake(wrong, "Remove it")
    return text


def one_line(text: str) -> str:
    """Refuses text that would break a line of metadata or of a command."""
    if "\n" in text or "\t" in text:
        raise mistake("must be a single line without tabs", "Write it in one line")
    return _safe(text)


Prose = Annotated[
    StrictStr, StringConstraints(strip_whitespace=True, max_length=10_000), AfterValidator(_safe)
]
"""Free text of several lines."""

LONGEST_LINE = 512

Line = Annotated[
    StrictStr,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_LINE),
    AfterValidator(one_line),
]
"""Free text of one line, as wheel metadata requires for a summary."""

Label = Annotated[
    StrictStr,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=32),
    AfterValidator(one_line),
]
"""A short heading, such as the label of a URL."""

GivenName = Annotated[
    StrictStr, StringConstraints(min_length=1, max_length=256), AfterValidator(one_line)
]
"""The name of a signature, an input or an output, exactly as in the model."""


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        wrong = f"must be 64 hexadecimal digits, got {len(text)} characters"
        raise mistake(wrong, "`sha256sum FILE` prints it", code="MW110")
    return text.lower()


Sha256 = Annotated[
    StrictStr,
    AfterValidator(_sha256),
    Field(json_schema_extra={"pattern": "^[0-9a-fA-F]{64}$"}),
]
"""A SHA-256 digest in lower-case hexadecimal."""


def check_relative_path(text: str) -> str:
    """A path below some directory in its shortest form, with `/` between its parts.

    Joined to a directory, it stays inside that directory (symbolic links aside).
    """
    if "\\" in text:
        raise mistake("the path contains a backslash", "Separate directories by `/`", code="MW119")
    if text.startswith("/") or re.match(r"[A-Za-z]:", text):
        raise mistake(
            "the path must be relative", "Remove the part before the directory", code="MW119"
        )
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise mistake("the path contains `..`", "Use a path below the directory", code="MW119")
    # Programs take `-` for an option, git `:` for pathspec magic, shells `~` for a home directory.
    if any(part.startswith(("-", ":", "~")) for part in parts):
        raise mistake("a part of the path begins with `-`, `:` or `~`", "Rename it", code="MW119")
    return "/".join(parts) or "."


RelativePath = Annotated[
    StrictStr,
    StringConstraints(min_length=1, max_length=1024),
    AfterValidator(one_line),
    AfterValidator(check_relative_path),
]
"""A path below the directory of the spec, of a repository or of an archive."""


def _check_samples(path: str) -> str:
    if not path.endswith(".npz"):
        raise mistake(f"'{path}' is not an .npz file", "Write it with numpy.savez(FILE, **inputs)")
    return path


SamplesPath = Annotated[RelativePath, AfterValidator(_check_samples)]
"""A file with rows of real data, an array for each input."""


HUGGING_FACE_FIX = (
    "Write `huggingface: OWNER/NAME`, `commit`, and the .onnx file as `path`; a model without one is "
    "exported by optimum-cli export onnx --model OWNER/NAME DIRECTORY"
)
"""For addresses that only the libraries of Hugging Face know."""


def check_local_path(text: str) -> str:
    """Refuses a path that tools interpret differently."""
    if "\\" in text:
        raise mistake("the path contains a backslash", "Separate directories by `/`", code="MW119")
    if text.startswith(("hf://", "hf:/")):
        raise mistake("hf:// addresses are not read", HUGGING_FACE_FIX, code="MW112")
    if text.startswith("~"):
        raise mistake(
            "`~` is not expanded", "Write the path out, or relative to the spec file", code="MW119"
        )
    return text


LocalPath = Annotated[
    StrictStr,
    StringConstraints(min_length=1, max_length=1024),
    AfterValidator(one_line),
    AfterValidator(check_local_path),
]
"""A path on this machine, absolute or relative to the spec file."""
