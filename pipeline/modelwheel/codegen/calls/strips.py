"""Strips: convolutions of each other's results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...program.ops import Strips
from ...program.spatial_axes import SpatialExtents, axes_in_use
from ...program.steps import Step
from ...program.strip_layers import products
from ..cpp import INDENT, braces, cpp_type, elements, kernel_call, pointer
from ..strides import ProductViews
from ..tables import convolution_values
from ..writer import StepWriter
from .convolution import library as library_of_convolution
from .convolution import use_lines
from .products import epilogue_members, packed


def write(writer: StepWriter, step: Step, op: Strips) -> Iterator[str]:
    """A call of `strips` with a table, weights and an epilogue for each layer."""
    layers = products(step)
    table = _table(writer, op, layers)
    source, sums = step.inputs["input"], ProductViews.of(layers[-1]).sums
    element = cpp_type(sums)
    scratch = writer.needs("convolution/strips.h", f"strips_scratch<{element}>({table})")
    for number in range(len(op.layers)):
        use_lines(writer, element, f"{table}[{number}]")
    if (parts := writer.parts(step)) > 1:
        writer.headers.add("convolution/strip_parts.h")
        writer.scratch.parts.append(f"strips_scratch<{element}>({table})")
    rows = []
    yield "{"
    for number, (convolution, layer) in enumerate(zip(op.layers, layers, strict=True)):
        name = "nullptr"
        if convolution.epilogue is not None:
            # Only the results of the last layer are in memory.
            place = ("nullptr", "nullptr")
            if layer is layers[-1]:
                place = (pointer(sums.slice), pointer(step.outputs["out"].slice))
            values = epilogue_members(layer, convolution.epilogue, element, place, overlaps=False)
            yield f"{INDENT}const Epilogue<{element}> epilogue{number} = {values};"
            name = f"&epilogue{number}"
        rows.append(braces([elements(layer.inputs["kernel"], element=element), name]))
    yield f"{INDENT}const StripLayer<{element}> layers[] = {braces(rows)};"
    images = writer.count(step, sums.shape[op.layers[-1].output_axes.batch])
    operands = [table, images, "layers", elements(source), elements(sums, written=True), scratch]
    yield f"{INDENT}{kernel_call('strips', '', parts)}{', '.join(operands)});"
    yield "}"


def _table(writer: StepWriter, op: Strips, layers: Sequence[Step]) -> str:
    pairs = list(zip(op.layers, layers, strict=True))
    axes = axes_in_use([SpatialExtents.of(convolution, layer) for convolution, layer in pairs])
    tables = [
        braces(convolution_values(layer, convolution, axes, packed(writer, layer)))
        for convolution, layer in pairs
    ]
    return writer.table("Convolution", tables, array=True)


def library(step: Step) -> Iterator[str]:
    """Kernels that each of its layers needs; all have one element type."""
    return library_of_convolution(products(step)[0])
