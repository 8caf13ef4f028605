"""The inputs and outputs of a compiled model, as its users see them."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict

from .dtypes import DTYPES, ElementType


class ValidRange(BaseModel):
    """Bounds of an input's values: others give numbers that mean nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float
    high: float
    """Not reached."""
    columns: tuple[int, int] | None = None
    """The first position along the last axis that they hold for, and the one after the last; None for all others."""

    def __str__(self) -> str:
        first, end = self.columns or (0, 0)
        place = f"{first}:{end}" if end > first + 1 else f"{first}"
        return f"{self.low:.15g} <= x{f'[..., {place}]' if self.columns else ''} < {self.high:.15g}"


class Tensor(BaseModel):
    """One input or output of the compiled signature."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The name in the SavedModel's signature."""
    c_name: str
    """The name as a C identifier."""
    dtype: str
    """The name of the element type (`float32`)."""
    shape: tuple[int | None, ...]
    """The extents; None for the batch axis, the one that grows with the batch."""
    leading_per_row: int
    """The extent of the batch axis for each row of the batch; 0 if the tensor does not grow with the batch."""
    extents: tuple[tuple[int, int], ...] = ()
    """If the model has several lengths, (fixed, per length) for each axis, whose extent is then
    fixed + per length * length; of the batch axis it is the extent for each row of the batch. `shape` and
    `leading_per_row` are those of the largest length."""
    ignored: bool = False
    """Whether no output depends on this input: the compiled code does not take it."""
    pad: float | None = None
    """What an input is padded with if it is shorter than a compiled length; None if it has one length."""
    valid: tuple[ValidRange, ...] = ()
    """What an input may hold, as far as it is known."""
    special: tuple[float, ...] = ()
    """Values that an input may hold too, such as those that stand for none."""
    labels: tuple[str, ...] = ()
    """What the places of an output's last axis stand for, or the values of an integer; empty if that is not said."""
    real: str = ""
    """The real numbers that integers stand for, `(x + 3) * 0.0157`; empty if they stand for themselves."""

    @property
    def valid_text(self) -> str:
        """`0 <= x < 100 or x = -1`; empty if every value is valid."""
        if not self.valid:
            return ""
        special = "".join(f" or x = {value:.15g}" for value in self.special)
        return ", ".join(map(str, self.valid)) + special

    @property
    def element_type(self) -> ElementType:
        """The row of the dtype."""
        return DTYPES[self.dtype]

    @property
    def c_type(self) -> str:
        """The C type of an element; 16-bit floats are passed as their bits."""
        return self.element_type.c_type

    @property
    def row_elements(self) -> int:
        """The number of elements for each row; in the whole tensor if it does not grow with the batch."""
        return math.prod(
            self.leading_per_row if extent is None else extent for extent in self.shape
        )

    @property
    def batch_axis(self) -> int | None:
        """The axis that grows with the batch; None if there is none."""
        return self.shape.index(None) if None in self.shape else None

    def shape_at(self, rows: int, length: int | None) -> tuple[int, ...]:
        """The shape for a number of rows and a length; None for the largest length."""
        if length is None or not self.extents:
            leading = rows * self.leading_per_row
            return tuple(leading if extent is None else extent for extent in self.shape)
        shape = [fixed + per_length * length for fixed, per_length in self.extents]
        return tuple(n * rows if a == self.batch_axis else n for a, n in enumerate(shape))

    def rows_first(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape of this tensor with the batch axis first, as references have it."""
        axis = self.batch_axis or 0
        return (*shape[axis : axis + 1], *shape[:axis], *shape[axis + 1 :])

    @property
    def row_bytes(self) -> int:
        """The size of `row_elements` elements, in bytes."""
        return self.row_elements * self.element_type.item_bytes


class Signature(BaseModel):
    """The inputs and outputs of a compiled model, in calling order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    state: tuple[Tensor, ...] = ()
    """What calls change, by the names of the model's variables; none grows with the batch."""

    lengths: tuple[int, ...] = ()
    """Compiled lengths, ascending, of the input axes that may be shorter; empty if there are none."""

    ordered_by: Literal["model", "natural", "sorted"] = "sorted"
    """What orders inputs and outputs: the model's files; their names, with numbers in them as numbers; or
    their names as plain text, as in wheels that do not say it."""

    @property
    def batched(self) -> bool:
        """Whether any input has a batch axis."""
        return any(tensor.leading_per_row for tensor in self.inputs)
