"""The hand-written kernels that are compiled by themselves, because they are the same for all models and take long."""

from __future__ import annotations

from collections.abc import Iterable

from ..program.program import Attention, Convolution, Dot, Fft, Pooling, Program, Strips, Thunk
from ..program.walk import walk
from .expressions import cpp_type, fft_type

_ELEMENTS = ("float", "double")
"""The element types for which headers in `src/kernels/` declare templates `extern`."""
_TRANSFORMS = ("convolution_decomposed", "convolution_winograd")
"""The kernels of convolutions by transforms, which are for floats alone."""


def compiled_kernels(programs: Iterable[Program]) -> tuple[str, ...]:
    """What the code of some programs is linked with, by source and element type: `gemm_float`.

    A source may be listed that is not called in the end: the linker drops it.
    """
    found: set[str] = set()
    for program in programs:
        for thunk in walk(program.thunks):
            sources, element = _sources(thunk)
            if element in _ELEMENTS:
                found |= {f"{source}_{element}" for source in sources}
    return tuple(sorted(found))


def _sources(thunk: Thunk) -> tuple[tuple[str, ...], str]:
    match thunk:
        case Dot():
            return ("epilogue", "gemm"), cpp_type(thunk.lhs)
        case Convolution():
            sources = ("convolution_depthwise", "convolution_gemm", "epilogue", "gemm")
            element = cpp_type(thunk.input)
            # Only floats: doubles are summed as the definition says.
            return (*sources, *(_TRANSFORMS if element == "float" else ())), element
        case Strips():
            return _sources(thunk.layers[0])
        case Attention():
            return ("epilogue", "gemm"), "float"
        case Pooling():
            return ("pooling",), "float"
        case Fft():
            return ("fft",), fft_type(thunk)
        case _:
            return (), ""
