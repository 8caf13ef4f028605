"""Writes the code of masks as C++: a type with one function of straight-line operations on an element."""

from __future__ import annotations

from collections.abc import Iterator

from ..dtypes import ElementType
from ..program.masks import MaskCode, MaskOperation
from .expressions import braces, struct_of

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def mask_type(code: MaskCode) -> tuple[str, str]:
    """The name of a mask's type and its definition: the same for the same code, wherever the memory is."""
    body = "".join(f"    {line}\n" for line in _lines(code))
    result, nothing = ("std::int32_t", -1) if code.is_condition else ("float", 0)
    text = (
        f"  using Result = {result};\n"
        f"  static constexpr Result kNothing = {nothing};\n"
        "  static Result at([[maybe_unused]] const void *const *in, [[maybe_unused]] const Place &p) {\n"
        f"{body}  }}\n"
    )
    return struct_of("Mask", text)


def _lines(code: MaskCode) -> Iterator[str]:
    for number, operation in enumerate(code.operations):
        kind = operation.element_type.kernel_type
        yield f"const {kind} v{number} = {_expression(operation, kind)};"
    last = f"v{len(code.operations) - 1}"
    yield f"return {last} ? -1 : 0;" if code.is_condition else f"return {last};"


def _expression(operation: MaskOperation, kind: str) -> str:
    values = [f"v{number}" for number in operation.operands]
    place = f"place_of({braces([operation.start, *operation.steps])}, p)"
    match operation.opcode:
        case "read" if operation.element_type == ElementType.BOOL:
            return f"static_cast<const std::uint8_t *>(in[{operation.number}])[{place}] != 0"
        case "read":
            return f"static_cast<const {kind} *>(in[{operation.number}])[{place}]"
        case "index":
            return f"static_cast<{kind}>({place})"
        case "constant":
            return _constant(operation, kind)
        case "convert":
            return f"static_cast<{kind}>({values[0]})"
        case "negate":
            return f"negated({values[0]})"
        case "and" | "or":
            return f" {'&&' if operation.opcode == 'and' else '||'} ".join(values)
        case "not":
            return f"!{values[0]}"
        case "select":
            return f"{values[0]} ? {values[1]} : {values[2]}"
        case "add" | "subtract" | "multiply":
            return f"{operation.opcode}_wrapped({', '.join(values)})"
        case opcode:
            return f" {_COMPARISONS[opcode]} ".join(values)


def _constant(operation: MaskOperation, kind: str) -> str:
    if operation.value is None:
        return "-__builtin_inff()"
    if operation.element_type == ElementType.FLOAT32:
        return f"{operation.value!r}F"
    return f"static_cast<{kind}>({int(operation.value)})"
