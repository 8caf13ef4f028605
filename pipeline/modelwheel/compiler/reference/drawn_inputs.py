"""Random inputs of a signature, made by the recipe that the wheel's own test uses too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ...model.inspection import SignatureInfo
from ...workers.jobs import ReferenceRequest
from ...workers.table_reads import draw_input


def described_inputs(request: ReferenceRequest) -> dict[str, Any]:
    """The inputs as a `Reference` describes them."""
    if request.samples:
        return {"sampled": True}
    return {
        "ranges": dict(request.ranges),
        "masks": dict(request.masks),
        "columns": dict(request.columns),
        "parts": dict(request.parts),
        "some": request.some,
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
        values = draw_input(tensor, shapes[tensor.name], seed, request)
        drawn[tensor.name] = values.view(dtype.as_numpy_dtype)  # bfloat16 comes as its bits
    return drawn
