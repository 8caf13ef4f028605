"""Inputs and outputs: sizes for a row, for tensors that grow with the batch and for those that do not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from modelwheel.signature import Signature, Tensor


def tensor(shape: tuple[int | None, ...], per_row: int, dtype: str = "float32") -> Tensor:
    return Tensor(name="x", c_name="x", dtype=dtype, shape=shape, leading_per_row=per_row)


@pytest.mark.parametrize(
    ("shape", "per_row", "elements"),
    [
        ((None, 8, 8), 1, 64),
        ((None, 2), 3, 6),  # [batch * 3, 2]
        ((None,), 1, 1),
        ((10, None, 8), 1, 80),
        ((10, None), 2, 20),  # [10, batch * 2]
        ((5, 4), 0, 20),
        ((5,), 0, 5),
        ((0, 4), 0, 0),
        ((), 0, 1),
    ],
)
def test_elements_of_a_row(shape: tuple[int | None, ...], per_row: int, elements: int) -> None:
    assert tensor(shape, per_row).row_elements == elements
    assert tensor(shape, per_row, "complex128").row_bytes == 16 * elements


def test_shapes_of_a_tensor_whose_batch_is_not_first() -> None:
    x = tensor((10, None, 8), 2)
    assert (x.batch_axis, tensor((10,), 0).batch_axis) == (1, None)
    assert x.shape_at(3, None) == (10, 6, 8)
    assert x.rows_first((10, 6, 8)) == (6, 10, 8)
    follows = x.model_copy(update={"extents": ((0, 1), (2, 0), (8, 0))})
    assert follows.shape_at(3, 4) == (4, 6, 8)


def test_types() -> None:
    half = tensor((), 0, "float16")
    assert (half.c_type, half.element_type.kernel_type) == ("uint16_t", "F16")
    assert tensor((), 0, "complex64").c_type == "modelwheel_complex64"


def test_a_model_is_batched_by_its_inputs() -> None:
    fixed, growing = tensor((4,), 0), tensor((None, 4), 1)
    assert Signature(inputs=(fixed, growing), outputs=()).batched
    assert not Signature(inputs=(fixed,), outputs=(fixed,)).batched


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="rank"):
        Tensor.model_validate({**tensor((), 0).model_dump(), "rank": 0})
