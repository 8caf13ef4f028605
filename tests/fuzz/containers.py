"""Changes valid model files so that their containers stay readable: fields of messages and tables, members, tokens.

Changed bytes alone rarely get past the first check of a format.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from tests.fuzz.mutate import (
    NUMBERS,
    TEXTS,
    Mutator,
    mutate_bytes,
    mutate_zip,
    write_zip,
)

# --- protobuf -------------------------------------------------------------------------------------


def protobuf(message: Callable[[], Any]) -> Mutator:
    """Changes fields of a message of this class, at any depth."""

    def mutate(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
        if random.random() < 0.1:
            return mutate_bytes(random, seed, seeds)
        parsed = message()
        try:
            parsed.ParseFromString(seed)
        except Exception:  # noqa: BLE001 - a seed may be damaged itself
            return mutate_bytes(random, seed, seeds)
        for _ in range(random.choice((1, 1, 2, 4))):
            _change_message(random, random.choice(list(_messages(parsed))))
        return bytes(parsed.SerializeToString())

    return mutate


def _messages(message: Any) -> Iterator[Any]:
    """A message and all inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = (
                value.values() if field.message_type.fields_by_name["value"].message_type else ()
            )
        else:
            inner = value if field.is_repeated else [value]
        for one in inner:
            yield from _messages(one)


def _change_message(random: Random, message: Any) -> None:
    field = random.choice(list(message.DESCRIPTOR.fields))
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _change_map(random, getattr(message, field.name))
    elif field.is_repeated:
        _change_list(random, field, getattr(message, field.name))
    elif random.random() < 0.2:
        message.ClearField(field.name)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        _try(lambda: setattr(message, field.name, _value(random, field)))


def _change_map(random: Random, entries: Any) -> None:
    if not entries:
        return
    keys = list(entries)
    if random.random() < 0.5:
        del entries[random.choice(keys)]
    else:
        one, other = random.choice(keys), random.choice(keys)
        _try(lambda: entries[one].CopyFrom(entries[other]))


def _change_list(random: Random, field: Any, values: Any) -> None:
    action = random.randrange(4)
    if values and action == 0:
        del values[random.randrange(len(values))]
    elif values and action == 1:
        again = random.choice(values)
        values.extend([again] * random.choice((1, 1, 2, 40)))
    elif field.message_type is not None:
        values.add()
    elif values and action == 2:
        _try(lambda: values.__setitem__(random.randrange(len(values)), _value(random, field)))
    else:
        _try(lambda: values.append(_value(random, field)))


def _value(random: Random, field: Any) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        text = random.choice(TEXTS)
        return text.encode(errors="replace") if field.type == field.TYPE_BYTES else text
    if kind == field.CPPTYPE_BOOL:
        return random.random() < 0.5
    if kind == field.CPPTYPE_ENUM:
        return random.choice([value.number for value in field.enum_type.values])
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return random.choice((0.0, -1.0, 1e38, float("inf"), float("nan")))
    return random.choice((*NUMBERS, -1, -2, -(1 << 31), -(1 << 63)))


def _try(change: Callable[[], object]) -> None:
    """A value that the field's type does not have changes nothing."""
    with suppress(TypeError, ValueError, IndexError, AttributeError):
        change()


# --- archives -------------------------------------------------------------------------------------


def archive(compression: int = zipfile.ZIP_STORED, **members: Mutator) -> Mutator:
    """Changes one member of a ZIP archive as its ending says, and sometimes the archive itself."""

    def mutate(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
        if random.random() < 0.15:
            return mutate_zip(random, seed, seeds)
        with zipfile.ZipFile(io.BytesIO(seed)) as read:
            files = [(info.filename, read.read(info)) for info in read.infolist()]
        for _ in range(random.choice((1, 1, 2))):
            number = random.randrange(len(files))
            name, content = files[number]
            if random.random() < 0.1:
                name = random.choice((files[0][0], f"{name}x", f"../{name}", name.upper()))
            elif random.random() < 0.05:
                files.append(files[number])
            else:
                change = members.get(name.rpartition(".")[2], mutate_bytes)
                try:
                    content = change(random, content, [content])
                except ValueError:  # it was changed before
                    content = mutate_bytes(random, content, [content])
            files[number] = (name, content)
        return write_zip(files, compression)

    return mutate


def numpy_array(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Changes the header of an `.npy` file, keeping its length right."""
    if random.random() < 0.3 or not seed.startswith(b"\x93NUMPY"):
        return mutate_bytes(random, seed, seeds)
    size = int.from_bytes(seed[8:10], "little")
    header, data = seed[10 : 10 + size].decode("latin-1"), seed[10 + size :]
    old = random.choice(re.findall(r"'[^']*'|\d+|True|False|[(),{}:]", header) or ["'"])
    new = random.choice((*map(str, NUMBERS), "-1", "True", "None", "'>f8'", "'|O'", "'<U9'", "(" * 400,
                         "-" * 900, "[('a', '<f4')]", "", "1e9", "()", "9" * 5000))  # fmt: skip
    changed = header.replace(old, new, 1).encode("latin-1")[:65_535]
    return seed[:8] + struct.pack("<H", len(changed)) + changed + data


# --- HDF5 -----------------------------------------------------------------------------------------


def hdf5(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Changes groups, links, attributes and arrays with the library itself, or bytes of its structures."""
    if random.random() < 0.4:
        return _hdf5_bytes(random, seed, seeds)
    import h5py

    content = io.BytesIO(seed)
    try:
        with h5py.File(content, "r+") as file:
            for _ in range(random.choice((1, 1, 2, 4))):
                _change_hdf5(random, file)
    except Exception:  # noqa: BLE001 - what the library does not write
        return mutate_bytes(random, seed, seeds)
    return content.getvalue()


def _change_hdf5(random: Random, file: Any) -> None:
    import h5py
    import numpy as np

    names: list[str] = ["/"]
    file.visit(lambda name: names.append(f"/{name}"))
    place, other = file[random.choice(names)], file[random.choice(names)]
    group = place if isinstance(place, h5py.Group) else file
    action, fresh = random.randrange(8), f"n{random.randrange(1000)}"
    if action == 0:
        group[fresh] = other  # perhaps a cycle
    elif action == 1:
        group[fresh] = random.choice(
            (h5py.SoftLink("/nowhere"), h5py.SoftLink("."), h5py.ExternalLink("/etc/passwd", "/"))
        )
    elif action == 2 and place.name != "/":
        del file[place.name]
    elif action == 3:
        kind = random.choice(("f4", "i8", "S7", "bool", [("a", "f4")], h5py.string_dtype()))
        shape = random.choice(((), (0,), (3, 4), (1 << 40,), (1 << 20, 1 << 20, 0)))
        group.create_dataset(
            fresh, shape, np.dtype(kind) if isinstance(kind, list) else kind, chunks=None
        )
    elif action == 4:
        text = random.choice(TEXTS).encode("utf-8", "replace").replace(b"\0", b"")[:60_000]
        value = random.choice((0, -1.5, np.zeros(3), [b"a", b"\xff"], h5py.Empty("f4"), text))
        names_of = [*place.attrs, *other.attrs, fresh]
        place.attrs[random.choice(names_of)] = value
    elif action == 5 and len(place.attrs):
        del place.attrs[random.choice(list(place.attrs))]
    elif action == 6:
        group.create_group(random.choice(("..", "a/b", fresh, "x" * 2000)))
    else:
        for name in [n for n in names if isinstance(file[n], h5py.Dataset)][:1]:
            file[f"/{fresh}"] = file[name]


_HDF5_MARKS = (b"TREE", b"SNOD", b"HEAP", b"OHDR", b"\x89HDF", b"FRHP", b"BTHD")


def _hdf5_bytes(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    content = bytearray(seed)
    places = [m.start() for mark in _HDF5_MARKS for m in re.finditer(re.escape(mark), seed)]
    if not places or random.random() < 0.2:
        return mutate_bytes(random, seed, seeds)
    for _ in range(random.choice((1, 2, 4))):
        at, size = random.choice(places) + random.randrange(4, 200), random.choice((1, 2, 4, 8))
        number = random.choice((*NUMBERS, random.choice(places), random.randrange(256)))
        content[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(content[: len(seed)])


# --- flatbuffers ----------------------------------------------------------------------------------


def flatbuffer(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Lets references point to other tables, so that trees are shared, and changes numbers and lengths."""
    if random.random() < 0.2:
        return mutate_bytes(random, seed, seeds)
    content = bytearray(seed)
    tables, references = _tables(seed)
    for _ in range(random.choice((1, 1, 2, 4))):
        action = random.randrange(3)
        if action == 0 and references:
            at = random.choice(references)
            later = [table for table in tables if table > at] or [len(seed)]
            struct.pack_into("<I", content, at, random.choice(later) - at)
        elif action == 1:
            at = random.randrange(0, len(content) - 4, 4)
            struct.pack_into("<I", content, at, random.choice(NUMBERS) % (1 << 32))
        elif tables:
            table = random.choice(tables)
            field = table + random.randrange(4, 40)
            if field + 4 <= len(content):
                struct.pack_into(
                    "<I", content, field, random.choice((*NUMBERS, 4, 8, 16)) % (1 << 32)
                )
    return bytes(content)


def _tables(seed: bytes) -> tuple[list[int], list[int]]:
    """Where tables seem to begin: at what refers back to a table of fields; and what refers to them."""
    tables = []
    for at in range(0, len(seed) - 4, 4):
        fields = at - struct.unpack_from("<i", seed, at)[0]
        if 0 <= fields <= len(seed) - 4:
            size, length = struct.unpack_from("<HH", seed, fields)
            if 4 <= size <= 80 and size % 2 == 0 and 4 <= length <= 200:
                tables.append(at)
    found = set(tables)
    references = [
        at
        for at in range(0, len(seed) - 4, 4)
        if at + struct.unpack_from("<I", seed, at)[0] in found
    ]
    return tables, references


# --- MLIR -----------------------------------------------------------------------------------------

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[%@#!^]?[\w.$-]+|->|\s+|.', re.DOTALL)
_MLIR = (
    "tensor<4xf32>", "tensor<?x4xf32>", "tensor<*xf32>", "f32", "i1", "!stablehlo.token", "tuple<tensor<f32>>",
    "complex<f32>", "{", "}", "(", ")", "<", ">", "stablehlo.add", "stablehlo.custom_call", "func.func", "-1",
    "9223372036854775808", "dense<1.0>", "dense_resource<a>", "loc(unknown)", "#a", "{a = #a}", "^bb0", "?", "{{",
    '"stablehlo.while"', "({", "})", "affine_map<(d0) -> (d0)>", "tensor<4xf32, #a>", "vector<4xf32>", "\0",
)  # fmt: skip


def mlir_text(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Exchanges, repeats, removes and nests tokens and lines."""
    if random.random() < 0.1:
        return mutate_bytes(random, seed, seeds)
    tokens = _TOKEN.findall(seed.decode("utf-8", "replace"))
    for _ in range(random.choice((1, 1, 2, 4))):
        at, action = random.randrange(len(tokens)), random.randrange(6)
        if action == 0:
            tokens[at] = random.choice(_MLIR)
        elif action == 1:
            tokens[at:at] = [random.choice(tokens)]
        elif action == 2 and len(tokens) > 8:
            del tokens[at]
        elif action == 3:
            end = at + random.choice((1, 4, 20, 80))
            tokens[at:at] = tokens[at:end] * random.choice((1, 2, 30))
        elif action == 4:
            depth = random.choice((2, 30, 3000))
            tokens[at] = f"{'tensor<' * depth}{tokens[at]}{'>' * depth}"
        else:
            lines = "".join(tokens).split("\n")
            number = random.randrange(len(lines))
            lines[number:number] = [random.choice(lines)] * random.choice((1, 2, 200))
            tokens = _TOKEN.findall("\n".join(lines))
    return "".join(tokens).encode("utf-8", "replace")
