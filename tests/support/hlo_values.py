"""The values of HLO instructions, computed with NumPy: of row-major arrays of 32-bit floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from modelwheel.compiler.ir.hlo import Instruction

Floats: TypeAlias = NDArray[np.float32]

_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "maximum": np.maximum,
    "multiply": np.multiply,
    "negate": np.negative,
    "tanh": np.tanh,
}


def value_of(instruction: Instruction, operands: Sequence[bytes]) -> bytes:
    """The value of an instruction outside of fusions, from those of its operands."""
    arrays = [
        np.frombuffer(content, np.float32).reshape(operand.shape.dimensions)
        for content, operand in zip(operands, instruction.operands, strict=True)
    ]
    return _applied(instruction, arrays).astype(np.float32).tobytes()


def _applied(instruction: Instruction, operands: Sequence[Floats]) -> Floats:
    """The value of an instruction."""
    shape = instruction.shape.dimensions
    found: Any
    match instruction.opcode:
        case "fusion":
            found = _root(instruction.called_root, operands)
        case "constant":
            found = np.full(shape, instruction.value, np.float32)
        case "broadcast":
            (operand,) = operands
            axes = [n if axis in instruction.dimensions else 1 for axis, n in enumerate(shape)]
            found = np.broadcast_to(operand.reshape(axes), shape)
        case "concatenate":
            found = np.concatenate(operands, instruction.dimensions[0])
        case "bitcast":
            found = operands[0].reshape(shape)
        case "reduce-window":
            assert all(axis.size == 1 for axis in instruction.window)
            found = operands[0]
        case _:
            found = _ELEMENTWISE[instruction.opcode](*operands)
    value: Floats = found
    return value


def _root(root: Instruction, parameters: Sequence[Floats]) -> Floats:
    """The value of an instruction of a fusion."""
    if root.opcode == "parameter":
        return parameters[root.parameter_number]
    return _applied(root, [_root(operand, parameters) for operand in root.operands])
