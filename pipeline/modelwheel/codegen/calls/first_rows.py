"""Products and convolutions of the first rows of a batch: as many as are asked for."""

from __future__ import annotations

from dataclasses import replace

from ...program.steps import Step
from ..cpp import braces
from ..writer import StepWriter
from .products import ProductKernel, packed

_ROW_COUNTS = 64
"""The most numbers of rows for which a product is compiled,"""
_COLUMNS = 1 << 15
"""and the most columns of all of them together: compilers limit what they compute for one constant."""
_BYTES = "std::int8_t, std::int32_t"
"""The types of products of bytes and of their sums, which have no order."""


def of_rows(
    writer: StepWriter, step: Step, kernel: ProductKernel, axis: str, columns: int, added: str
) -> ProductKernel:
    """The kernel of a product, for the first rows if the step may have fewer.

    Args:
        writer: Gets what the C++ compiler finds out.
        step: The step.
        kernel: That of all rows.
        axis: In C++, the member of the table that they are along (`&Dot::m`).
        columns: The columns of the result, which the C++ compiler goes through for each number of rows.
        added: In C++, whether the result may replace what is added to it.
    """
    weights = packed(writer, step)
    # Rows of weights are none of a batch.
    if not _may_have_fewer(writer, step, kernel) or (weights and weights.on_left):
        return kernel
    writer.headers.add("gemm/first_rows.h")
    groups = writer.first.groups(step)
    if groups > 1:
        axis = f"Groups{{{groups}}}"
    most = max(min(_ROW_COUNTS, _COLUMNS // columns), 1)
    counts = braces([writer.batch, -(-writer.batch // most)])
    whole = f"{kernel.table}, {axis}, {counts}"
    least = writer.constant(
        "std::int64_t", f"least_rows<{kernel.types.partition(',')[0]}>({whole})"
    )
    bytes_of = f"[](const Dot &some) {{ return {kernel.scratch_of('some')}; }}"
    scratch = writer.constant("std::size_t", f"scratch_of_rows({whole}, {least}, {bytes_of})")
    if kernel.types != _BYTES:
        writer.use(kernel.types, f"dot_rows_uses<{kernel.types}>({whole}, {least}, {added})")
    rows = f"rounded_rows({counts}, {least}, rows)"
    return _smaller(writer, step, kernel, writer.shape(step, kernel.table, axis, rows), scratch)


def of_images(writer: StepWriter, step: Step, kernel: ProductKernel) -> ProductKernel:
    """The kernel of a convolution, for the first images if the step may have fewer.

    Their number changes no bits, and scratch memory for all or for a single one is enough; a test holds this.
    """
    if not _may_have_fewer(writer, step, kernel):
        return kernel
    axis = "&Convolution::batch"
    one = kernel.scratch_of(writer.shape(step, kernel.table, axis, "1"))
    scratch = writer.constant("std::size_t", f"larger({kernel.scratch_of(kernel.table)}, {one})")
    return _smaller(writer, step, kernel, writer.shape(step, kernel.table, axis), scratch)


def of_any_rows(writer: StepWriter, step: Step, kernel: ProductKernel) -> ProductKernel:
    """The kernel of a product whose rows do not depend on each other, and whose scratch memory for all is enough for fewer.

    Groups of rows are computed as a whole: they would read the weights once for each.
    """
    if not _may_have_fewer(writer, step, kernel) or writer.first.groups(step) > 1:
        return kernel
    shape = writer.shape(step, kernel.table, "&Dot::m")
    return _smaller(writer, step, kernel, shape, kernel.scratch_of(kernel.table))


def _may_have_fewer(writer: StepWriter, step: Step, kernel: ProductKernel) -> bool:
    """Whether a step may compute fewer rows; other elements are computed in an order that the number decides."""
    return step in writer.first and kernel.types in ("float", "double", _BYTES)


def _smaller(
    writer: StepWriter, step: Step, kernel: ProductKernel, shape: str, scratch: str
) -> ProductKernel:
    if writer.parts(step) > 1:
        # Several threads have work for more rows, which cost next to nothing.
        shape = f"threads.count > 1 ? {kernel.table} : {shape}"
    return replace(kernel, shape=shape, most_scratch=scratch)
