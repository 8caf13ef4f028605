"""The inputs and outputs of a compiled model, as its users see them."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from .dtypes import DTYPES, ElementType


class Tensor(BaseModel):
    """One input or output of the compiled signature."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As in the SavedModel's signature."""
    c_name: str
    """The same as a C identifier."""
    dtype: str
    """NumPy's name of the element type (`float32`)."""
    shape: tuple[int | None, ...]
    """Extents; None on axis 0 where it grows with the batch."""
    leading_per_row: int
    """Extent of axis 0 for each row of the batch; 0 where the tensor does not grow with the batch."""

    @property
    def element_type(self) -> ElementType:
        """XLA's number for the dtype."""
        return DTYPES[self.dtype]

    @property
    def c_type(self) -> str:
        """The C type of an element; 16-bit floats are passed as their bits."""
        return self.element_type.c_type

    @property
    def row_elements(self) -> int:
        """Elements for each row; of the whole tensor where it does not grow with the batch."""
        if self.leading_per_row:
            return self.leading_per_row * math.prod(self.trailing_shape)
        return math.prod(self.trailing_shape, start=self.shape[0] or 0) if self.shape else 1

    @property
    def trailing_shape(self) -> tuple[int, ...]:
        """Extents of all axes but the first."""
        return tuple(extent for extent in self.shape[1:] if extent is not None)

    @property
    def row_bytes(self) -> int:
        """Bytes of `row_elements` elements."""
        return self.row_elements * self.element_type.item_bytes


class Signature(BaseModel):
    """What a compiled model takes and gives back, in calling order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def batched(self) -> bool:
        """Whether any input has a batch axis."""
        return any(tensor.leading_per_row for tensor in self.inputs)
