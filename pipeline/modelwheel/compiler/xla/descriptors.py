"""The schema of XLA's compilation result, taken from TensorFlow's own library.

TensorFlow's wheel has no Python module for these messages, but protobuf's C++ generator embeds the
serialised `FileDescriptorProto` (google/protobuf/descriptor.proto) of every file in the library's
read-only data. Reading it there yields the exact schema of the installed version, not a copy that may
differ.
"""

from __future__ import annotations

import mmap
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from ...errors import UnsupportedProgramError

ROOT_FILE = "xla/service/cpu/executable.proto"
ROOT_MESSAGE = "xla.cpu.CompilationResultProto"

_WELL_KNOWN = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
# Every descriptor begins with field 1 (name); the length of the name fits into one byte.
_FILE_HEAD = re.compile(rb"\n([\x08-\x7f])(xla/[\w./-]+\.proto)")
# Wire type of each field of FileDescriptorProto: 2 (length-delimited) except for the two repeated
# int32 and the enum, which are varints (0).
_WIRE_TYPES = {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 2, 9: 2, 10: 0, 11: 0, 12: 2, 14: 0}


@cache
def compilation_result_class() -> type[Any]:
    """The message class of `xla.cpu.CompilationResultProto`.

    Raises:
        UnsupportedProgramError: The installed TensorFlow does not contain the schema.
    """
    files = _embedded_files(_framework_library())
    for module in _WELL_KNOWN:
        known = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(known)
        files[known.name] = known
    # Not the default pool, in which TensorFlow's Python modules register some of the same files.
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    _add_with_dependencies(ROOT_FILE, files, pool, added)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(ROOT_MESSAGE))


def _framework_library() -> Path:
    spec = find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise UnsupportedProgramError(
            "TensorFlow is not installed; pip install 'modelwheel[compile]'"
        )
    return Path(spec.origin).with_name("libtensorflow_framework.so.2")


def _embedded_files(library: Path) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for match in _FILE_HEAD.finditer(data):
            if match[1][0] != len(match[2]):
                continue
            raw = data[match.start() : _end_of_message(data, match.start())]
            descriptor = descriptor_pb2.FileDescriptorProto.FromString(raw)
            if descriptor.message_type or descriptor.enum_type:
                files.setdefault(descriptor.name, descriptor)
    return files


def _end_of_message(data: mmap.mmap, position: int) -> int:
    """Where the descriptor at `position` ends: a message has no length, but its fields ascend."""
    last = 0
    while True:
        tag, after = _varint(data, position)
        field, wire_type = tag >> 3, tag & 7
        if _WIRE_TYPES.get(field) != wire_type or field < last:
            return position
        length, after = _varint(data, after)
        position = after + length if wire_type == 2 else after
        last = field


def _varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7


def _add_with_dependencies(
    name: str,
    files: dict[str, descriptor_pb2.FileDescriptorProto],
    pool: descriptor_pool.DescriptorPool,
    added: set[str],
) -> None:
    if name in added:
        return
    if name not in files:
        raise UnsupportedProgramError(
            f"the installed TensorFlow does not describe {name}; install the pinned version"
        )
    added.add(name)
    for dependency in files[name].dependency:
        _add_with_dependencies(dependency, files, pool, added)
    pool.Add(files[name])
