"""The hand-written kernels that are compiled by themselves, because they are the same for all models and take long."""

from __future__ import annotations

from collections.abc import Iterator

_ELEMENTS = ("float", "double")
"""The C++ element types for which headers in `src/kernels/` declare templates `extern`."""


def compiled(element: str, *sources: str) -> Iterator[str]:
    """The names of such kernels: their sources with an element type, if they are compiled for it (`gemm_float`)."""
    if element in _ELEMENTS:
        yield from (f"{source}_{element}" for source in sources)
