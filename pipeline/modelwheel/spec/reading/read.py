"""Reads a spec file into a `Document`; nothing is executed, and no mistake ends the reading early."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ...util.names import UnsafePathError
from ...util.text import find_unsafe
from ...util.trees import open_plain
from ...util.words import nearest_word, size_text
from . import json_reader, yaml_reader
from .document import UNREADABLE, Document, UnreadableError
from .problems import Position

MAX_BYTES = 256 * 1024

_START = Position(1, 1)


def read_document(path: Path) -> Document:
    """Reads a YAML or JSON file (`.json`) as data, never as a program.

    Nothing is raised: every mistake is added to `problems`. A file that cannot be read has no values
    and is `unreadable` as a whole.
    """
    document = Document(path)
    try:
        text = _decode(_read_bytes(path))
        if path.suffix.lower() == ".json":
            json_reader.read_into(document, text)
        else:
            yaml_reader.read_into(document, text)
    except UnreadableError as error:
        document.report(error.position, error.at, error.wrong, error.hint, code=error.code)
        document.unreadable.add(())
    return document


def _read_bytes(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            # Bounded here, not by the size before: the file may grow.
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UnreadableError(
            _START, (), "there is no such file", _similar_file(path), code=UNREADABLE
        ) from None
    except UnsafePathError:
        wrong = "is not a file"
        raise UnreadableError(
            _START, (), wrong, "Give the path of a spec file", code=UNREADABLE
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableError(_START, (), f"cannot be read: {reason}", code=UNREADABLE) from None
    if len(content) > MAX_BYTES:
        wrong = f"the file is larger than {size_text(MAX_BYTES)}"
        raise UnreadableError(
            _START, (), wrong, "A spec has a few lines; is this another file?", code=UNREADABLE
        )
    return content


def _similar_file(path: Path) -> str:
    siblings: list[str] = []
    with suppress(OSError):
        files = (file for file in path.parent.iterdir() if file.suffix in (".yaml", ".json"))
        siblings = [file.name for file in files]
    nearest = nearest_word(path.name, sorted(siblings))
    return f"Did you mean '{path.parent / nearest}'?" if nearest else ""


def _decode(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Not in `content`: positions count from after a byte order mark.
        before = error.object[: error.start].decode()
        wrong = f"the byte 0x{error.object[error.start]:02x} is not valid UTF-8"
        hint = "Save the file as UTF-8"
        raise UnreadableError(_place(before, len(before)), (), wrong, hint, code="MW108") from None
    # Both readers and editors must count the same lines.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    unsafe = find_unsafe(text, "\n\t")
    if unsafe is not None:
        wrong = f"the file contains the character {unsafe[1]}, which cannot be shown safely"
        raise UnreadableError(_place(text, unsafe[0]), (), wrong, "Remove it", code=UNREADABLE)
    return text


def _place(text: str, index: int) -> Position:
    return Position(text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1)
