"""Rows at the boundaries of what inputs may hold."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from modelwheel.compiler.reference.boundary_inputs import boundary_inputs
from modelwheel.workers.jobs import ReferenceRequest

_TYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.uint64, np.bool_, np.complex64)  # fmt: skip


@pytest.mark.parametrize("dtype", _TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_shape_and_type_stay(dtype: type) -> None:
    given: dict[str, np.ndarray[Any, Any]] = {"x": np.ones((2, 3), dtype)}
    found = boundary_inputs(given, ["x"], ReferenceRequest(signature="s", batch_sizes=(2,)))
    assert {"zeros", "highest"} <= found.keys()
    for made in found.values():
        assert (made["x"].shape, made["x"].dtype) == ((2, 3), np.dtype(dtype))
