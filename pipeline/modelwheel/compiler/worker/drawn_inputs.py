"""Random inputs of a signature, made by the recipe that the wheel's own test follows too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ...spec.reading.problems import did_you_mean
from ..inspection import SignatureInfo
from ..random_inputs import random_input

Ranges = Mapping[str, Sequence[float]]


def check_ranges(signature: SignatureInfo, ranges: Ranges) -> None:
    """Raises UnsupportedModelError if a range names no input or holds no value of its type."""
    dtypes = {tensor.name: tf.dtypes.as_dtype(tensor.dtype) for tensor in signature.inputs}
    for name, (low, high) in ranges.items():
        if name not in dtypes:
            raise UnsupportedModelError(
                f"verify.ranges names {name!r}, which is no input of the signature. "
                + did_you_mean(name, dtypes)
            )
        dtype = dtypes[name]
        if dtype.is_integer and not dtype.min <= math.floor(low) < math.ceil(high) <= dtype.max + 1:
            raise UnsupportedModelError(
                f"verify.ranges.{name}: [{low:g}, {high:g}) is not within the range of {dtype.name}"
            )


def draw_inputs(
    signature: SignatureInfo, shapes: Mapping[str, tuple[int, ...]], seed: int, ranges: Ranges
) -> dict[str, np.ndarray[Any, Any]]:
    """Values for every input; of more rows, the first are those of fewer."""
    drawn = {}
    for tensor in signature.inputs:
        dtype = tf.dtypes.as_dtype(tensor.dtype)
        if not (dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool):
            raise UnsupportedModelError(
                f"input {tensor.name!r} is of type {tensor.dtype}, no number"
            )
        bounds = ranges.get(tensor.name)
        pair = (float(bounds[0]), float(bounds[1])) if bounds else None
        values = random_input(seed, tensor.name, shapes[tensor.name], tensor.dtype, pair)
        drawn[tensor.name] = values.view(dtype.as_numpy_dtype)  # bfloat16 comes as its bits
    return drawn
