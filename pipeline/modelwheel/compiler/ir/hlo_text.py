"""Reads and writes XLA's text of a module (xla/hlo/parser/hlo_parser.cc): what XLA dumps, and what tests paste.

    HloModule scaled

    ENTRY main {
      x = f32[2,3]{1,0} parameter(0)
      half = f32[] constant(0.5)
      halves = f32[2,3]{1,0} broadcast(half), dimensions={}
      ROOT y = f32[2,3]{1,0} multiply(x, halves)
    }

Names may begin with `%`, operands may have their shapes before them, and a shape without a layout is row-major. Attributes
that `hlo.Instruction` does not have are skipped, and not written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping

from ...dtypes import ElementType
from ...errors import UnsupportedProgramError
from . import hlo_attributes as a
from .hlo import PRIMITIVES, Computation, Instruction, Module, Scalar, Shape

_HEADER = re.compile(r"HloModule\s+([^\s,]+)")
_COMPUTATION = re.compile(r"(ENTRY\s+)?%?([\w.\-]+)\s*(\(.*\)\s*->.*)?\{$")
_INSTRUCTION = re.compile(r"(ROOT\s+)?%?([\w.\-]+) = (.*)$")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_SHAPE = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{([^}]*)\})?")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_OPERAND = re.compile(r"%?([\w.\-]+)$")

_OPEN, _CLOSED = "([{", ")]}"


def read_text(text: str) -> Module:
    """The module of a text.

    Raises:
        UnsupportedProgramError: It is not XLA's text of a module.
    """
    header = _HEADER.search(text)
    computations: dict[str, Computation] = {}
    entry = None
    for name, is_entry, lines in _bodies(text):
        computations[name] = _computation(name, lines, computations)
        entry = computations[name] if is_entry else entry
    if not computations:
        raise UnsupportedProgramError("the text has no computation")
    sequence = tuple(computations.values())
    return Module(header[1] if header else "", sequence, entry or sequence[-1])


def _bodies(text: str) -> Iterator[tuple[str, bool, list[str]]]:
    """The name of each computation, whether it is the entry, and its lines."""
    head: re.Match[str] | None = None
    lines: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if head is None:
            head, lines = _COMPUTATION.match(line), []
        elif line.startswith("}"):
            yield head[2], bool(head[1]), lines
            head = None
        elif line and not line.startswith("//"):
            lines.append(line)
    if head is not None:
        raise UnsupportedProgramError(f"the computation {head[2]!r} has no end")


def _computation(
    name: str, lines: list[str], computations: Mapping[str, Computation]
) -> Computation:
    instructions: dict[str, Instruction] = {}
    root = None
    for line in lines:
        match = _INSTRUCTION.match(line)
        if match is None:
            raise UnsupportedProgramError(f"the line {line!r} is not an instruction")
        instruction = _instruction(match[2], match[3], instructions, computations)
        instructions[instruction.name] = instruction
        root = instruction if match[1] else root
    if not instructions:
        raise UnsupportedProgramError(f"the computation {name!r} has no instruction")
    sequence = tuple(instructions.values())
    return Computation(name, sequence, root or sequence[-1])


def _instruction(
    name: str,
    text: str,
    instructions: Mapping[str, Instruction],
    computations: Mapping[str, Computation],
) -> Instruction:
    shape, position = _shape_at(text, 0)
    match = _OPCODE.match(text, position)
    if match is None:
        raise UnsupportedProgramError(f"the instruction {name!r} has no operation")
    opcode, start = match[1], match.end()
    end = _closing(text, start - 1)
    inside = text[start:end]
    attributes = dict(_attribute(part) for part in _split(text[end + 1 :].lstrip(" ,")))
    operands = () if opcode in ("parameter", "constant") else _operands(name, inside, instructions)
    return Instruction(
        name=name,
        opcode=opcode,
        shape=shape,
        operands=operands,
        parameter_number=int(inside) if opcode == "parameter" else 0,
        value=_value(inside, shape) if opcode == "constant" else None,
        called=a.called_of(attributes, computations),
        dimensions=a.dimensions_of(attributes),
        tuple_index=int(attributes["index"]) if opcode == "get-tuple-element" else 0,
        direction=attributes["direction"] if opcode == "compare" else "",
        comparison=a.comparison_of(attributes, operands) if opcode == "compare" else "",
        slices=a.slices_of(attributes),
        slice_sizes=a.slice_sizes_of(attributes),
        padding=a.padding_of(attributes),
        window=a.window_of(attributes),
        dot=a.dot_of(attributes) if opcode == "dot" else None,
        convolution=a.convolution_of(attributes) if opcode == "convolution" else None,
        gather=a.gather_of(attributes) if opcode == "gather" else None,
        feature_groups=int(attributes.get("feature_group_count", 1)),
        batch_groups=int(attributes.get("batch_group_count", 1)),
        op_name=a.op_name_of(attributes),
    )


def _operands(
    name: str, text: str, instructions: Mapping[str, Instruction]
) -> tuple[Instruction, ...]:
    operands = []
    for part in _split(_COMMENT.sub("", text)):
        match = _OPERAND.search(part)
        if match is None or match[1] not in instructions:
            raise UnsupportedProgramError(f"the operand {part!r} of {name!r} is not known")
        operands.append(instructions[match[1]])
    return tuple(operands)


def _attribute(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


def _split(text: str) -> list[str]:
    """The parts of a text between commas that are in no brackets or quotes."""
    parts: list[str] = []
    start = position = 0
    while position < len(text):
        if text[position] in _OPEN or text[position] == '"':
            position = _closing(text, position)
        elif text[position] == ",":
            parts.append(text[start:position].strip())
            start = position + 1
        position += 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _closing(text: str, position: int) -> int:
    """Where the bracket or quote at a position is closed."""
    depth = 0
    quoted = False
    while position < len(text):
        character = text[position]
        if quoted:
            position += character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSED:
            depth -= 1
        if depth == 0 and not quoted:
            return position
        position += 1
    raise UnsupportedProgramError(f"a bracket in {text!r} is not closed")


# --- shapes and constants -------------------------------------------------------------------------


def _shape_of(text: str) -> Shape:
    """A shape: `f32[2,3]{1,0}`, or `(f32[2], s32[])`."""
    return _shape_at(text, 0)[0]


def _shape_at(text: str, position: int) -> tuple[Shape, int]:
    """The shape that begins at a position, and where it ends."""
    if text[position] == "(":
        end = _closing(text, position)
        parts = _split(_COMMENT.sub("", text[position + 1 : end]))
        return Shape("tuple", tuple_shapes=tuple(map(_shape_of, parts))), end + 1
    match = _SHAPE.match(text, position)
    if match is None:
        raise UnsupportedProgramError(f"{text[position:]!r} does not begin with a shape")
    # A dimension may be dynamic: `<=4`.
    dimensions = tuple(int(part.strip().removeprefix("<=")) for part in match[2].split(",") if part)
    layout = match[3]
    # Tiles and memory spaces follow the axes.
    axes = None if layout is None else layout.partition(":")[0]
    order = (
        reversed(range(len(dimensions)))
        if axes is None
        else map(int, filter(None, axes.split(",")))
    )
    return Shape(match[1], dimensions, tuple(order)), match.end()


def shape_text(shape: Shape) -> str:
    """A shape as XLA writes it."""
    if shape.primitive == "tuple":
        return f"({', '.join(map(shape_text, shape.tuple_shapes))})"
    order = ",".join(map(str, shape.minor_to_major))
    layout = f"{{{order}}}" if order else ""
    return f"{shape.primitive}[{','.join(map(str, shape.dimensions))}]{layout}"


def _value(text: str, shape: Shape) -> Scalar | None:
    """The element of a constant that has only one."""
    if shape.elements != 1 or shape.primitive not in PRIMITIVES:
        return None
    number = text.strip("{} ")
    match PRIMITIVES[shape.primitive]:
        case ElementType.BOOL:
            return number in ("true", "1")
        case ElementType.COMPLEX64 | ElementType.COMPLEX128:
            real, imaginary = number.strip("()").split(",")
            return complex(float(real), float(imaginary))
        case ElementType.FLOAT32:
            return float(struct.unpack("<f", struct.pack("<f", float(number)))[0])
        case ElementType.FLOAT64 | ElementType.FLOAT16 | ElementType.BFLOAT16:
            return float(number)
        case _:
            return int(number)


def _value_text(instruction: Instruction) -> str:
    value = instruction.value
    if value is None:
        return "{...}"
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, complex):
        text = f"({value.real:g}, {value.imag:g})"
    elif isinstance(value, float):
        text = f"{value:.9g}" if instruction.shape.primitive == "f32" else repr(value)
    else:
        text = str(value)
    rank = instruction.shape.rank
    return "{" * rank + text + "}" * rank


# --- writing --------------------------------------------------------------------------------------


def write_text(module: Module) -> str:
    """The module as text, from which `read_text` makes an equal one."""
    computations = (
        _computation_text(computation, is_entry=computation is module.entry)
        for computation in module.computations
    )
    return "\n\n".join((f"HloModule {module.name}", *computations)) + "\n"


def _computation_text(computation: Computation, *, is_entry: bool) -> str:
    lines = (
        f"  {'ROOT ' if instruction is computation.root else ''}{instruction_text(instruction)}"
        for instruction in computation.instructions
    )
    head = f"{'ENTRY ' if is_entry else ''}%{computation.name} {{"
    return "\n".join((head, *lines, "}"))


def instruction_text(instruction: Instruction) -> str:
    """An instruction as a line."""
    inside = ", ".join(f"%{operand.name}" for operand in instruction.operands)
    if instruction.opcode == "parameter":
        inside = str(instruction.parameter_number)
    elif instruction.opcode == "constant":
        inside = _value_text(instruction)
    call = f"{shape_text(instruction.shape)} {instruction.opcode}({inside})"
    attributes = (f"{name}={value}" for name, value in a.written_attributes(instruction))
    return f"%{instruction.name} = {', '.join((call, *attributes))}"
