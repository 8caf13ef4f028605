"""Reads what `jax.export.Exported.serialize` writes, without JAX.

The file is a flatbuffer; its schema is jax/_src/export/serialization.fbs. Only the fields that describe
the interface are read. They have kept their places since the first version, and later ones are ignored.

Anything in a flatbuffer may be named many times, so that a tree of a kilobyte may have 2^90 leaves. JAX writes
everything once: who reads more than the file has, reads something twice.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flatbuffers import encode, number_types, packer
from flatbuffers.table import Table

from ....errors import UnsupportedModelError

MAX_CALLING_CONVENTION = 10
"""Later ones may pass arguments in other ways."""
_MAX_DEPTH = 100
_MAX_NAMES = 64 << 20
"""Characters of the names of all arrays, each with those of what it is in."""
_SPARE_BYTES = 1 << 16
"""What may be read beside twice the file: kinds of arrays are read for arguments and for results."""
_SHOWN = 100
"""Characters of a name in a sentence."""
_ENTRY_BYTES = 4
"""What naming a table or a text takes."""
# The order of DType in the schema.
_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4"),
    *("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *("float0", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn"),
)
_LEAF, _NONE, _DICT = 0, 1, 4


@dataclass(frozen=True)
class Leaf:
    """An array among the arguments or results of the function."""

    name: str
    dtype: str | None
    """None for a type that has no name in NumPy, such as a key of random numbers."""
    shape: tuple[int | None, ...]
    """None for a symbolic extent."""
    symbols: tuple[str, ...] = ()
    """Symbolic extents by axis, as in JAX (`2*b`); "" for all others."""


@dataclass(frozen=True)
class Exported:
    """An exported function."""

    module: bytes
    """A portable artifact of StableHLO."""
    inputs: tuple[Leaf, ...]
    """All arguments, in order."""
    kept: tuple[int, ...]
    """Numbers of the inputs that the module takes."""
    outputs: tuple[Leaf, ...]
    platforms: tuple[str, ...]
    """In JAX's spelling: `cpu`."""


def is_exported(content: bytes) -> bool:
    """Whether a file is not itself a module but may hold one as JAX writes it."""
    return not content.startswith(b"ML\xefR") and b"ML\xefR" in content and b"\x00" in content[:16]


def read_exported(content: bytes, name: str) -> Exported:
    """Reads a serialised function.

    Args:
        content: The file.
        name: Its name, for errors.

    Raises:
        UnsupportedModelError: It is damaged, or for several devices or other platforms than CPUs.
    """
    try:
        root = Table(content, encode.Get(packer.uoffset, content, 0))
        exported = _Record(root, _Budget(2 * len(content) + _SPARE_BYTES))
        _refuse(exported, name)
        return Exported(
            exported.bytes(13),
            _leaves(exported, 2, 3, 22, "arg"),
            exported.numbers(15, number_types.Uint16Flags),
            _leaves(exported, 4, 5, 23, "result"),
            tuple(exported.strings(9)),
        )
    # Offsets that lead out of the file.
    except (struct.error, IndexError, ValueError, TypeError, OverflowError):
        raise UnsupportedModelError(
            f"{name} is damaged or was not written by jax.export; write it again with "
            "`jax.export.export(jax.jit(f), platforms=['cpu'])(...).serialize()`",
            code="MW416",
        ) from None


def _refuse(exported: _Record, name: str) -> None:
    version = exported.number(14, number_types.Uint16Flags)
    if version > MAX_CALLING_CONVENTION:
        raise UnsupportedModelError(
            f"{name} has JAX's calling convention {version}, and TensorFlow reads up to "
            f"{MAX_CALLING_CONVENTION}; export it with an earlier JAX",
            code="MW417",
        )
    devices = exported.number(18, number_types.Uint32Flags) or exported.number(
        6, number_types.Uint16Flags
    )
    if devices > 1:
        raise UnsupportedModelError(
            f"{name} was exported for {devices} devices; export it for one CPU"
        )
    platforms = list(exported.strings(9))
    if "cpu" not in platforms:
        raise UnsupportedModelError(
            f"{name} was exported for {', '.join(platforms)}; export it with platforms=['cpu']"
        )
    effects = [record.string(0) for slot in (10, 11) for record in exported.records(slot)]
    if effects:
        raise UnsupportedModelError(
            f"the function in {name} has effects ({', '.join(effects)}), which cannot be compiled; "
            "remove callbacks and printing from it",
            code="MW407",
        )


def _leaves(exported: _Record, tree: int, own: int, shared: int, what: str) -> tuple[Leaf, ...]:
    """The arrays of a tree, each described by itself or by its number in a table of all kinds."""
    numbers = exported.numbers(shared, number_types.Uint32Flags)
    kinds = [_leaf(kind) for kind in exported.records(19 if numbers else own)]
    values = [kinds[number] for number in numbers] if numbers else kinds
    root = exported.record(tree)
    paths = list(_paths(root, (), 0)) if root is not None else []
    if len(paths) != len(values):
        raise ValueError("as many names as values")
    if sum(len(str(part)) for path in paths for part in path) > _MAX_NAMES:
        raise ValueError("the names of all leaves are too long")
    names = _input_names(paths) if what == "arg" else _output_names(paths)
    if len(set(names)) != len(names):
        taken = ", ".join(
            name[:_SHOWN] for name, count in Counter(names).most_common(3) if count > 1
        )
        raise UnsupportedModelError(
            f"several arrays of the exported function would be called {taken}; rename its keys"
        )
    return tuple(replace(kind, name=name) for name, kind in zip(names, values, strict=True))


def _leaf(value: _Record) -> Leaf:
    """A leaf without its name; leaves of the same kind share one."""
    dtype = value.number(2, number_types.Uint8Flags)
    extents = list(value.strings(1))
    return Leaf(
        "",
        _DTYPES[dtype] if dtype < len(_DTYPES) else None,
        tuple(int(e) if e.isdecimal() else None for e in extents),
        tuple("" if e.isdecimal() else e for e in extents),
    )


# --- names ----------------------------------------------------------------------------------------

_Path = tuple[str | int, ...]


def _paths(node: _Record, path: _Path, depth: int) -> Iterator[_Path]:
    """The keys and positions that lead to each leaf of a tree."""
    if depth > _MAX_DEPTH:
        raise ValueError("a tree of arguments is too deep")
    kind = node.number(0, number_types.Uint8Flags)
    if kind == _LEAF:
        yield path
    elif kind != _NONE:
        children = list(node.records(1))
        keys: Sequence[str | int] = list(node.strings(2)) if kind == _DICT else range(len(children))
        for key, child in zip(keys, children, strict=True):
            yield from _paths(child, (*path, key), depth + 1)


def _input_names(paths: Sequence[_Path]) -> list[str]:
    """`x` for `args[0]['x']` of a function of one argument, otherwise `arg0_x`; keywords by name."""
    alone = len({path[1] for path in paths if path[0] == 0}) == 1
    return [
        _join("", path[1:] if path[0] == 1 else path[2:])
        if path[0] == 1 or (alone and _named(path[2:]))
        else _join("arg", path[1:])
        for path in paths
    ]


def _output_names(paths: Sequence[_Path]) -> list[str]:
    """`y` for `result['y']`, `result0` for the first of several or the only one."""
    return [_join("", path) if _named(path) else _join("result", path or (0,)) for path in paths]


def _named(path: _Path) -> bool:
    return isinstance(next(iter(path), None), str)


def _join(prefix: str, path: _Path) -> str:
    return prefix + "_".join(map(str, path))


# --- flatbuffers ----------------------------------------------------------------------------------


class _Budget:
    """How many bytes may still be read."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> None:
        """Notes that so many are read.

        Raises:
            ValueError: Those are more than there are left.
        """
        self._left -= count
        if self._left < 0:
            raise ValueError("something in the file is named many times")


class _Record:
    """A table; fields are numbered as in the schema, and those that are not there are empty."""

    def __init__(self, table: Any, budget: _Budget) -> None:
        self._table, self._budget = table, budget

    def _offset(self, field: int) -> int:
        return int(self._table.Offset(4 + 2 * field))

    def number(self, field: int, flags: Any) -> int:
        """A number; 0 if it is not there."""
        offset = self._offset(field)
        return int(self._table.Get(flags, offset + self._table.Pos)) if offset else 0

    def string(self, field: int) -> str:
        """A text."""
        offset = self._offset(field)
        return self._text(offset + self._table.Pos) if offset else ""

    def record(self, field: int) -> _Record | None:
        """A table."""
        offset = self._offset(field)
        if not offset:
            return None
        return self._other(self._table.Indirect(offset + self._table.Pos))

    def bytes(self, field: int) -> bytes:
        """A vector of bytes."""
        start, length = self._vector(field)
        self._budget.take(length)
        return bytes(self._table.Bytes[start : start + length])

    def numbers(self, field: int, flags: Any) -> tuple[int, ...]:
        """A vector of numbers."""
        start, length = self._vector(field)
        width = flags.bytewidth
        self._budget.take(width * length)
        return tuple(int(self._table.Get(flags, start + width * n)) for n in range(length))

    def strings(self, field: int) -> Iterator[str]:
        """A vector of texts."""
        start, length = self._vector(field)
        return (self._text(start + 4 * n) for n in range(length))

    def records(self, field: int) -> Iterator[_Record]:
        """A vector of tables."""
        start, length = self._vector(field)
        return (self._other(self._table.Indirect(start + 4 * n)) for n in range(length))

    def _other(self, position: int) -> _Record:
        self._budget.take(_ENTRY_BYTES)
        return _Record(Table(self._table.Bytes, position), self._budget)

    def _text(self, position: int) -> str:
        text = bytes(self._table.String(position))
        self._budget.take(_ENTRY_BYTES + len(text))
        return text.decode()

    def _vector(self, field: int) -> tuple[int, int]:
        """Where a vector begins, and its elements."""
        offset = self._offset(field)
        if not offset:
            return 0, 0
        start, length = int(self._table.Vector(offset)), int(self._table.VectorLen(offset))
        if start + length > len(self._table.Bytes):
            raise ValueError("a vector leads out of the file")
        return start, length
