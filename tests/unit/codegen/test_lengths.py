"""Tables of models that are compiled for several lengths."""

from __future__ import annotations

import numpy as np
import pytest

from modelwheel.codegen.lengths import length_tables, pad_bytes
from modelwheel.signature import Signature, Tensor


def _tensor_of(dtype: str, **changes: object) -> Tensor:
    fields = {"name": "x", "c_name": "x", "shape": (None, 8), "leading_per_row": 1, **changes}
    return Tensor.model_validate({**fields, "dtype": dtype})


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("float16", -1.5), ("float32", 0.1), ("float64", 0.1), ("complex64", 2.5)),
        *(("int8", -3), ("uint16", 65535), ("int64", -(2**40)), ("bool", 1)),
    ],
)
def test_pads_have_the_bytes_that_numpy_gives_them(dtype: str, value: float) -> None:
    assert pad_bytes(_tensor_of(dtype), value) == np.array(value).astype(dtype).tobytes()


def test_a_bfloat16_is_the_upper_half_of_a_float() -> None:
    assert pad_bytes(_tensor_of("bfloat16"), -1.5) == np.float32(-1.5).tobytes()[2:]


def test_the_tables_of_lengths() -> None:
    tokens = _tensor_of("int8", extents=((1, 0), (0, 1)), pad=-1)
    scale = _tensor_of("float32", shape=(), leading_per_row=0)
    out = _tensor_of("float32", shape=(None,), leading_per_row=17, extents=((1, 2),))
    signature = Signature(inputs=(tokens, scale), outputs=(out,), lengths=(4, 8))
    lines = length_tables(signature).splitlines()
    assert lines == [
        "constexpr std::size_t lengths[] = {4, 8};",
        "constexpr modelwheel_extent input_0_extents[] = {{1, 0}, {0, 1}};",
        "constexpr modelwheel_extent input_1_extents[] = {{0, 0}};",
        "constexpr const modelwheel_extent *input_extents[] = {input_0_extents, input_1_extents};",
        "constexpr modelwheel_extent output_0_extents[] = {{1, 2}};",
        "constexpr const modelwheel_extent *output_extents[] = {output_0_extents};",
        "constexpr unsigned char pad_0[] = {255};",
        "constexpr const void *pads[] = {pad_0, nullptr};",
    ]
    assert out.shape_at(3, 4) == (27,)
    assert out.shape_at(3, None) == (51,)
    assert length_tables(signature.model_copy(update={"lengths": ()})) == ""
