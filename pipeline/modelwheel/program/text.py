"""The text of a program: a line for each step, those of loops and branches indented.

    a0 parameter 0, 256 bytes
    a1 constant 1a2b3c4d5e6f, 512 bytes, f32[16,8]
    a2 output, 128 bytes

    a2 f32[4,8] = dot a0 f32[4,16], a1 f32[16,8] {lhs_contracting=[1], rhs_contracting=[0]}  # dense/MatMul

An operand is its place and its type: the allocation, the byte where it begins (left out at 0), in a loop how many bytes
further it begins in each iteration; shape, and strides in elements unless it is row-major. Operands that a step need not
have are named. The text is for people and tests; `program.json` has all of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ..dtypes import ElementType
from ..util.records import JsonRecord
from .arrays import Allocation, ArrayShape, Slice
from .expr import Expression, Operation
from .ops import AnyOp, Role
from .program import Program
from .steps import Step, role_of
from .view import View

_INDENT = "  "

T = TypeVar("T")


def text_of(program: Program) -> str:
    """All of a program, with a line feed at the end."""
    head = [f"program for {program.cpu or 'any CPU'} on {program.triple}"]
    allocations = [_allocation(a) for a in program.allocations if a.index in _mentioned(program)]
    results = [
        f"result {number} = {place_and_type(view)}" for number, view in enumerate(program.results)
    ]
    state = [
        f"state {number} = {'unchanged' if update is None else f'result {update}'}"
        for number, update in enumerate(program.state, len(program.inputs))
    ]
    parts = (head, allocations, [*lines_of(program.steps)], [*results, *state])
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _mentioned(program: Program) -> set[int]:
    views = [*program.parameters, *program.results]
    return {*program.used_allocations, *(view.slice.allocation for view in views)}


def lines_of(steps: Iterable[Step], depth: int = 0) -> Iterator[str]:
    """A line for each step, and for the name of each region."""
    for step in steps:
        yield _INDENT * depth + step_line(step)
        for name, region in zip(
            region_names(step.op, len(step.regions)), step.regions, strict=True
        ):
            if region:
                yield _INDENT * (depth + 1) + f"{name}:"
                yield from lines_of(region, depth + 2)


def step_line(step: Step) -> str:
    """One step, without those inside of it."""
    outputs = named_operands(step.op.OUTPUTS, step.outputs, place_and_type)
    inputs = named_operands(step.op.INPUTS, step.inputs, place_and_type)
    return line(outputs, step.op, inputs, step.origin)


def line(outputs: str, op: AnyOp, inputs: str, origin: str) -> str:
    """The line of an operation, from the texts of its operands."""
    left = f"{outputs} = " if outputs else ""
    right = " ".join(filter(None, (op.kind, inputs, attributes(op))))
    return f"{left}{right}" + (f"  # {origin}" if origin else "")


def named_operands(
    roles: Iterable[Role], operands: Mapping[str, T], shown: Callable[[T], str]
) -> str:
    """Operands in order; those of optional roles with their names, such as `bias=...`."""
    optional = {role.name for role in roles if role.optional}
    return ", ".join(
        f"{name}={shown(operand)}" if role_of(name) in optional else shown(operand)
        for name, operand in operands.items()
    )


def region_names(op: AnyOp, count: int) -> list[str]:
    """The names of the regions of a step: `condition`, `body`, or `branch 0`, `branch 1`."""
    names = op.REGIONS
    return list(names) if len(names) == count else [f"{names[0]} {n}" for n in range(count)]


# --- operands -----------------------------------------------------------------------------------------


def place_and_type(view: View) -> str:
    """A view in the memory of a program: `a5+64 f32[4,8]`."""
    return f"{_place(view.slice)} {type_of(view)}"


def _place(part: Slice) -> str:
    offset = f"+{part.offset}" if part.offset else ""
    step = f"{part.step:+}i" if part.step else ""
    return f"a{part.allocation}{offset}{step}"


def type_of(view: View) -> str:
    """The element type and shape of a view: `f32[4,8]`, and its strides if it is not row-major: `f32[4,8]{1,4}`."""
    start = f"@{view.start}" if view.start else ""
    strides = "" if view.is_row_major() else "{" + ",".join(map(str, view.strides)) + "}"
    return f"{short_name(view.element_type)}[{','.join(map(str, view.shape))}]{strides}{start}"


def short_name(element: ElementType) -> str:
    """An element type as XLA's text has it: `f32`, `s8`, `pred`."""
    name = element.dtype
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "s")):
        if name.startswith(long):
            return short + name.removeprefix(long)
    return {"bool": "pred", "complex64": "c64", "complex128": "c128"}[name]


def _allocation(allocation: Allocation) -> str:
    kind = str(allocation.kind).replace("_", " ")
    if allocation.parameter is not None:
        kind += f" {allocation.parameter}"
    if allocation.sha256:
        kind += f" {allocation.sha256[:12]}"
    array = f", {_shape(allocation.array)}" if allocation.array else ""
    return f"a{allocation.index} {kind}, {allocation.size} bytes{array}"


def _shape(array: ArrayShape) -> str:
    return f"{short_name(array.element_type)}[{','.join(map(str, array.shape))}]"


# --- attributes ---------------------------------------------------------------------------------------


def attributes(record: JsonRecord) -> str:
    """The attributes of an operation without its kind, in braces; defaults are left out."""
    shown = [
        f"{name}={_attribute(getattr(record, name))}"
        for name, field in type(record).model_fields.items()
        if name != "kind" and getattr(record, name) != field.default
    ]
    return "{" + ", ".join(shown) + "}" if shown else ""


def _attribute(value: Any) -> str:
    if isinstance(value, Expression):
        return f"({expression_text(value)})"
    if isinstance(value, JsonRecord):
        return attributes(value) or "{}"
    if isinstance(value, tuple):
        return "[" + ",".join(map(_attribute, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def expression_text(code: Expression) -> str:
    """Straight-line code as nested calls: `tanh(add(read0, 1.0))`; what is used twice is named first."""
    uses = [0] * len(code.operations)
    for number in (
        *code.results,
        *(n for operation in code.operations for n in operation.operands),
    ):
        uses[number] += 1
    texts: list[str] = []
    named: list[str] = []
    for number, operation in enumerate(code.operations):
        text = _operation(operation, texts)
        if uses[number] > 1 and operation.operands:
            named.append(f"v{number} = {text}")
            text = f"v{number}"
        texts.append(text)
    return "; ".join([*named, ", ".join(texts[number] for number in code.results)])


def _operation(operation: Operation, texts: list[str]) -> str:
    if operation.opcode == "read":
        return f"read{operation.input}"
    if operation.opcode == "constant":
        return "-inf" if operation.value is None else repr(operation.value)
    if operation.opcode == "index":
        return f"index({operation.start}, {list(operation.strides)})"
    operands = ", ".join(texts[number] for number in operation.operands)
    name = (
        f"convert_{short_name(operation.element_type)}"
        if operation.opcode == "convert"
        else operation.opcode
    )
    return f"{name}({operands})"
