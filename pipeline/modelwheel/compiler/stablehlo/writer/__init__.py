"""Writes StableHLO modules as text: what importers of other formats are made of.

`Builder` holds the module that is being written, `Value` a tensor in it, and the other modules the operations.
Shapes are static. Operations on known values are computed at once. The operations are those of
https://openxla.org/stablehlo/spec; some come from the dialect CHLO beside it.
"""

from . import pointwise as elementwise
from .builder import Builder, Module, Scalar, Value

__all__ = ["Builder", "Module", "Scalar", "Value", "elementwise"]
