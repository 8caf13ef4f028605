"""Layers of 8-bit integers: a type with the code on their sums, and a call that computes blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...program.expr import Operation
from ...program.ops import ByteLayer, Convolution, Dot
from ...program.spatial_axes import SpatialExtents, axes_in_use
from ...program.steps import Step
from ...program.strip_layers import products
from ...program.view import View
from ..cpp import INDENT, braces, cpp_bool, elements, kernel_call, pointer, struct_of
from ..library import compiled
from ..scalars import TYPED_LANES, UNROLLED, write_expression
from ..tables import convolution_values, dot_values
from ..writer import StepWriter
from .products import packed


def write(writer: StepWriter, step: Step, op: ByteLayer) -> Iterator[str]:
    """A call of `byte_layer`, with the memory of what its code reads and writes."""
    (product,) = products(step)
    reads, written = step.inputs_of("read"), step.outputs["write"]
    name, writer.types[name] = _type(op, reads, written)
    weights = packed(writer, product)
    if isinstance(op.layer, Dot):
        table = writer.table("Dot", dot_values(product, op.layer, weights))
        axis, padding, depthwise = "&Dot::m", 0, "false"
    else:
        axes = axes_in_use([SpatialExtents.of(op.layer, product)])
        table = writer.table("Convolution", convolution_values(product, op.layer, axes, weights))
        axis, padding = "&Convolution::batch", op.layer.padding
        depthwise = cpp_bool(op.layer.feature_groups > 1)
    bytes_needed = f"byte_layer_scratch({table})"
    scratch = writer.needs("bytes/byte_layer.h", bytes_needed)
    if (parts := writer.parts(step)) > 1:
        writer.scratch.parts.append(bytes_needed)
    shape = writer.shape(step, table, axis)
    planes = [_plane(view) for view in reads]
    yield "{"
    # C++ has no empty arrays.
    yield f"{INDENT}const Plane<const char> reads[] = {braces(planes or ['{nullptr, 0}'])};"
    yield f"{INDENT}const Plane<char> write = {_plane(written)};"
    source, kernel = elements(step.inputs["input"]), elements(step.inputs["kernel"])
    call = kernel_call("byte_layer", f"<{name}, {depthwise}>", parts)
    yield f"{INDENT}{call}{shape}, {padding}, {source}, {kernel}, reads, write, {scratch});"
    yield "}"


def library(step: Step) -> Iterator[str]:
    """Kernels that it is linked with: filters for one feature are computed as floats."""
    assert isinstance(step.op, ByteLayer)
    layer = step.op.layer
    is_depthwise = isinstance(layer, Convolution) and layer.feature_groups > 1
    return compiled("float", *(("depthwise", "epilogue") if is_depthwise else ()))


def _plane(view: View) -> str:
    """The first row, and bytes from one to the next."""
    size = view.element_type.item_bytes
    start = f" + {view.start * size}" if view.start else ""
    return braces([f"{pointer(view.slice)}{start}", view.strides[0] * size])


def _type(op: ByteLayer, reads: Sequence[View], written: View) -> tuple[str, str]:
    """The name of a step's type and its definition: equal for equal code, whatever the rows and the memory."""
    views = [None, *reads]

    def leaf(operation: Operation) -> str:
        element = operation.element_type.kernel_type
        if operation.opcode == "constant":
            value = (
                f"{operation.value!r}F" if element == "float" else f"{int(operation.value or 0)}"
            )
            return f"splat<{element}, Lanes>({value})"
        view = views[operation.input]
        place = f"reinterpret_cast<const {element} *>(in[{operation.input}])"
        if view is not None and view.strides[1] == 0:
            return f"splat<{element}, Lanes>(*{place})"
        return f"load<{element}, Lanes>({place} + j + k * Lanes)"

    code = write_expression(op.code, TYPED_LANES, leaf)
    (result,) = code.results
    element = written.element_type.kernel_type
    place = f"reinterpret_cast<{element} *>(out)"
    lines = [*code.lines, f"{UNROLLED} store<{element}, Lanes>({place} + j + k * Lanes, {result});"]
    body = "".join(f"    {line}\n" for line in lines)
    text = (
        f"  static constexpr int kReads = {len(reads)}, kColumns = {written.shape[1]};\n"
        "  template <int Lanes, int Count>\n"
        "  MODELWHEEL_INLINE static void at(const char *const *in, char *out, std::int64_t j) {\n"
        f"{body}  }}\n"
    )
    return struct_of("ByteLayer", text)
