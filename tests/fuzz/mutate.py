"""Changes valid inputs a little: bytes of any file, values of JSON, members and fields of archives."""

from __future__ import annotations

import copy
import gzip
import io
import json
import lzma
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

Mutator: TypeAlias = Callable[[Random, bytes, Sequence[bytes]], bytes]
"""Called with the source of chance, one seed, and all seeds; returns a new input."""

NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31,
            (1 << 32) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
TEXTS = ("", "a", "..", "/", "con", "a\0b", "\x1b[2J", "\u202e", "\ud800", "::error::x",
          "9" * 5000, "x" * 70_000, "1e999", "NaN", "%", "{}", "<!--", "../" * 40)  # fmt: skip
_VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 1 << 70, -(1 << 70), 1e308, float("inf"), float("nan"),
           [], {}, [[]], *TEXTS)  # fmt: skip
_WORDS = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r", b"\t", b'"', b"'", b"\\", b"{", b"[", b"&a",
          b"*a", b"!!python/object:os.system", b"- " * 200, b"[" * 3000, b'{"a":' * 3000,
          b'"\\UFFFFFFFF"', b'"\\ud800"', b"<<: *a", b"1e999", b"0x", b"---\n", b"<a href=")  # fmt: skip


def mutate_bytes(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Flips, removes, repeats, inserts and exchanges pieces."""
    content = bytearray(seed)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        at = random.randrange(len(content) + 1)
        length = min(random.choice((1, 1, 2, 4, 8, 64, 1000)), len(content) - at)
        action = random.randrange(7)
        if action == 0 and at < len(content):
            content[at] ^= 1 << random.randrange(8)
        elif action == 1:
            del content[at : at + length]
        elif action == 2:
            content[at:at] = content[at : at + length] * random.choice((1, 2, 50))
        elif action == 3:
            content[at:at] = random.choice(_WORDS)
        elif action == 4:
            size = random.choice((1, 2, 4, 8))
            number = random.choice(NUMBERS) % (1 << 8 * size)
            order = random.choice(("little", "big"))
            content[at : at + size] = number.to_bytes(size, order)  # type: ignore[arg-type]
        elif action == 5:
            other = random.choice(seeds)
            begin = random.randrange(len(other) + 1)
            content[at : at + length] = other[begin : begin + random.choice((4, 64, 1000))]
        else:
            del content[at:]
    return bytes(content)


def mutate_header(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Exchanges numbers of a binary format, mostly in its first bytes."""
    if random.random() < 0.2:
        return mutate_bytes(random, seed, seeds)
    content = bytearray(seed)
    for _ in range(random.choice((1, 2, 3, 8))):
        near = random.random() < 0.7
        at = random.randrange(min(len(content), 1024) if near else len(content))
        size = random.choice((1, 2, 4, 8))
        number = random.choice((*NUMBERS, random.randrange(256))) % (1 << 8 * size)
        content[at : at + size] = number.to_bytes(size, "little")
    return bytes(content[: len(seed)])


def mutate_json(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Exchanges, removes and adds values of a JSON text; sometimes bytes."""
    if random.random() < 0.3:
        return mutate_bytes(random, seed, seeds)
    value = json.loads(seed)
    for _ in range(random.choice((1, 1, 2, 4))):
        value = _mutate_value(random, value)
    return json.dumps(value).encode()


def _mutate_value(random: Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or random.random() < 0.1:
        return copy.deepcopy(random.choice(_VALUES))
    key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
    action = random.random()
    if action < 0.1:
        del value[key]
    elif action < 0.2 and isinstance(value, dict):
        value[random.choice(TEXTS)] = value.pop(key)
    elif action < 0.3 and isinstance(value, list):
        value.append(copy.deepcopy(random.choice((value[key], *_VALUES))))
    else:
        value[key] = _mutate_value(random, value[key])
    return value


def mutate_zip(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Exchanges members of a zip file, or patches its records."""
    if random.random() < 0.5:
        content = bytearray(seed)
        for _ in range(random.choice((1, 2, 4))):
            signature = random.choice((b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"))
            places = [at for at in range(len(content)) if content[at : at + 4] == signature]
            if places:
                at = random.choice(places) + random.randrange(4, 46)
                content[at : at + 2] = (random.choice(NUMBERS) % 65536).to_bytes(2, "little")
        return bytes(content)
    try:
        with zipfile.ZipFile(io.BytesIO(seed)) as archive:
            files = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # noqa: BLE001 - a seed may be damaged itself
        return mutate_bytes(random, seed, seeds)
    number = random.randrange(len(files))
    name, content_of = files[number]
    action = random.randrange(4)
    if action == 0:
        mutate = mutate_json if name.endswith(".json") else mutate_bytes
        files[number] = (name, mutate(random, content_of, [seed]))
    elif action == 1:
        files[number] = (
            random.choice(TEXTS)[:60_000].encode(errors="replace").decode() or "x",
            content_of,
        )
    elif action == 2:
        files.append(files[number])
    else:
        del files[number]
    return write_zip(files, zipfile.ZIP_DEFLATED)


def write_zip(files: Sequence[tuple[str, bytes]], compression: int) -> bytes:
    """An archive of these members, whose names may be anything, also twice."""
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", compression) as archive:
        warnings.simplefilter("ignore")
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return made.getvalue()


def mutate_tar(random: Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """Changes headers of an uncompressed tar file and compresses it again, or changes the archive."""
    if random.random() < 0.3:
        return mutate_bytes(random, seed, seeds)
    is_xz = seed.startswith(b"\xfd7zXZ")
    try:
        content = bytearray(lzma.decompress(seed) if is_xz else gzip.decompress(seed))
    except (EOFError, OSError, lzma.LZMAError):
        return mutate_bytes(random, seed, seeds)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = 512 * random.randrange(max(1, len(content) // 512))
        offset, size = random.choice(((0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (345, 155),
                                      (386, 96), (482, 1)))  # fmt: skip
        old = bytes(content[at + offset : at + offset + size])
        new = random.choice((
            mutate_bytes(random, old, seeds), b"-0000001\0", b"\x80" + b"\xff" * 7, b"77777777777\0",
            b"x", b"g", b"L", b"K", b"S", b"1", b"2", b"5",
        ))  # fmt: skip
        content[at + offset : at + offset + size] = new.ljust(size, b"\0")[:size]
        header = tarfile.calc_chksums(bytes(content[at : at + 512]).ljust(512, b"\0"))  # type: ignore[attr-defined]
        content[at + 148 : at + 156] = b"%06o\0 " % header[0]
    return lzma.compress(content, preset=0) if is_xz else gzip.compress(bytes(content), 1)
