"""Prints the schema of XLA's compilation result, as the installed TensorFlow has it, as JSON.

`modelwheel adopt` runs this in the environments of two TensorFlows and compares what they print.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from ..model.schema import Schema
from .xla.decode import THUNKS
from .xla.descriptors import compilation_result_class

_THUNK = "xla.cpu.ThunkProto"


def read_schema() -> Schema:
    """The messages and enumerations that a compilation result can contain, and the kinds of its thunks.

    Raises:
        UnsupportedProgramError: The installed TensorFlow does not contain the schema.
    """
    types: dict[str, dict[str, tuple[int, str]]] = {}
    _add(compilation_result_class().DESCRIPTOR, types)
    return Schema(
        types=types, thunks=_thunks(compilation_result_class()), read=tuple(sorted(THUNKS))
    )


def _add(message: Any, types: dict[str, dict[str, tuple[int, str]]]) -> None:
    if message.full_name in types:
        return
    fields = types[message.full_name] = {}
    for field in message.fields:
        enum = field.enum_type
        if enum is not None:
            values = {value.name: (value.number, "value") for value in enum.values}
            types[enum.full_name] = values
        known = field.message_type or enum
        kind = _SCALARS.get(field.type, "?") if known is None else known.full_name
        fields[field.name] = (field.number, f"repeated {kind}" if field.is_repeated else kind)
        if field.message_type is not None:
            _add(field.message_type, types)


def _thunks(result: Any) -> tuple[str, ...]:
    thunk = result.DESCRIPTOR.file.pool.FindMessageTypeByName(_THUNK)
    return tuple(sorted(field.name for field in thunk.oneofs_by_name["impl"].fields))


def _scalars() -> Mapping[int, str]:
    from google.protobuf.descriptor import FieldDescriptor

    names = (name for name in vars(FieldDescriptor) if name.startswith("TYPE_"))
    return {getattr(FieldDescriptor, name): name[5:].lower() for name in names}


_SCALARS = _scalars()


if __name__ == "__main__":
    json.dump(read_schema().model_dump(), sys.stdout)
