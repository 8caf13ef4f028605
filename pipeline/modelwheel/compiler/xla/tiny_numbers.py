"""Replaces constants below the smallest normal number by zeros, where others of the same array are large.

Training with weight decay leaves numbers of 1e-40 in channels that nothing uses. CPUs take more than a hundred cycles for each
operation with a number below the smallest normal one (Intel 64 and IA-32 Architectures Optimization Reference Manual,
"Floating-Point Exceptions"), and such channels have results of this kind, too. Other runtimes take all of them for zero in
all of a process (FTZ, DAZ); here the arithmetic of the caller's threads stays what it is.
"""

from __future__ import annotations

import numpy as np

from ...dtypes import ElementType

_TINY = 2.0**-126
"""The smallest normal number: those below are replaced."""
_LARGE = 2.0**-40
"""The array has a number of this size: each sum in which the others matter has a rounding error that is larger."""


def clear_tiny(content: bytes, element_type: ElementType) -> bytes:
    """A constant with zeros for such numbers; the same bytes if it has none, or is not of 32-bit floats.

    Args:
        content: Its elements, little-endian.
        element_type: Their type.
    """
    if element_type != ElementType.FLOAT32:
        return content
    array = np.frombuffer(content, "<f4")
    sizes = np.abs(array)
    largest = sizes.max(initial=0.0)
    if not (np.isfinite(largest) and largest >= _LARGE):
        return content
    tiny = (sizes < _TINY) & (sizes > 0)
    return np.where(tiny, np.float32(0), array).tobytes() if tiny.any() else content
