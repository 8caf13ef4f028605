"""Files of arrays that somebody else wrote are checked before an array is made."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.util.arrays import describe_arrays, read_arrays

_X = np.arange(24, dtype=np.float32).reshape(6, 4)


def _header(shape: str = "(6, 4)", descr: str = "'<f4'", order: str = "False") -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}\n".encode()


def _array(header: bytes, data: bytes = _X.tobytes(), version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes((version, 0)) + length + header + data


def _file(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def _saved(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _patched(content: bytes, local: int, central: int, value: int) -> bytes:
    """With another byte in both headers of the first member."""
    changed = bytearray(content)
    for signature, place in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        changed[changed.index(signature) + place] = value
    return bytes(changed)


def _one(header: bytes, data: bytes = _X.tobytes(), version: int = 1) -> bytes:
    return _file(("x.npy", _array(header, data, version)))


BROKEN = {
    "not an archive": (b"hello", "damaged or not an .npz file"),
    "a bool as an extent": (_one(_header("(True, 4)")), "a shape that is none: (True, 4)"),
    "a float as an extent": (_one(_header("(6.0, 4)")), "a shape that is none"),
    "a negative extent": (_one(_header("(-6, 4)")), "a shape that is none"),
    "brackets": (_one(_header("(" * 500)), "the header of the array 'x' is damaged"),
    "signs": (_one(_header(f"({'-' * 9000}6, 4)")), "the header of the array 'x' is damaged"),
    "code": (_one(_header("__import__('os')")), "the header of the array 'x' is damaged"),
    "a shape of petabytes": (_one(_header("(1000000000000000, 4)")), "but has 96 bytes"),
    "a long header": (
        _one(_header() + b" " * 2_000_000, version=2),
        "the header of the array 'x' has 2000",
    ),
    "an unknown version": (_one(_header(), version=9), "'x' is not an array of NumPy"),
    "an odd order": (_one(_header(order="'x'")), "fortran_order"),
    "objects": (_saved(x=np.array([1, "a"], object)), "the array 'x' holds Python objects"),
    "a pickle": (_file(("x.npy", b"\x80\x04N.")), "'x' is not an array of NumPy"),
    "encrypted": (_patched(_saved(x=_X), 6, 8, 1), "the array 'x' is encrypted"),
    "an unknown compression": (_patched(_saved(x=_X), 8, 10, 99), "compression"),
    "bad compression": (_patched(_saved(x=_X), 8, 10, 12), "not an array of NumPy"),
    "two of a name": (
        _file(("x", _array(_header())), ("x.npy", _array(_header()))),
        "two of its arrays have the same name",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_no_array_is_made_of(kind: str, tmp_path: Path) -> None:
    content, words = BROKEN[kind]
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^(it|two|the|') ?") as caught:
        read_arrays(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arrays_have_the_byte_order_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(
        _saved(big=_X.astype(">f4"), columns=np.asfortranarray(_X), empty=np.zeros((0, 3)))
    )
    found = read_arrays(path)
    assert found["big"].dtype == np.dtype("float32")
    assert found["big"].dtype.isnative
    np.testing.assert_array_equal(found["big"], _X)
    np.testing.assert_array_equal(found["columns"], _X)
    assert {name: one.shape for name, one in describe_arrays(path).items()} == {
        "big": (6, 4),
        "columns": (6, 4),
        "empty": (0, 3),
    }


def test_what_is_larger_than_the_limit_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(_saved(x=np.zeros(1000)))
    with pytest.raises(ValueError, match="it unpacks to 8128 bytes, above the limit of 8000"):
        read_arrays(path, 8000)
