"""Reads the index of a SavedModel's variables, without their values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tensorflow.python.training import py_checkpoint_reader

from ....errors import UnsupportedModelError
from ....model.inspection import LargeTensor

_DAMAGED = "the model's variables are incomplete or damaged"


def check_variables(directory: Path) -> tuple[LargeTensor, ...]:
    """The variables in the index; none if the model has no variables.

    Raises:
        UnsupportedModelError: The index is damaged, or the files of values are too short.
    """
    prefix = directory / "variables" / "variables"
    if not prefix.with_name("variables.index").is_file():
        return ()
    try:
        reader = py_checkpoint_reader.NewCheckpointReader(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        types = reader.get_variable_to_dtype_map()
    except Exception as error:  # TensorFlow has many classes for it, RuntimeError among them
        raise UnsupportedModelError(
            f"{_DAMAGED} (variables.index cannot be read); fetch or export the model again"
        ) from error
    _require_bytes(directory, sum(_bytes(shapes, types)))
    return tuple(
        LargeTensor(node=name, function="", elements=_elements(shape))
        for name, shape in sorted(shapes.items())
    )


def _elements(shape: list[int]) -> int:
    elements = 1
    for extent in shape:
        elements *= extent
    return elements


def _bytes(shapes: dict[str, list[int]], types: dict[str, tf.DType]) -> Iterator[int]:
    for name, shape in shapes.items():
        if types[name] != tf.string:  # of any length
            yield _elements(shape) * types[name].size


def _require_bytes(directory: Path, needed: int) -> None:
    files = list((directory / "variables").glob("variables.data-*"))
    size = sum(path.stat().st_size for path in files)
    if size < needed:
        raise UnsupportedModelError(
            f"{_DAMAGED} (its files have {size} bytes, but the index names {needed}); "
            "fetch or export the model again"
        )
