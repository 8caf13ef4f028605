"""The groups and arrays of an HDF5 file that Keras wrote: found one by one, and copied to a file with nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_NUMBERS = "biufcSUV"
"""Kinds of types that are stored as they are; V holds bfloat16."""


def walk(file: Any) -> Iterator[tuple[str, Any]]:
    """Every group and array below a file, by its path, each before what is in it.

    Raises:
        OSError: One is a link, is stored in another file, or has two names.
    """
    import h5py

    waiting, seen = [("", file)], set[int]()
    while waiting:
        place, group = waiting.pop()
        for name in group:
            where = f"{place}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise OSError(f"{where} is a link")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                raise OSError(f"{where} has two names")
            seen.add(address)
            if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
                raise OSError(f"{where} is stored in another file")
            if isinstance(item, (h5py.Group, h5py.Dataset)):
                yield where, item
            if isinstance(item, h5py.Group):
                waiting.append((where, item))


def copy(source: Any, target: Any) -> None:
    """Copies groups and arrays with their attributes, and no links, references or types of their own.

    Args:
        source: An open file or group.
        target: An empty one.

    Raises:
        OSError: As `walk`, or an array holds no numbers.
    """
    import h5py

    _copy_attributes(source, target)
    for where, item in walk(source):
        name = where.removeprefix("/")
        if isinstance(item, h5py.Group):
            made = target.create_group(name)
        elif item.dtype.kind in _NUMBERS and item.shape is not None:
            made = target.create_dataset(name, data=item[()], dtype=item.dtype)
        else:
            raise OSError(f"{where} holds no numbers")
        _copy_attributes(item, made)


_FIRST_LAYERS, _LAYERS = "_layer_checkpoint_dependencies", "layers"


def rename_first_layers(group: Any) -> None:
    """Names the groups of layers as Keras has done since 2.14; does nothing where they have these names.

    Keras 2.12 and 2.13 wrote them below another name, and counted layers that have weights twice: `conv2d`, `conv2d_2`
    (`saving_lib._save_container_state`). Nested models have groups of layers of their own.

    Args:
        group: An open file of weights, or the group of a model in it.
    """
    if _FIRST_LAYERS in group and _LAYERS not in group:
        group.move(_FIRST_LAYERS, _LAYERS)
        layers = group[_LAYERS]
        by_class: dict[str, dict[int, str]] = {}
        for name in layers:
            kind, _, number = name.rpartition("_")
            if kind and number.isdecimal():
                by_class.setdefault(kind, {})[int(number)] = name
            else:
                by_class.setdefault(name, {})[0] = name
        for kind, numbered in by_class.items():
            for position, number in enumerate(sorted(numbered)):
                new = f"{kind}_{position}" if position else kind
                if new != numbered[number]:
                    layers.move(numbered[number], new)
        for name in layers:
            rename_first_layers(layers[name])


def _copy_attributes(source: Any, target: Any) -> None:
    """Copies the attributes that are texts or numbers; Keras writes no others."""
    import h5py

    for name in source.attrs:
        value = source.attrs[name]
        array = np.asarray(value)
        if isinstance(value, (str, bytes)) or array.dtype.kind in "biufSU":
            target.attrs[name] = value
        elif array.dtype.kind == "O" and all(isinstance(item, (str, bytes)) for item in array.flat):
            target.attrs.create(name, array, dtype=h5py.string_dtype())
