"""One form for files that frameworks write differently each time: the same model has the same hash."""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that a ZIP archive can hold."""
_NUMBERED = re.compile(r"(.*)_(\d+)", re.DOTALL)


def normalise_keras(path: Path) -> None:
    """Rewrites a `.keras` file without its date and without places of memory."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    metadata = json.loads(members["metadata.json"])
    metadata.pop("date_saved", None)
    members["metadata.json"] = json.dumps(metadata).encode()
    config = json.loads(members["config.json"])
    _number_shared(config, {})
    members["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)


def _number_shared(value: Any, numbers: dict[int, int]) -> None:
    """Numbers shared objects in their order; Keras names them by their places in memory."""
    if isinstance(value, dict):
        shared = value.get("shared_object_id")
        if isinstance(shared, int):
            value["shared_object_id"] = numbers.setdefault(shared, len(numbers))
        for item in value.values():
            _number_shared(item, numbers)
    elif isinstance(value, list):
        for item in value:
            _number_shared(item, numbers)


def normalise_saved_model(directory: Path) -> list[str]:
    """Rewrites `saved_model.pb`: functions are numbered from 0 on, not by what this process traced before.

    Returns:
        The names of its signatures.
    """
    (directory / "fingerprint.pb").unlink(missing_ok=True)  # it has a random number
    path = directory / "saved_model.pb"
    # A part of TensorFlow, which has written this file in this process.
    saved = import_module("tensorflow.core.protobuf.saved_model_pb2").SavedModel()
    saved.ParseFromString(path.read_bytes())
    names = _function_names(saved)
    _rename(saved, names)
    for graph in saved.meta_graphs:
        library = graph.graph_def.library
        library.function.sort(key=lambda function: str(function.signature.name))
        for function in library.function:
            for item in (*function.node_def, *function.arg_attr.values()):
                _forget_number(item.attr)
    path.write_bytes(saved.SerializeToString(deterministic=True))
    keys = {key for graph in saved.meta_graphs for key in graph.signature_def}
    return sorted(key for key in keys if not key.startswith("__"))


def _forget_number(attributes: Any) -> None:
    """Removes the number that TensorFlow gave to a captured tensor that has no name."""
    name = "_user_specified_name"
    if name in attributes and attributes[name].s.isdigit():
        del attributes[name]


def _function_names(saved: Any) -> dict[str, str]:
    """New names of functions: those that share a name are numbered in the order in which they were traced."""
    names = {
        function.signature.name
        for graph in saved.meta_graphs
        for function in graph.graph_def.library.function
    }
    numbers: dict[str, list[int]] = defaultdict(list)
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        numbers[match[1]].append(int(match[2]))
    return {
        f"{base}_{number}": f"{base}_{place}"
        for base, several in numbers.items()
        for place, number in enumerate(sorted(several))
    }


def _rename(message: Any, names: Mapping[str, str]) -> None:
    """Replaces names in all fields of a message and of those in it."""
    for field, value in list(message.ListFields()):
        if field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
            _rename_map(field, value, names)
        elif field.type == field.TYPE_MESSAGE:
            for item in _items(field, value):
                _rename(item, names)
        elif field.type == field.TYPE_STRING:
            if _is_repeated(field):
                value[:] = [names.get(item, item) for item in value]
            elif value in names:
                setattr(message, field.name, names[value])


def _rename_map(field: Any, value: Any, names: Mapping[str, str]) -> None:
    if field.message_type.fields_by_name["value"].message_type is None:
        return
    for item in value.values():
        _rename(item, names)
    # All at once: the new name of one may be the old one of another.
    moved = {
        names[key]: type(value[key]).FromString(value[key].SerializeToString(deterministic=True))
        for key in value
        if key in names
    }
    for key in [key for key in value if key in names]:
        del value[key]
    for key, item in moved.items():
        value[key].CopyFrom(item)


def _items(field: Any, value: Any) -> Iterator[Any]:
    return iter(value) if _is_repeated(field) else iter((value,))


def _is_repeated(field: Any) -> bool:
    # `is_repeated` replaces `label` in newer versions of protobuf.
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)
