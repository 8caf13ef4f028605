"""What XLA's kernels may be replaced by: a reader for each kind, in one list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...ir.emitted import thunks as p
from ...ir.emitted.memory import Memory
from ...ir.hlo import Instruction
from .convolutions import convolution_kernel
from .lookups import lookup
from .pooling import mean_of_images, pooling, row_reduction
from .products import vector_product

Recogniser: TypeAlias = Callable[[Instruction, p.Kernel, Memory], p.Thunk | None]


def _of_kernel(reader: Callable[[Instruction, p.Kernel], p.Thunk | None]) -> Recogniser:
    """A reader that needs no memory."""
    return lambda instruction, kernel, _: reader(instruction, kernel)


RECOGNISERS: tuple[Recogniser, ...] = (
    vector_product,  # First: a product finishes what is added to it; all others compute one operation.
    _of_kernel(convolution_kernel),  # Of an instruction of its own, which no other reader takes.
    _of_kernel(pooling),  # Windows of images before those of rows, which are reduce-windows too.
    _of_kernel(
        mean_of_images
    ),  # Before rows: a pooling has the factor, and later takes over one before it.
    _of_kernel(row_reduction),
    _of_kernel(lookup),  # The only one that ends in a gather.
)
"""In order: the first that returns something decides."""
