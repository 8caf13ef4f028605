"""Masks of attention: a type with one function of scalar operations, and a call for all scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...dtypes import ElementType
from ...program.expr import Operation
from ...program.ops import Mask
from ...program.steps import Step
from ...program.view import View
from ..cpp import INDENT, braces, elements, float_or_infinity, pointer, struct_of
from ..scalars import SCALARS, write_expression
from ..writer import StepWriter


def write(writer: StepWriter, step: Step, op: Mask) -> Iterator[str]:
    """A call of `compute_mask`."""
    views, output = step.inputs_of("read"), step.outputs["output"]
    memory = _memory(views)
    name, writer.types[name] = _type(op, views, memory)
    writer.headers.add("attention/mask.h")
    # C++ has no empty arrays.
    addresses = [pointer(view.slice) for view in memory] or ["nullptr"]
    yield f"{{ const void *const in[] = {braces(addresses)};"
    result = "std::int32_t" if op.code.is_condition else "float"
    row_stride = output.strides[2]
    table = writer.table("MaskShape", [*output.shape, row_stride])
    target = elements(output, written=True, element=result)
    yield f"{INDENT}compute_mask<{name}>({table}, in, {target}); }}"


def _memory(views: Sequence[View]) -> list[View]:
    """One of the views for each memory that is read as one type: several may have their own order of elements."""
    return list({_key(view): view for view in views}.values())


def _key(view: View) -> tuple[object, ...]:
    return view.slice, view.element_type


def _type(op: Mask, views: Sequence[View], memory: Sequence[View]) -> tuple[str, str]:
    """The name of a mask's type and its definition: equal for equal code, wherever the memory is."""
    numbers = {_key(view): number for number, view in enumerate(memory)}

    def leaf(operation: Operation) -> str:
        kind = operation.element_type.kernel_type
        if operation.opcode == "constant":
            return _constant(operation, kind)
        if operation.opcode == "index":
            return f"static_cast<{kind}>({_place(operation.start, operation.strides)})"
        view = views[operation.input]
        read = f"(in[{numbers[_key(view)]}])[{_place(view.start, view.strides)}]"
        if operation.element_type == ElementType.BOOL:
            return f"static_cast<const std::uint8_t *>{read} != 0"
        return f"static_cast<const {kind} *>{read}"

    code = write_expression(op.code, SCALARS, leaf)
    (value,) = code.results
    result, nothing = ("std::int32_t", -1) if op.code.is_condition else ("float", 0)
    returned = f"{value} ? -1 : 0" if op.code.is_condition else value
    body = "".join(f"    {line}\n" for line in (*code.lines, f"return {returned};"))
    text = (
        f"  using Result = {result};\n"
        f"  static constexpr Result kNothing = {nothing};\n"
        "  static Result at([[maybe_unused]] const void *const *in, [[maybe_unused]] const Place &p) {\n"
        f"{body}  }}\n"
    )
    return struct_of("Mask", text)


def _place(start: int, strides: Sequence[int]) -> str:
    return f"place_of({braces([start, *strides])}, p)"


def _constant(operation: Operation, kind: str) -> str:
    if operation.value is None or operation.element_type == ElementType.FLOAT32:
        return float_or_infinity(operation.value)
    return f"static_cast<{kind}>({int(operation.value)})"
