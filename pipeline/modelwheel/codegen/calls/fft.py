"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import ElementType
from ...errors import UnsupportedProgramError
from ...program.ops import Fft
from ...program.steps import Step
from ..cpp import pointer, spatial
from ..library import compiled
from ..writer import StepWriter


def write(writer: StepWriter, step: Step, op: Fft) -> Iterator[str]:
    """A call of `fft`.

    Raises:
        UnsupportedProgramError: One of the arrays is transposed.
    """
    element = _element(step)
    table = writer.table("Fft", _values(step, op))
    scratch = writer.needs("fft/fft.h", f"fft_scratch<{element}>({table})")
    source, target = step.inputs["input"].slice, step.outputs["output"].slice
    yield f"fft<{element}>({table}, {pointer(source)}, {pointer(target)}, {scratch});"


def _values(step: Step, op: Fft) -> list[object]:
    """The members of an `Fft` of the kernels."""
    # `lengths` are those of the real side: the last axis of the complex side has only n / 2 + 1 elements.
    real = step.inputs["input"] if op.fft_type == "rfft" else step.outputs["output"]
    rank = len(op.lengths)
    batch = real.elements
    for extent in real.shape[len(real.shape) - rank :]:
        batch //= max(extent, 1)
    if not all(view.is_row_major() for view in step.views):
        raise UnsupportedProgramError(
            "a Fourier transform over a transposed array is not supported"
        )
    return [f"FftType::k{op.fft_type.capitalize()}", batch, rank, spatial(op.lengths)]


def _element(step: Step) -> str:
    """The C++ type of its numbers, or of the parts of complex ones."""
    double = {ElementType.FLOAT64, ElementType.COMPLEX128}
    return "double" if double & {view.element_type for view in step.views} else "float"


def library(step: Step) -> Iterator[str]:
    """Kernels of its numbers."""
    return compiled(_element(step), "fft")
