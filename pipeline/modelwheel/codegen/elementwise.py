"""Writes the code of elementwise steps as C++: a type with one function of straight-line calls on vectors."""

from __future__ import annotations

from collections.abc import Iterator

from ..program.elementwise import Operation
from ..program.program import Elementwise
from .expressions import struct_of

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def elementwise_type(step: Elementwise) -> tuple[str, str]:
    """The name of a step's type and its definition: the same for the same code, whatever the rows and the memory."""
    body = "".join(f"    {line}\n" for line in _lines(step))
    numbers = {
        "kReads": len(step.reads),
        "kMasks": len(step.masks),
        "kWrites": len(step.writes),
        "kColumns": step.columns,
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


def _lines(step: Elementwise) -> Iterator[str]:
    for number in range(len(step.reads)):
        yield _each(f"v{number}", f"load<float, Lanes>(in[{number}] + j + k * Lanes)")
    for number, operation in enumerate(step.code, len(step.reads)):
        yield _each(f"v{number}", _expression(operation))
    for number, value in enumerate(step.stored):
        yield f"{_LOOP} store<float, Lanes>(out[{number}] + j + k * Lanes, v{value}[k]);"


_LOOP = "MODELWHEEL_UNROLL for (int k = 0; k < Count; ++k)"


def _each(name: str, expression: str) -> str:
    return f"Floats<Lanes> {name}[Count]; {_LOOP} {name}[k] = {expression};"


def _expression(operation: Operation) -> str:
    operands = [f"v{number}[k]" for number in operation.operands]
    match operation.opcode:
        case "constant":
            return f"splat<float, Lanes>({operation.value!r}F)"
        case "negate":
            return f"-{operands[0]}"
        case "select":
            return f"chosen<Lanes>(mask[{operation.mask}], {', '.join(operands)})"
        case "tanh" | "sigmoid" | "gated_tanh":
            return f"{operation.opcode}_of<Lanes>({', '.join(operands)})"
        case opcode:
            return f" {_INFIX[opcode]} ".join(operands)
