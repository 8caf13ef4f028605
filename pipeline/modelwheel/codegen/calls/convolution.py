"""Convolutions."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Convolution
from ...program.spatial_axes import SpatialExtents, axes_in_use
from ...program.steps import Step
from ..cpp import cpp_type
from ..library import compiled
from ..strides import ProductViews, is_of_bytes
from ..tables import convolution_values
from ..writer import StepWriter
from .first_rows import of_images
from .products import ProductKernel, packed, write_product

_TRANSFORMS = ("decomposed", "winograd")
"""The kernels of convolutions by transforms, which are for floats alone."""


def write(writer: StepWriter, step: Step, op: Convolution) -> Iterator[str]:
    """A call of `convolution_by`."""
    values = convolution_values(
        step, op, axes_in_use([SpatialExtents.of(op, step)]), packed(writer, step)
    )
    table = writer.table("Convolution", values)
    parts = writer.parts(step)
    if is_of_bytes(step):
        types = ", ".join(map(cpp_type, (step.inputs["input"], step.outputs["out"])))
        kernel = ProductKernel(
            "bytes", "byte_convolution", types, f"<{types}>", table, padding=op.padding
        )
        return write_product(writer, step, of_images(writer, step, kernel), None, parts)
    types = cpp_type(ProductViews.of(step).sums)
    if types in ("float", "double"):
        use_lines(writer, types, table)
    # The C++ compiler chooses how a convolution is computed: the library has no other kernels for it.
    suffix = f"_by<{types}, method_of<{types}>({table})>"
    kernel = ProductKernel("convolution", "convolution", types, suffix, table)
    return write_product(writer, step, of_images(writer, step, kernel), op.epilogue, parts)


def use_lines(writer: StepWriter, element: str, table: str) -> None:
    """Notes the kernels of matrix products that a convolution calls."""
    writer.headers.add("convolution/convolution.h")
    writer.use(element)
    writer.use(element, f"line_uses<{element}>({table})")


def library(step: Step) -> Iterator[str]:
    """Kernels of its element type. Doubles are summed as the definition says."""
    if is_of_bytes(step):
        return compiled("float")
    element = cpp_type(step.inputs["input"])
    transforms = _TRANSFORMS if element == "float" else ()
    sources = ("depthwise", "epilogue", "gemm", "windows")
    return compiled(element, *sources, *transforms)
