"""Constants below the smallest normal number become zeros where they cannot matter."""

from __future__ import annotations

import numpy as np
import pytest

from modelwheel.compiler.xla.tiny_numbers import clear_tiny
from modelwheel.dtypes import ElementType

F32 = ElementType.FLOAT32


def cleared(*numbers: float) -> list[float]:
    content = np.array(numbers, "<f4").tobytes()
    return [float(number) for number in np.frombuffer(clear_tiny(content, F32), "<f4")]


def test_they_become_zeros_beside_large_numbers() -> None:
    assert cleared(1e-40, 0.5, -3e-39, 0.0, 1.2e-38) == [0.0, 0.5, 0.0, 0.0, np.float32(1.2e-38)]


@pytest.mark.parametrize("largest", [1e-30, np.inf, np.nan])
def test_they_stay_if_they_may_matter(largest: float) -> None:
    content = np.array([1e-40, largest], "<f4").tobytes()
    assert clear_tiny(content, F32) is content


def test_nothing_is_done_to_other_types_and_without_any() -> None:
    for element_type, content in (
        (ElementType.INT32, np.array([1, 1 << 30], "<i4").tobytes()),
        (F32, np.array([0, 0.5], "<f4").tobytes()),
        (F32, b""),
    ):
        assert clear_tiny(content, element_type) is content
