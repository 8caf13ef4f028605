"""Whether a ZIP file is one file and nothing else: its records follow each other without gaps, and agree.

A reader begins at the end and believes the directory there, another one at the first header, and a third executes what
is in front. Only where every byte belongs to one record do all of them find the same files.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

_END = struct.Struct("<4s4H2IH")
_LOCAL = struct.Struct("<4s5H3I2H")
_HAS_DESCRIPTOR, _UTF_8 = 1 << 3, 1 << 11
_EXTRAS = frozenset({0x0001, 0x000A, 0x5455, 0x7875})
"""Of ZIP64, and of times and owners of NTFS and Unix. Others give a file another name, or hide bytes."""
_LONGEST_DESCRIPTOR = 24
"""Bytes behind a file's data if its header was written before its size was known."""


def container_problem(file: BinaryIO, archive: zipfile.ZipFile) -> str:
    """The problem of the bounds of an open archive; empty if there is none.

    Args:
        file: The file of the archive; its position changes.
        archive: As zipfile reads it.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    if len(end) < _END.size or not end.startswith(b"PK\5\6"):
        return "something is behind its end record, or it is a ZIP64 file"
    _, disk, first_disk, here, count, length, start, comment = _END.unpack(end)
    if disk or first_disk or comment:
        return "its end record is of an archive in parts, or says that a comment follows"
    if here != count or count != len(archive.infolist()):
        return (
            f"its end record counts {count} files, but its directory has {len(archive.infolist())}"
        )
    if start + length != size - _END.size:
        return "its end record does not say where its directory is, or something is before its first file"
    return next(_gaps(file, archive, start), "")


def _gaps(file: BinaryIO, archive: zipfile.ZipFile, end: int) -> Iterator[str]:
    """The problems of the headers of the files, and between them."""
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    starts = [member.header_offset for member in members]
    if (starts[0] if starts else end) != 0:
        yield "something is before its first file"
    for member, following in zip(members, [*starts[1:], end], strict=True):
        name = member.orig_filename
        if member.comment or not _has_known_extras(member.extra):
            yield f"{name} has a comment or fields that wheels do not have"
        file.seek(member.header_offset)
        header = file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
            yield f"{name} has no header"
            return
        _, _, flags, method, _, _, *about, named, extra = _LOCAL.unpack(header)
        encoding = "utf-8" if flags & _UTF_8 else "cp437"
        if file.read(named).decode(encoding, "replace") != name:
            yield f"{name} has another name in its own header"
        if not _has_known_extras(file.read(extra)):
            yield f"{name} has fields in its own header that wheels do not have"
        if method != member.compress_type:
            yield f"{name} is compressed in another way than its directory says"
        data = member.header_offset + _LOCAL.size + named + extra
        rest = following - data - member.compress_size
        file.seek(max(0, following - max(rest, 0)))
        behind = file.read(rest) if 0 < rest <= _LONGEST_DESCRIPTOR else b""
        yield from _sizes(member, about, behind, streamed=bool(flags & _HAS_DESCRIPTOR))
        if rest != len(behind):
            yield f"something is behind {name}, or two of its files share bytes"


def _sizes(
    member: zipfile.ZipInfo, about: Sequence[int], behind: bytes, *, streamed: bool
) -> Iterator[str]:
    """Whether hash and sizes of a file are the same in its header or behind its data."""
    true = (member.CRC, member.compress_size, member.file_size)
    unknown = (0, 0xFFFFFFFF)  # not known yet, or in the field of ZIP64
    fits = all(
        x == y or (y in unknown and (streamed or y)) for x, y in zip(true, about, strict=True)
    )
    if not fits:
        yield f"{member.orig_filename} has another size or hash in its own header"
    forms = (struct.pack("<3I", *true), struct.pack("<I2Q", *true)) if streamed else (b"",)
    if behind.removeprefix(b"PK\7\x08" if streamed else b"") not in forms and behind not in forms:
        yield f"something is behind {member.orig_filename}, or two of its files share bytes"


def _has_known_extras(extra: bytes) -> bool:
    """Whether the extra fields of a file are whole, and of a kind that changes nothing."""
    position = 0
    while position < len(extra):
        if position + 4 > len(extra):
            return False
        kind, length = struct.unpack_from("<2H", extra, position)
        position += 4 + length
        if kind not in _EXTRAS or position > len(extra):
            return False
    return True
