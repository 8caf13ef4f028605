"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import UnsupportedProgramError
from ...program.ops import Dot
from ...program.steps import Step
from ..cpp import cpp_bool, cpp_type
from ..library import compiled
from ..strides import ProductViews, dot_axes
from ..tables import dot_values
from ..writer import StepWriter
from .first_rows import of_any_rows, of_rows
from .products import ProductKernel, packed, write_product


def write(writer: StepWriter, step: Step, op: Dot) -> Iterator[str]:
    """A call of `dot`.

    Raises:
        UnsupportedProgramError: The factors have different element types.
    """
    lhs, rhs, out = map(cpp_type, ProductViews.of(step))
    # The result may have another type than the factors (float for bfloat16), but the kernels have one
    # type for both.
    if lhs != rhs:
        raise UnsupportedProgramError(f"a matrix product of {lhs} by {rhs} is not supported")
    types = lhs if lhs == out else f"{lhs}, {out}"
    weights = packed(writer, step)
    table = writer.table("Dot", dot_values(step, op, weights))
    parts = writer.parts(step)
    if weights and weights.halved:
        kernel = ProductKernel("gemm", "bf16_dot", types, f"<{types}>", table, weights="BF16")
        return write_product(writer, step, of_any_rows(writer, step, kernel), op.epilogue, parts)
    # A result may replace what is added to it.
    added = cpp_bool("addend" in step.inputs)
    if types in ("float", "double"):
        use = f"dot_uses<{types}>({table}, {added})"
        if parts > 1:
            use = f"dot_part_uses<{types}>({table}, {parts}, {added})"
        writer.use(types, use)
    kernel = ProductKernel("gemm", "dot", types, f"<{types}>", table)
    axis = "&Dot::batch" if op.lhs_batch else "&Dot::m"
    _, rows, columns = (one.size for one in dot_axes(step, op).out)
    kernel = of_rows(writer, step, kernel, axis, rows if columns == 1 else columns, added)
    return write_product(writer, step, kernel, op.epilogue, parts)


def library(step: Step) -> Iterator[str]:
    """Kernels of the element type of the factors."""
    return compiled(cpp_type(step.inputs["lhs"]), "epilogue", "gemm")
