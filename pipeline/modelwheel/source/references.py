"""Finds the files that an ONNX file refers to: weights that are beside it (`external_data`).

Only messages on the way to such a reference are read, as
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto numbers their fields; weights are skipped, not read. What is
damaged ends the search: the step that reads the model says so.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from ..spec.formats import detect_format
from ..spec.sources import AnySource, ExtraFile
from ..util.names import safety_problem

_MAX_FIELDS = 5_000_000
"""More than the largest models have; a file may consist of nothing but empty fields."""

_INSIDE = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
"""Messages inside each kind of message, by the numbers of their fields."""

_ENTRY, _LOCATION = 13, 14
"""Fields of a tensor: the entries that say where its data is, and whether that is another file (1)."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Kinds of fields: https://protobuf.dev/programming-guides/encoding."""

_SIZES = {_FIXED64: 8, _FIXED32: 4}


class _Field(NamedTuple):
    number: int
    value: int
    """Of an integer; 0 otherwise."""
    start: int
    end: int
    """The place of bytes; equal to `start` for everything else."""


def has_references(source: AnySource) -> bool:
    """Whether the model of a source may refer to other files."""
    # By what the spec says alone, before anything is fetched.
    return (source.format or detect_format(source.named)) == "onnx"


def references_of(source: AnySource, file: BinaryIO) -> tuple[ExtraFile, ...]:
    """The files to which the model of a source, which is one open file, refers."""
    beside = PurePosixPath(source.named).parent
    names = [(beside / name).as_posix() for name in find_references(file)]
    return tuple(ExtraFile(name, is_reference=True) for name in names)


def find_references(file: BinaryIO) -> list[str]:
    """The names of the files that an ONNX file refers to, relative to its directory.

    Names that lead out of the directory are left out: reading the model refuses them.
    """
    if not os.fstat(file.fileno()).st_size:
        return []
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        names = {PurePosixPath(name).as_posix(): None for name in _locations(content)}
    return [name for name in names if safety_problem(name) is None]


def _locations(content: mmap.mmap) -> Iterator[str]:
    left = _MAX_FIELDS
    waiting = [("model", 0, len(content))]
    while waiting and left:
        kind, start, end = waiting.pop()
        if kind == "tensor":
            yield from _locations_of(content, start, end)
            continue
        for field in _fields(content, start, end):
            left -= 1
            inside = _INSIDE[kind].get(field.number)
            if inside is not None and field.end > field.start:
                waiting.append((inside, field.start, field.end))
            if not left:
                return


def _locations_of(content: mmap.mmap, start: int, end: int) -> Iterator[str]:
    fields = list(_fields(content, start, end, only=(_ENTRY, _LOCATION)))
    if any(field.number == _LOCATION and field.value == 1 for field in fields):
        for field in fields:
            entry = {part.number: part for part in _fields(content, field.start, field.end)}
            texts = {number: content[part.start : part.end] for number, part in entry.items()}
            if texts.get(1) == b"location":
                yield texts.get(2, b"").decode(errors="surrogateescape")


def _fields(
    content: mmap.mmap, start: int, end: int, only: tuple[int, ...] = ()
) -> Iterator[_Field]:
    """The fields of the message in a part of the file, up to the first that is damaged."""
    place = start
    while place < end:
        tag, place = _read_varint(content, place, end)
        number, kind = tag >> 3, tag & 7
        first = last = place
        value = 0
        if kind == _VARINT:
            value, place = _read_varint(content, place, end)
        elif kind == _BYTES:
            size, first = _read_varint(content, place, end)
            place = last = first + size
        elif kind in _SIZES:
            place += _SIZES[kind]
        else:
            return
        if place > end:
            return
        if not only or number in only:
            yield _Field(number, value, first, last)


def _read_varint(content: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    """An integer and the place after it, which is beyond the end if there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= end:
            break
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # the last one of the number
            return value, place
    return 0, end + 1
