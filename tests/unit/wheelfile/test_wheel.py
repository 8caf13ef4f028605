"""The reader of wheels: what it reads, and what it refuses with one sentence."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from modelwheel.errors import WheelError
from modelwheel.source import rules
from modelwheel.wheelfile.contents import open_contents
from modelwheel.wheelfile.sizes import read_sizes
from modelwheel.wheelfile.wheel import MAX_TEXT, open_wheel, parse_name
from tests.support import described
from tests.support.index_wheels import make_manifest, make_wheel

INIT = "model_digits/__init__.py"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "digits")


def _read(path: Path, member: str | None) -> None:
    opened = open_wheel(path)
    if member is not None:
        opened.read(member)


def refusal(path: Path, member: str | None = None) -> str:
    with pytest.raises(WheelError) as caught:
        _read(path, member)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def add(wheel: Path, name: str, content: bytes = b"", method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), content, method)


def test_what_is_read(wheel: Path) -> None:
    opened = open_wheel(wheel)
    assert (opened.distribution, str(opened.version)) == ("model-digits", "1.0.0")
    assert {str(tag) for tag in opened.tags} == {"py3-none-any"}
    assert opened.dist_info == "model_digits-1.0.0.dist-info"
    assert opened.metadata.name == "model_digits"
    assert opened.wheel_metadata["Generator"] == "tests"
    assert opened.manifest == make_manifest("digits")
    assert opened.read("model_digits/__init__.py") == b"NAME = 'digits'\n"
    assert opened.members["model_digits/lib/libmodel_digits.so"].size == 5000
    assert {name for name, _ in opened.open_members()} == set(opened.members)
    sizes = read_sizes(opened)
    assert (sizes.library, sizes.weights, sizes.runtime) == (5000, 2000, 2000)
    opened.require_own_name()


@pytest.mark.parametrize(
    "name", ["a.whl", "model.zip", "a-1-py3-none.whl", "a-one-py3-none-any.whl"]
)
def test_names_that_are_not_wheels(tmp_path: Path, name: str) -> None:
    with pytest.raises(WheelError, match="restore the name that it was built with"):
        parse_name(tmp_path / name)


def test_files_that_are_not_archives(tmp_path: Path, wheel: Path) -> None:
    path = tmp_path / "model_a-1-py3-none-any.whl"
    assert "cannot read" in refusal(path)
    path.mkdir()
    assert "is a directory, not a regular file" in refusal(path)
    path.rmdir()
    for content in (b"", b"PK but no more", wheel.read_bytes()[:-30]):
        path.write_bytes(content)
        assert f"{path} is not a valid wheel (" in refusal(path)
        assert refusal(path).endswith("Download or build it again.")


def test_a_damaged_member(wheel: Path) -> None:
    content = wheel.read_bytes()
    wheel.write_bytes(content.replace(b"NAME = 'digits'", b"NAME = 'DIGITS'"))
    assert "CRC" in refusal(wheel, "model_digits/__init__.py")


def test_a_compressed_member_that_is_cut(wheel: Path) -> None:
    add(wheel, "model_digits/more", b"0123456789abcdef" * 100, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(wheel) as archive:
        info = archive.getinfo("model_digits/more")
    content = bytearray(wheel.read_bytes())
    begin = info.header_offset + 30 + len(info.filename)
    content[begin : begin + info.compress_size] = b"\xff" * info.compress_size
    wheel.write_bytes(content)
    assert "is not a valid wheel" in refusal(wheel, "model_digits/more")


def test_features_of_zip_that_installers_lack(wheel: Path) -> None:
    whole = wheel.read_bytes()
    add(wheel, "model_digits/more", b"text", zipfile.ZIP_BZIP2)
    assert "model_digits/more uses zip compression method 12" in refusal(wheel)
    # Bit 0 of the flags, in the central directory's record of the first member.
    at = whole.index(b"PK\x01\x02") + 8
    flags = struct.unpack_from("<H", whole, at)[0] | 1
    wheel.write_bytes(whole[:at] + struct.pack("<H", flags) + whole[at + 2 :])
    assert "model_digits/__init__.py is encrypted" in refusal(wheel)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd", "is an absolute path"),
        ("../other.py", "climbs out"),
        ("model_digits/../../other.py", "climbs out"),
        ("../directory/", "climbs out"),
        ("model_digits/aux.py", "is a device on Windows"),
        ("model_digits/a?b", "which Windows refuses"),
        ("model_digits/__INIT__.py", "clash"),
        ("d/" * 40 + "x", "more than 32 directories deep"),
    ],
)
def test_names_that_no_installer_should_write(wheel: Path, name: str, reason: str) -> None:
    add(wheel, name)
    assert reason in refusal(wheel)


def patch(wheel: Path, offset: int, value: int, size: int = 2) -> None:
    """Changes a field of the first record of the central directory."""
    content = bytearray(wheel.read_bytes())
    at = content.index(b"PK\x01\x02") + offset
    content[at : at + size] = value.to_bytes(size, "little")
    wheel.write_bytes(content)


@pytest.mark.parametrize(
    ("offset", "value", "size"),
    [
        (6, 255, 2),  # the version that is needed
        (8, 0x20, 2),  # patched data
        (8, 0x40, 2),  # strong encryption
        (28, 0, 2),  # the length of the name
        (24, 3 << 30, 4),  # the size
        (42, 0xFFFFFFF0, 4),  # the place of the member
    ],
)
def test_odd_fields_of_a_zip_file(wheel: Path, offset: int, value: int, size: int) -> None:
    patch(wheel, offset, value, size)
    for read in (lambda: open_contents(wheel), lambda: open_wheel(wheel).read(INIT)):
        with pytest.raises(WheelError) as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_wheel_that_unpacks_to_more_than_a_model_may_have(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(wheel, 24, (1 << 30) + 1, 4)
    content = wheel.read_bytes()  # and in the header of the file itself
    wheel.write_bytes(content[:22] + ((1 << 30) + 1).to_bytes(4, "little") + content[26:])
    with pytest.raises(WheelError, match=r"at most 1\.07 GB are read"):
        open_wheel(wheel).read(INIT)
    monkeypatch.setattr(rules, "MAX_MODEL_FILES", 2)
    assert "it has more than 2 files" in refusal(wheel)
    monkeypatch.setattr(rules, "MAX_MODEL_BYTES", 1 << 30)
    assert "it has more than 1.07 GB" in refusal(wheel)


def test_a_bill_of_materials_of_brackets(tmp_path: Path) -> None:
    contents = described.open_wheel(tmp_path, cdx_json=b"[" * 100_000)
    with pytest.raises(WheelError, match="is not JSON: it is nested too deeply"):
        contents.sboms  # noqa: B018 - reading it parses it


def test_a_name_that_occurs_twice(wheel: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        add(wheel, "model_digits/__init__.py", b"NAME = 'other'\n")
    assert "contains model_digits/__init__.py twice" in refusal(wheel)


def test_two_metadata_directories(wheel: Path) -> None:
    add(wheel, "other-1.0.dist-info/METADATA")
    with pytest.raises(WheelError, match=r"2 \.dist-info directories instead of one"):
        open_wheel(wheel).metadata  # noqa: B018 - reading it checks it


def test_wheels_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: other\n")
    opened = open_wheel(path)
    with pytest.raises(WheelError, match="has no model manifest; it was not built by modelwheel"):
        opened.manifest  # noqa: B018 - reading it checks it
    with pytest.raises(WheelError, match=r"METADATA: .*version"):
        opened.metadata  # noqa: B018 - reading it checks it
    with pytest.raises(WheelError, match="it has no other/lib"):
        opened.read("other/lib")


def test_a_renamed_wheel(wheel: Path) -> None:
    renamed = wheel.rename(wheel.with_name("model_digits-2.0.0-py3-none-any.whl"))
    with pytest.raises(WheelError, match=r"contains model_digits 1\.0\.0; restore the file name"):
        open_wheel(renamed).require_own_name()


def test_texts_of_any_size_are_not_read(wheel: Path) -> None:
    add(wheel, "model_digits/huge", bytes(MAX_TEXT + 1), zipfile.ZIP_DEFLATED)
    with pytest.raises(WheelError, match=r"huge has 67\.1 MB; at most 67\.1 MB are read"):
        open_wheel(wheel).read_text("model_digits/huge")
