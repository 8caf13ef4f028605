"""Stores weights in fewer bytes than they take at run time: as 16-bit floats, or as 8-bit integers with scales.

The library expands them once, when it is loaded (`src/expand.cpp`); its code computes with float32 values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..dtypes import ElementType
from ..program.arrays import ALIGNMENT, ArrayShape
from .constants import Constants

if TYPE_CHECKING:
    import numpy as np

    _Array: TypeAlias = np.ndarray[Any, Any]

Storage: TypeAlias = Literal["float32", "float16", "int8"]
"""How weights are stored; `float32` is as they are."""

SMALLEST = 4096
"""Bytes. Smaller constants, such as biases, stay as they are."""

_CHANNEL = 16
"""Fewer elements for each scale would make the scales a large part of what is stored."""

_LARGEST_INT8 = 127


@dataclass(frozen=True)
class StoredConstant:
    """One constant of the library, as `StoredConstant` of `src/program.h` has it."""

    kind: Storage
    """`float32` stands for any constant that is stored as it is."""
    offset: int
    """In the expanded weights."""
    place: int
    """In the stored weights."""
    count: int
    """Elements; bytes of a constant that is stored as it is."""
    scales: int = 0
    """For `int8`: where the scales are in the stored weights."""
    inner: int = 1
    """Consecutive elements with the same scale."""
    channels: int = 1
    """Scales, one after the other for each `inner` elements, and from the first again."""


@dataclass
class StoredWeights:
    """The constants of a model as they are in its library."""

    content: bytearray = field(default_factory=bytearray)
    constants: list[StoredConstant] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """Where constants that are stored as they are begin, by their offset in the expanded weights."""
    expanded_bytes: int = 0
    """Memory that the library expands them to; 0 if its code uses them as they are stored."""

    def append(self, value: bytes) -> int:
        """Adds bytes at the next multiple of the alignment; returns where."""
        self.content.extend(bytes(-len(self.content) % ALIGNMENT))
        place = len(self.content)
        self.content.extend(value)
        return place


def store(constants: Constants, storage: Storage) -> StoredWeights:
    """Stores the weights of a model: all float32 constants that are large enough, and can be stored so."""
    if storage == "float32":
        places = {offset: offset for offset in constants.offsets.values()}
        return StoredWeights(constants.blob, [], places)
    stored = StoredWeights(expanded_bytes=len(constants.blob))
    for digest, offset in constants.offsets.items():
        content = bytes(constants.blob[offset : offset + constants.sizes[digest]])
        array = constants.arrays[digest]
        constant = None
        if array and array.element_type == ElementType.FLOAT32 and len(content) >= SMALLEST:
            if storage == "float16":
                constant = _as_float16(stored, content, offset)
            else:
                constant = _as_int8(stored, content, array, offset)
        if constant is None:
            constant = StoredConstant("float32", offset, stored.append(content), len(content))
            stored.places[offset] = constant.place
        stored.constants.append(constant)
    return stored


def _as_float16(stored: StoredWeights, content: bytes, offset: int) -> StoredConstant | None:
    import numpy as np

    with np.errstate(over="ignore"):
        halves = np.frombuffer(content, "<f4").astype("<f2")
    if not np.isfinite(halves).all():
        return None  # beyond 65504, or not finite before
    return StoredConstant("float16", offset, stored.append(halves.tobytes()), halves.size)


def _as_int8(
    stored: StoredWeights, content: bytes, array: ArrayShape, offset: int
) -> StoredConstant | None:
    import numpy as np

    # Axes in the order in which they are in memory.
    shape = [array.shape[axis] for axis in reversed(array.minor_to_major)]
    values = np.frombuffer(content, "<f4").reshape(shape)
    if not np.isfinite(values).all():
        return None
    axis, (integers, scales) = min(
        ((axis, _quantize(values, axis)) for axis in _channel_axes(values.shape)),
        key=lambda choice: _squared_error(values, *choice[1]),
    )
    return StoredConstant(
        "int8",
        offset,
        stored.append(integers.tobytes()),
        values.size,
        stored.append(scales.tobytes()),
        values.size if axis is None else math.prod(shape[axis + 1 :]),
        scales.size,
    )


def _channel_axes(shape: tuple[int, ...]) -> Iterator[int | None]:
    """Axes that may have a scale for each of their indices; None stands for one scale for everything."""
    size = math.prod(shape)
    axes = [axis for axis, extent in enumerate(shape) if 1 < extent <= size // _CHANNEL]
    if not axes:
        yield None
    yield from axes


def _quantize(values: _Array, axis: int | None) -> tuple[_Array, _Array]:
    """Integers from -127 to 127 and their scales, with which they are multiplied."""
    import numpy as np

    others = tuple(other for other in range(values.ndim) if other != axis)
    scales = np.abs(values).max(axis=others, keepdims=True) / np.float32(_LARGEST_INT8)
    divisors = np.where(scales > 0, scales, np.float32(1))
    integers = np.clip(np.rint(values / divisors), -_LARGEST_INT8, _LARGEST_INT8).astype(np.int8)
    return integers, scales.astype("<f4")


def _squared_error(values: _Array, integers: _Array, scales: _Array) -> float:
    import numpy as np

    return float(np.square(integers * scales - values, dtype=np.float64).sum())


def table_rows(stored: StoredWeights) -> Iterator[str]:
    """The rows of the C++ table."""
    names: Mapping[Storage, str] = {"float32": "kPlain", "float16": "kFloat16", "int8": "kInt8"}
    for constant in stored.constants:
        numbers = (
            constant.offset,
            constant.place,
            constant.count,
            constant.scales,
            constant.inner,
            constant.channels,
        )
        yield f"{{StoredAs::{names[constant.kind]}, {', '.join(map(str, numbers))}}}"
