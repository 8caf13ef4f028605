"""Errors of arrays, in the pipeline and in the wheel."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.model.measuring import Measured, measure

_INSTALLED = (
    Path(__file__).parents[3]
    / "wheel_template"
    / "package"
    / "python"
    / "__module__"
    / "_errors.py"
)


def _f32(*values: Any) -> Any:
    return np.array(values, np.float32)


_NAN, _INF = np.nan, np.inf

CASES: dict[str, tuple[Any, Any, Measured]] = {
    "equal": (_f32(1, 2), np.array([1.0, 2.0]), Measured(0.0, 0.0, 0.0, None)),
    "half a unit": (_f32(2), np.array([2 + 2.0**-23]), Measured(2.0**-23, 2.0**-23 / (2 + 2.0**-23), 0.5, None)),
    "smallest numbers": (_f32(0), np.array([2.0**-149]), Measured(2.0**-149, 1.0, 1.0, None)),
    "another largest element": (
        _f32([1, 2], [4, 3]), np.array([[1.0, 2.0], [3.0, 4.0]]), Measured(1.0, 0.25, 2.0**22, 1),
    ),
    "the same infinities": (_f32(_NAN, _INF, 1), np.array([_NAN, _INF, 1.0]), Measured(0.0, 0.0, 0.0, None)),
    "only one is finite": (_f32(_NAN, 1), np.array([2.0, 1.0]), Measured(_INF, _INF, _INF, None)),
    "integers": (np.array([3, 4]), np.array([3.0, 6.0]), Measured(2.0, 2 / 6, None, 1)),
    "truth values": (np.array([True, False]), np.array([True, True]), Measured(1.0, 1.0, None, 1)),
    "complex": (np.array([3j], np.complex64), np.array([3j + 4]), Measured(4.0, 0.8, 4 / 2.0**-21, None)),
    "nothing": (_f32(), np.array([]), Measured(0.0, 0.0, 0.0, None)),
}  # fmt: skip


def _installed() -> Any:
    spec = importlib.util.spec_from_file_location("errors_of_a_wheel", _INSTALLED)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", CASES)
def test_errors(case: str) -> None:
    actual, truth, expected = CASES[case]
    assert measure(actual, truth) == expected
    assert _installed().measure(actual, truth) == expected
