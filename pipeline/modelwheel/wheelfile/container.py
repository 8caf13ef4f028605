"""Whether a ZIP file is one file and nothing else: its records follow each other without gaps, and agree.

A reader begins at the end and believes the directory there, another one at the first header, and a third executes what
is in front. Only where every byte belongs to one record do all of them find the same files.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

_END = struct.Struct("<4s4H2IH")
_LOCAL = struct.Struct("<4s5H3I2H")
_DESCRIPTORS = (12, 16, 20, 24)
"""Bytes behind a file's data if its header was written before its size was known: with a signature or ZIP64 or not."""
_HAS_DESCRIPTOR, _UTF_8 = 1 << 3, 1 << 11


def container_problem(file: BinaryIO, archive: zipfile.ZipFile) -> str:
    """What is wrong with the bounds of an open archive; empty if nothing is.

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
    """What is wrong with the headers of the files, and between them."""
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    starts = [member.header_offset for member in members]
    if (starts[0] if starts else end) != 0:
        yield "something is before its first file"
    for member, following in zip(members, [*starts[1:], end], strict=True):
        name = member.orig_filename
        file.seek(member.header_offset)
        header = file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
            yield f"{name} has no header"
            return
        _, _, flags, method, _, _, _, packed, unpacked, named, extra = _LOCAL.unpack(header)
        encoding = "utf-8" if flags & _UTF_8 else "cp437"
        if file.read(named).decode(encoding, "replace") != name:
            yield f"{name} has another name in its own header"
        if method != member.compress_type:
            yield f"{name} is compressed in another way than its directory says"
        streamed = bool(flags & _HAS_DESCRIPTOR)
        zip64 = 0xFFFFFFFF in (packed, unpacked)
        if not (streamed or zip64) and (packed, unpacked) != (
            member.compress_size,
            member.file_size,
        ):
            yield f"{name} has another size in its own header"
        rest = following - member.header_offset - _LOCAL.size - named - extra - member.compress_size
        if rest not in (_DESCRIPTORS if streamed else (0,)):
            yield f"something is behind {name}, or two of its files share bytes"
