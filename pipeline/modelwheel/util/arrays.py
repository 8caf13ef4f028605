"""Reads `.npz` files that somebody else wrote: everything is checked before an array is made.

NumPy believes the header of an array: it allocates what that says, and parses it as Python.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 1 << 30
"""Of all arrays in a file, unpacked."""
_MAX_HEADER = 10_000
"""NumPy's own limit: Python's parser takes quadratic time for longer ones."""
_MAX_AXES = 32


class _RefusedError(ValueError):
    """A reason that is known."""


class Described(NamedTuple):
    """The facts in the header of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def describe_arrays(path: Path, limit: int = MAX_BYTES) -> dict[str, Described]:
    """The types and shapes of all arrays of a file, by name.

    Raises:
        ValueError: It is no such file, is damaged, or holds more than plain arrays; a short reason.
    """
    with _opened(path) as archive:
        return {
            name: _describe(archive, member) for name, member in _members(archive, limit).items()
        }


def read_arrays(path: Path, limit: int = MAX_BYTES) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of a file by name, in the byte order of this machine.

    Args:
        path: The file.
        limit: Bytes of all arrays, unpacked.

    Raises:
        ValueError: See `describe_arrays`.
    """
    import numpy as np

    arrays = {}
    with _opened(path) as archive:
        for name, member in _members(archive, limit).items():
            _describe(archive, member)
            with archive.open(member) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
            arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return arrays


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; whatever it and what unpacks its members raise becomes a ValueError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (_RefusedError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - zlib, LZMA, the archive, NumPy
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise ValueError(f"it is damaged or not an .npz file ({reason})") from None


def _members(archive: zipfile.ZipFile, limit: int) -> dict[str, zipfile.ZipInfo]:
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if size > limit:
        raise _RefusedError(f"it unpacks to {size} bytes, above the limit of {limit}")
    named = {member.filename.removesuffix(".npy"): member for member in members}
    if len(named) < len(members):
        raise _RefusedError("two of its arrays have the same name")
    return named


def _describe(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Described:
    import numpy as np

    name = member.filename.removesuffix(".npy")
    if member.flag_bits & 1:
        raise _RefusedError(f"the array {name!r} is encrypted")
    with archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            length = _header_length(version)
        except Exception:  # noqa: BLE001 - of a member that cannot be unpacked, too
            raise _RefusedError(f"{name!r} is not an array of NumPy") from None
        dtype, shape = _parse_header(file, length, name)
        data = member.file_size - file.tell()
    if dtype.hasobject:
        raise _RefusedError(f"the array {name!r} holds Python objects")
    if len(shape) > _MAX_AXES or min(shape, default=0) < 0:
        raise _RefusedError(f"the array {name!r} has a shape that is none: {list(shape)}")
    if math.prod(shape) * dtype.itemsize != data:
        raise _RefusedError(
            f"the array {name!r} says that it has the shape {list(shape)} of {dtype.name}, but has {data} bytes"
        )
    return Described(dtype, shape)


def _header_length(version: tuple[int, int]) -> int:
    """Bytes of the number before a header (NEP 1)."""
    return {(1, 0): 2, (2, 0): 4, (3, 0): 4}[version]


def _parse_header(file: IO[bytes], length: int, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    import ast

    import numpy as np

    size = int.from_bytes(file.read(length), "little")
    if size > _MAX_HEADER:
        raise _RefusedError(
            f"the header of the array {name!r} has {size} bytes, more than any shape needs"
        )
    try:
        header = ast.literal_eval(file.read(size).decode("utf-8").strip())
        dtype = np.lib.format.descr_to_dtype(header["descr"])
        shape = header["shape"]
    # Of Python's parser, also for deep nesting; of what unpacks the member; of NumPy.
    except Exception:  # noqa: BLE001 - MemoryError is one: the parser raises it for many signs in a row
        raise _RefusedError(f"the header of the array {name!r} is damaged") from None
    if not isinstance(shape, tuple) or any(type(extent) is not int for extent in shape):
        raise _RefusedError(f"the array {name!r} has a shape that is none: {shape!r:.100}")
    return dtype, shape
