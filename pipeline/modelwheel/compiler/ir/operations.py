"""How many arithmetic operations an instruction does, from its shape."""

from __future__ import annotations

import math

from .hlo import Instruction

# Opcodes that only name, shape or hold data.
_FREE = frozenset(
    {
        "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "broadcast", "iota",
        "reshape", "optimization-barrier", "after-all", "partition-id", "replica-id",
    }
)  # fmt: skip
# An estimate: the cost of a transcendental function in additions. It decides which batch sizes are
# combined where nothing was measured, so a change here changes the tables of wheels.
_TRANSCENDENTAL_OPERATIONS = 10
_TRANSCENDENTAL = frozenset(
    {
        "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "sine",
        "cosine", "tan", "power", "sqrt", "rsqrt", "cbrt", "erf", "atan2",
    }
)  # fmt: skip


def operations_of(instruction: Instruction) -> int:
    """Arithmetic operations of one run of an instruction."""
    opcode, elements = instruction.opcode, instruction.shape.elements
    if opcode in _FREE:
        return 0
    match opcode:
        case "fusion" | "call":
            return sum(
                operations_of(i) for called in instruction.called for i in called.instructions
            )
        case "dot" if instruction.dot is not None:
            lhs = instruction.operands[0].shape
            contracted = (lhs.dimensions[axis] for axis in instruction.dot.lhs_contracting)
            return 2 * elements * math.prod(contracted)
        case "convolution" if instruction.convolution is not None:
            kernel = instruction.operands[1].shape
            features = kernel.dimensions[instruction.convolution.kernel_output_feature]
            return 2 * elements * (kernel.elements // max(features, 1))
        case "reduce":
            return instruction.operands[0].shape.elements
        case "reduce-window" | "select-and-scatter":
            return elements * math.prod(axis.size for axis in instruction.window)
    return elements * (_TRANSCENDENTAL_OPERATIONS if opcode in _TRANSCENDENTAL else 1)
