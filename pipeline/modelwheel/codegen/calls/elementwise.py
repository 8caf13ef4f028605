"""Elementwise steps: a type with one function of operations on vectors, and a call for all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...dtypes import ElementType
from ...program.expr import Operation
from ...program.ops import Elementwise
from ...program.steps import Step
from ...program.view import View
from ..cpp import INDENT, braces, first_element, float_or_infinity, struct_of
from ..scalars import LANES, UNROLLED, write_expression
from ..writer import StepWriter


def write(writer: StepWriter, step: Step, op: Elementwise) -> Iterator[str]:
    """A call of `elementwise`, with the memory of what is read, of conditions and of what is written."""
    reads, writes = step.inputs_of("read"), step.outputs_of("write")
    name, writer.types[name] = _type(op, reads, writes)
    writer.headers.add("elementwise/elementwise.h")
    floats, conditions = _by_type(reads)
    yield "{"
    yield _planes("reads", [reads[number] for number in floats], "float")
    yield _planes("masks", [reads[number] for number in conditions], "char")
    yield _planes("writes", writes, "float", written=True)
    rows, _ = writes[0].shape
    yield f"{INDENT}elementwise<{name}>({writer.count(step, rows)}, reads, masks, writes);"
    yield "}"


def _by_type(reads: Sequence[View]) -> tuple[list[int], list[int]]:
    """The numbers of the inputs that are floats, and of those that are conditions."""
    floats: list[int] = []
    conditions: list[int] = []
    for number, view in enumerate(reads):
        (conditions if view.element_type == ElementType.BOOL else floats).append(number)
    return floats, conditions


def _planes(name: str, views: Sequence[View], element: str, *, written: bool = False) -> str:
    planes = [
        braces([first_element(view, element=element, written=written), view.strides[0]])
        for view in views
    ]
    # C++ has no empty arrays.
    values = braces(planes or ["{nullptr, 0}"])
    return f"{INDENT}const Plane<{'' if written else 'const '}{element}> {name}[] = {values};"


def _type(op: Elementwise, reads: Sequence[View], writes: Sequence[View]) -> tuple[str, str]:
    """The name of a step's type and its definition: equal for equal code, whatever the rows and the memory."""
    floats, conditions = _by_type(reads)

    def leaf(operation: Operation) -> str:
        if operation.opcode == "constant":
            return f"splat<float, Lanes>({float_or_infinity(operation.value)})"
        number = operation.input
        if number in conditions:
            return f"mask[{conditions.index(number)}]"
        return f"load<float, Lanes>(in[{floats.index(number)}] + j + k * Lanes)"

    code = write_expression(op.code, LANES, leaf)
    stores = (
        f"{UNROLLED} store<float, Lanes>(out[{number}] + j + k * Lanes, {value});"
        for number, value in enumerate(code.results)
    )
    body = "".join(f"    {line}\n" for line in (*code.lines, *stores))
    _, columns = writes[0].shape
    numbers = {
        "kReads": len(floats),
        "kMasks": len(conditions),
        "kWrites": len(writes),
        "kColumns": columns,
    }
    constants = ", ".join(f"{name} = {value}" for name, value in numbers.items())
    text = (
        f"  static constexpr int {constants};\n"
        "  template <int Lanes, int Count>\n"
        "  MODELWHEEL_INLINE static void at(const float *const *in, "
        "[[maybe_unused]] const std::int32_t *mask, float *const *out, std::int64_t j) {\n"
        f"{body}  }}\n"
    )
    return struct_of("Elementwise", text)
