"""The element types of tensors: one row for each, with what every language and format calls it."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class ElementType(IntEnum):
    """An element type; its value is the number in XLA's PrimitiveType (xla/xla_data.proto).

    `modelwheel_dtype` of `modelwheel/abi.h` has the same names and numbers. A new type needs a row here,
    and in C++ a line each in `abi.h`, `dtype_of` and `dtype_name` of `buffer.hpp`; tests compare them.
    """

    item_bytes: int
    """Bytes of one element."""
    c_type: str
    """The type in C headers (`modelwheel/types.h`); 16-bit floats are passed as their bits."""
    cpp_type: str
    """The type in C++ headers, for which `dtype_of` of `modelwheel/buffer.hpp` has an answer."""
    kernel_type: str
    """The type that the hand-written kernels compute with (`src/kernels/base/numeric.h`)."""

    def __new__(
        cls, number: int, item_bytes: int, c_type: str, cpp_type: str, kernel_type: str
    ) -> Self:
        """Makes a member of a row below."""
        member = int.__new__(cls, number)
        # Otherwise Enum would call `int` with the whole row.
        member._value_ = number
        member.item_bytes = item_bytes
        member.c_type, member.cpp_type, member.kernel_type = c_type, cpp_type, kernel_type
        return member

    @property
    def dtype(self) -> str:
        """The name in NumPy, TensorFlow and manifests (`float32`)."""
        return self.name.lower()

    # The numbers left out are those of XLA's types without elements: TUPLE 13, OPAQUE_TYPE 14,
    # TOKEN 17.
    BOOL = 1, 1, "bool", "bool", "bool"
    INT8 = 2, 1, "int8_t", "std::int8_t", "std::int8_t"
    INT16 = 3, 2, "int16_t", "std::int16_t", "std::int16_t"
    INT32 = 4, 4, "int32_t", "std::int32_t", "std::int32_t"
    INT64 = 5, 8, "int64_t", "std::int64_t", "std::int64_t"
    UINT8 = 6, 1, "uint8_t", "std::uint8_t", "std::uint8_t"
    UINT16 = 7, 2, "uint16_t", "std::uint16_t", "std::uint16_t"
    UINT32 = 8, 4, "uint32_t", "std::uint32_t", "std::uint32_t"
    UINT64 = 9, 8, "uint64_t", "std::uint64_t", "std::uint64_t"
    FLOAT16 = 10, 2, "uint16_t", "std::uint16_t", "F16"
    FLOAT32 = 11, 4, "float", "float", "float"
    FLOAT64 = 12, 8, "double", "double", "double"
    COMPLEX64 = 15, 8, "modelwheel_complex64", "std::complex<float>", "Complex64"
    BFLOAT16 = 16, 2, "uint16_t", "std::uint16_t", "BF16"
    COMPLEX128 = 18, 16, "modelwheel_complex128", "std::complex<double>", "Complex128"


DTYPES = {element.dtype: element for element in ElementType}
"""Every element type by its name."""

ELEMENT_TYPES = {element.value: element for element in ElementType}
"""Every element type by its number."""


def integer_limits(dtype: str) -> tuple[int, int] | None:
    """The smallest and the largest value of an integer type (`uint8`); None for other types."""
    match = re.fullmatch(r"(u?)int(\d+)", dtype)
    if match is None:
        return None
    bits = int(match[2])
    return (0, 2**bits - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
