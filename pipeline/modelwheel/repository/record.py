"""`.modelwheel.json`: what `modelwheel init` was told, and each renewed file as it was written.

`modelwheel update` compares with it: what differs is a change of the repository's, and is kept.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from .. import __version__
from ..errors import RepositoryError
from ..util.files import write_atomically
from ..util.records import JsonRecord, first_mistake
from .files import Answers, File

RECORD = ".modelwheel.json"


class Written(JsonRecord):
    """A file as modelwheel wrote it."""

    sha256: str
    lines: tuple[str, ...] | None = None
    """With their ends; None for a file that nobody should edit, of which no changes are merged."""


class Record(JsonRecord):
    """The content of `.modelwheel.json`."""

    version: str
    """Of the modelwheel that wrote it."""
    answers: Answers
    files: dict[str, Written]
    """By path, with slashes."""


def describe(file: File) -> Written:
    """The entry of a file in the record."""
    merged = not file.path.endswith(".json")
    return Written(
        sha256=digest(file.text),
        lines=tuple(file.text.splitlines(keepends=True)) if merged else None,
    )


def digest(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def save(directory: Path, answers: Answers, files: dict[str, Written]) -> None:
    """Writes the record."""
    record = Record(version=__version__, answers=answers, files=dict(sorted(files.items())))
    write_atomically(directory / RECORD, record.to_json())


def load(directory: Path) -> Record:
    """Reads the record.

    Raises:
        RepositoryError: There is none, or it is damaged.
    """
    path = directory / RECORD
    try:
        return Record.load(path)
    except FileNotFoundError:
        raise RepositoryError(
            f"{directory} has no {RECORD}: `modelwheel init` has not written this repository, or the file is lost; "
            "run `modelwheel init`, which names the files that differ from what it would write"
        ) from None
    except ValidationError as error:
        raise RepositoryError(
            f"{path}: {first_mistake(error)}; restore the file from git, or run `modelwheel init` again"
        ) from None
