"""Values of `source.constants`, in the types of the tensors whose place they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ...util.text import one_line
from ..graphs.kernels import type_name

_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "V": "iuf", "c": "iufc"}
"""Kinds of NumPy's types, and what may become one: 1.5 is not an integer, and 1 is not true."""


def convert_constant(value: Any, dtype: int, name: str) -> np.ndarray[Any, Any]:
    """A number or list of a spec as an array; numbers of a spec have no width.

    Args:
        value: As YAML has it.
        dtype: The number of a type in types.proto; 0 if it is not known.
        name: What errors call the tensor.

    Raises:
        UnsupportedModelError: It is not a value of that type.
    """
    wanted = np.dtype(tf.dtypes.as_dtype(dtype).as_numpy_dtype) if dtype else None
    try:
        array = np.asarray(value)
        converted = array if wanted is None else array.astype(wanted)
        exact = wanted is None or array.dtype.kind in _KINDS.get(wanted.kind, "")
        exact = exact and (converted.dtype.kind not in "iu" or bool(np.all(converted == array)))
    except (ValueError, TypeError, OverflowError):
        exact = False
    if not exact:
        raise UnsupportedModelError(
            f"source.constants: {one_line(value)} is not a value of {name!r}, which is {type_name(dtype)}"
        )
    return converted
