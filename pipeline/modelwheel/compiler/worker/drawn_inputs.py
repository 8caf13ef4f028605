"""Random inputs of a signature, made by the recipe that the wheel's own test uses too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ..inspection import SignatureInfo
from ..jobs import ReferenceRequest
from ..random_inputs import random_input


def described_inputs(request: ReferenceRequest) -> dict[str, Any]:
    """What a `Reference` says about its inputs."""
    if request.samples:
        return {"sampled": True}
    return {
        "ranges": dict(request.ranges),
        "masks": dict(request.masks),
        "columns": dict(request.columns),
    }


def draw_inputs(
    signature: SignatureInfo,
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
    request: ReferenceRequest,
) -> dict[str, np.ndarray[Any, Any]]:
    """Values for every input; the first of more rows are the same as fewer rows."""
    drawn = {}
    for tensor in signature.inputs:
        dtype = tf.dtypes.as_dtype(tensor.dtype)
        if not (dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool):
            raise UnsupportedModelError(
                f"input {tensor.name!r} is of type {tensor.dtype}, which is not a number"
            )
        bounds, shape = request.ranges.get(tensor.name), shapes[tensor.name]
        held = [(mask.value, mask.axes) for mask in request.masks.get(tensor.name, ())]
        columns = [(c.first, c.end, c.low, c.high) for c in request.columns.get(tensor.name, ())]
        values = random_input(seed, tensor.name, shape, tensor.dtype, bounds, held, columns)
        drawn[tensor.name] = values.view(dtype.as_numpy_dtype)  # bfloat16 comes as its bits
    return drawn
