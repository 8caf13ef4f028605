"""Wheels that two readers of ZIP files understand differently, or that are more than a ZIP file."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from modelwheel.errors import WheelError
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.index_wheels import make_wheel

INIT = "model_digits/__init__.py"
END = 22
"""Bytes of the end record."""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "digits")


def refusal(path: Path) -> str:
    with pytest.raises(WheelError) as caught:
        open_wheel(path)
    said = str(caught.value)
    assert "is not a valid wheel (" in said
    assert "\n" not in said
    return said


def _change(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def _number(content: bytes, at: int, change: int, size: int) -> bytes:
    value = int.from_bytes(content[at : at + size], "little") + change
    return _change(content, at, value.to_bytes(size, "little"))


def _fewer(content: bytes) -> bytes:
    return _number(_number(content, len(content) - 14, -1, 2), len(content) - 12, -1, 2)


def _longer_gap(content: bytes) -> bytes:
    """Bytes between the last file and the directory, which the end record knows of."""
    start = int.from_bytes(content[-6:-2], "little")
    moved = content[:start] + b"evil" + content[start:]
    return _number(moved, len(moved) - 6, 4, 4)


def _extra_file(content: bytes) -> bytes:
    """A file that no directory names, before the directory."""
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("evil.pth", "import os")
    start = int.from_bytes(content[-6:-2], "little")
    hidden = other.getvalue()[: int.from_bytes(other.getvalue()[-6:-2], "little")]
    moved = content[:start] + hidden + content[start:]
    return _number(moved, len(moved) - 6, len(hidden), 4)


CHANGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a program before it": (lambda c: b"#!/bin/sh\nexit\n" + c, "something is before its first"),
    "something behind it": (lambda c: c + b"evil", "something is behind its end record"),
    "a comment": (lambda c: _change(c, len(c) - 2, b"\4\0") + b"evil", "something is behind"),
    "two in a row": (lambda c: c + c, "something is before its first file"),
    "fewer files than it has": (_fewer, "its end record counts"),
    "another count": (lambda c: _number(c, len(c) - 14, -1, 2), "its end record counts"),
    "parts": (lambda c: _number(c, len(c) - 18, 1, 2), "in parts"),
    "a gap": (_longer_gap, "something is behind model_digits"),
    "a hidden file": (_extra_file, "something is behind model_digits"),
    "another name in front": (
        lambda c: c.replace(INIT.encode(), b"model_digits/__evil__.py", 1),
        "has another name in its own header",
    ),
    "another size in front": (
        lambda c: _number(c, 22, 1, 4),
        "has another size or hash in its own header",
    ),
    "another hash in front": (
        lambda c: _number(c, 14, 1, 1),
        "has another size or hash in its own header",
    ),
    "another method in front": (lambda c: _number(c, 8, 8, 2), "is compressed in another way"),
    "no header": (lambda c: _change(c, 0, b"PK\5\6"), "has no header"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_bytes_that_belong_to_no_file_or_to_two(wheel: Path, kind: str) -> None:
    change, words = CHANGES[kind]
    open_wheel(wheel)
    wheel.write_bytes(change(wheel.read_bytes()))
    assert words in refusal(wheel)


def test_files_that_share_bytes(wheel: Path) -> None:
    """The directory's last entry leads to the first file, under another name."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("model_digits/__inix__.py", archive.read(INIT))
    content = wheel.read_bytes()
    entry = content.rindex(b"PK\1\2")
    wheel.write_bytes(_change(content, entry + 42, bytes(4)))
    assert "two of its files share bytes" in refusal(wheel)


def test_a_wheel_that_was_written_as_a_stream(wheel: Path) -> None:
    """Sizes follow the data then; some tools write wheels so."""

    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.written = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object, /) -> int:
            self.written += memoryview(data)  # type: ignore[arg-type]
            return len(memoryview(data))  # type: ignore[arg-type]

    stream = Stream()
    with (
        zipfile.ZipFile(wheel) as source,
        zipfile.ZipFile(io.BufferedWriter(stream), "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    assert stream.written[6] & 8
    wheel.write_bytes(stream.written)
    assert open_wheel(wheel).read(INIT) == b"NAME = 'digits'\n"
    descriptor = stream.written.index(b"PK\7\x08")
    wheel.write_bytes(_number(bytes(stream.written), descriptor + 8, 1, 4))
    assert "something is behind model_digits/__init__.py" in refusal(wheel)


@pytest.mark.parametrize(
    ("field", "verdict"),
    [
        (struct.pack("<2H", 0x5455, 1) + b"\0", ""),
        (struct.pack("<2H", 0x7075, 4) + b"evil", "refused"),
        (struct.pack("<2H", 0xCAFE, 0), "refused"),
        (struct.pack("<2H", 0x5455, 9) + b"\0", "refused"),
        (b"PK", "refused"),
    ],
)
def test_fields_that_some_readers_take_for_names(wheel: Path, field: bytes, verdict: str) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        member = zipfile.ZipInfo("model_digits/more.py")
        member.extra = field
        archive.writestr(member, b"")
    if verdict:
        assert "is not a valid wheel" in refusal(wheel)
    else:
        open_wheel(wheel)


def test_comments_of_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        member = zipfile.ZipInfo("model_digits/more.py")
        member.comment = b"evil"
        archive.writestr(member, b"")
    assert "model_digits/more.py has a comment or fields" in refusal(wheel)


def test_a_directory_with_bytes_of_its_own(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("model_digits/more/", b"evil")
    assert "model_digits/more/ is a directory with bytes of its own" in refusal(wheel)


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("model_digits/link", stat.S_IFLNK | 0o777, "is a link, a device or of another kind"),
        ("model_digits/disk", stat.S_IFBLK | 0o600, "is a link, a device or of another kind"),
        ("model_digits/pipe", stat.S_IFIFO | 0o600, "is a link, a device or of another kind"),
        ("model_digits/file/", stat.S_IFREG | 0o600, "is a link, a device or of another kind"),
        ("model_digits/directory", stat.S_IFDIR | 0o700, "is a link, a device or of another kind"),
        ("model_digits/root", stat.S_IFREG | 0o4755, "has a set-user-ID, set-group-ID or sticky"),
        ("model_digits/group", 0o2755, "has a set-user-ID, set-group-ID or sticky bit"),
        ("model_digits/plain", 0o600, ""),
        ("model_digits/script", stat.S_IFREG | 0o755, ""),
        ("model_digits/more/", stat.S_IFDIR | 0o755, ""),
    ],
)
def test_files_that_are_not_regular(wheel: Path, name: str, mode: int, words: str) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        archive.writestr(member, b"")
    if words:
        assert f"{name} {words}" in refusal(wheel)
    else:
        open_wheel(wheel)
