"""The HLO module of a compiled program (xla/service/hlo.proto): where results are, what thunks cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ...dtypes import ELEMENT_TYPES
from ...errors import UnsupportedProgramError
from ...program.arrays import Slice
from .thunks import Array

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


class HloModule:
    """Look-ups in an `xla.HloModuleProto`."""

    def __init__(self, proto: Any) -> None:
        self._computations = {computation.id: computation for computation in proto.computations}
        self._entry = self._computations[proto.entry_computation_id]
        self._instructions = {i.id: i for c in proto.computations for i in c.instructions}

    @property
    def root(self) -> Any:
        """The instruction whose value is the module's result."""
        return self._instructions[self._entry.root_id]

    @property
    def parameter_shapes(self) -> tuple[Any, ...]:
        """Shapes of the entry computation's parameters."""
        return tuple(self._entry.program_shape.parameters)

    @property
    def result_shapes(self) -> tuple[Any, ...]:
        """Shapes of the elements of the result tuple."""
        return tuple(self._entry.program_shape.result.tuple_shapes)

    @property
    def constants(self) -> list[Any]:
        """The instructions that hold data."""
        return [i for i in self._instructions.values() if i.opcode == "constant"]

    def resolve(
        self,
        instruction: Any,
        index: tuple[int, ...],
        where: Mapping[tuple[int, tuple[int, ...]], Slice],
    ) -> Slice:
        """The memory of the value of `instruction` at tuple position `index`.

        XLA's buffer aliases usually omit the elements of the root tuple, so this follows
        instructions that only forward a value until it finds one that owns a buffer.
        """
        while (instruction.id, index) not in where:
            match instruction.opcode:
                case "tuple":
                    operand, index = index[0], index[1:]
                case "get-tuple-element":
                    operand, index = 0, (instruction.tuple_index, *index)
                # A loop keeps its state in the buffers of its operand.
                case "bitcast" | "while" | "optimization-barrier" | "add-dependency":
                    operand = 0
                case "call" | "conditional":
                    # All branches of a conditional write the same buffer: the first will do.
                    called = self._computations[instruction.called_computation_ids[0]]
                    instruction = self._instructions[called.root_id]
                    continue
                case opcode:
                    raise UnsupportedProgramError(
                        f"the memory of result {instruction.name!r} cannot be found: "
                        f"{opcode!r} owns no buffer"
                    )
            instruction = self._instructions[instruction.operand_ids[operand]]
        return where[instruction.id, index]

    def instruction(self, name: str) -> Any:
        """The instruction of this name, or None."""
        return self._by_name.get(name)

    def origin(self, name: str) -> str:
        """The operation of the model that the instruction called `name` comes from; empty if XLA does not say."""
        instruction = self.instruction(name)
        return "" if instruction is None else str(instruction.metadata.op_name)

    def operands(self, instruction: Any) -> tuple[Any, ...]:
        """The instructions whose values it takes."""
        return tuple(self._instructions[number] for number in instruction.operand_ids)

    def behind_bitcasts(self, instruction: Any) -> Any:
        """The instruction whose value this one is, perhaps with another shape."""
        while instruction.opcode == "bitcast":
            (instruction,) = self.operands(instruction)
        return instruction

    def keeps_memory(self, instruction: Any) -> bool:
        """Whether it is a transpose or a copy that moves axes of one element only, so that rows stay where they are."""
        if instruction.opcode not in ("transpose", "copy"):
            return False
        (operand,) = self.operands(instruction)
        axes = instruction.dimensions or range(len(operand.shape.dimensions))
        moved = [axis for axis in axes if operand.shape.dimensions[axis] != 1]
        return moved == sorted(moved) and all(map(_in_order, (operand.shape, instruction.shape)))

    def number(self, instruction: Any) -> float | None:
        """The 32-bit float that all elements of a constant are; None for anything else."""
        if instruction.opcode == "broadcast" and not instruction.dimensions:
            (instruction,) = self.operands(instruction)
        if instruction.opcode != "constant" or len(instruction.literal.f32s) != 1:
            return None
        return float(instruction.literal.f32s[0])

    def called_root(self, instruction: Any) -> Any:
        """The last instruction of the computation that it calls."""
        (called,) = instruction.called_computation_ids
        return self._instructions[self._computations[called].root_id]

    def called_roots(self, instruction: Any) -> tuple[Any, ...]:
        """The last instructions of all computations that it calls; of a loop those of the body and of the condition."""
        return tuple(
            self._instructions[self._computations[called].root_id]
            for called in instruction.called_computation_ids
        )

    def body_instructions(self, loop: Any) -> list[Any]:
        """The instructions of the body of a `while`, in order."""
        return list(self._computations[loop.called_computation_ids[0]].instructions)

    def called_instructions(self, instruction: Any) -> list[Any]:
        """The instructions of the computation that it calls, in order."""
        (called,) = instruction.called_computation_ids
        return list(self._computations[called].instructions)

    @property
    def outer_instructions(self) -> list[Any]:
        """The instructions of the entry computation, in order."""
        return list(self._entry.instructions)

    def readers(self, instruction: Any) -> list[tuple[Any, int]] | None:
        """What reads a value, each with the number of the operand that it is, bitcasts looked through.

        None if the value is the result of a computation.
        """
        if instruction.id in self._roots:
            return None
        found: list[tuple[Any, int]] = []
        for user in map(self._instructions.__getitem__, self._all_users.get(instruction.id, ())):
            if user.opcode != "bitcast":
                numbers = [n for n, one in enumerate(user.operand_ids) if one == instruction.id]
                found += [(user, number) for number in numbers]
                continue
            behind = self.readers(user)
            if behind is None:
                return None
            found += behind
        return found

    def only_use(self, instruction: Any, user: Any) -> int | None:
        """Which operand of `user` the value of `instruction` is, if nothing else uses it; bitcasts are looked through."""
        while True:
            if instruction.id in self._roots or self._uses[instruction.id] != 1:
                return None
            following = self._instructions[self._users[instruction.id]]
            if following.id == user.id:
                return list(user.operand_ids).index(instruction.id)
            if following.opcode != "bitcast":
                return None
            instruction = following

    @cached_property
    def _roots(self) -> frozenset[int]:
        return frozenset(computation.root_id for computation in self._computations.values())

    @cached_property
    def _uses(self) -> Counter[int]:
        return Counter(n for i in self._instructions.values() for n in i.operand_ids)

    @cached_property
    def _users(self) -> dict[int, int]:
        """One user of each instruction."""
        return {n: i.id for i in self._instructions.values() for n in i.operand_ids}

    @cached_property
    def _all_users(self) -> dict[int, list[int]]:
        """The users of each instruction."""
        found: dict[int, list[int]] = {}
        for instruction in self._instructions.values():
            for number in dict.fromkeys(instruction.operand_ids):
                found.setdefault(number, []).append(instruction.id)
        return found

    @cached_property
    def _by_name(self) -> dict[str, Any]:
        return {i.name: i for i in self._instructions.values()}

    def operations(self, name: str) -> int:
        """Arithmetic operations of one run of the instruction called `name`; 0 if there is none."""
        instruction = self.instruction(name)
        return 0 if instruction is None else self._operations(instruction)

    def _operations(self, instruction: Any) -> int:
        opcode = instruction.opcode
        if opcode in _FREE:
            return 0
        if opcode in ("fusion", "call"):
            return self._called_operations(instruction)
        elements = _elements(instruction.shape)
        match opcode:
            case "dot":
                lhs = self._operand(instruction, 0).shape
                axes = instruction.dot_dimension_numbers.lhs_contracting_dimensions
                return int(2 * elements * math.prod(lhs.dimensions[axis] for axis in axes))
            case "convolution":
                kernel = self._operand(instruction, 1).shape
                dims = instruction.convolution_dimension_numbers
                features = kernel.dimensions[dims.kernel_output_feature_dimension]
                return int(2 * elements * (_elements(kernel) // max(features, 1)))
            case "reduce":
                return _elements(self._operand(instruction, 0).shape)
            case "reduce-window" | "select-and-scatter":
                return int(elements * math.prod(w.size for w in instruction.window.dimensions))
        return elements * (_TRANSCENDENTAL_OPERATIONS if opcode in _TRANSCENDENTAL else 1)

    def _called_operations(self, instruction: Any) -> int:
        return sum(
            self._operations(inner)
            for called in instruction.called_computation_ids
            for inner in self._computations[called].instructions
        )

    def _operand(self, instruction: Any, number: int) -> Any:
        return self._instructions[instruction.operand_ids[number]]


def array_of(shape: Any, where: Slice) -> Array:
    """Memory as an array of the given `xla.ShapeProto`."""
    element_type = ELEMENT_TYPES.get(shape.element_type)
    if element_type is None:
        raise UnsupportedProgramError(
            f"XLA's element type number {shape.element_type} is not supported"
        )
    return Array(
        slice=where,
        element_type=element_type,
        shape=tuple(shape.dimensions),
        minor_to_major=tuple(shape.layout.minor_to_major),
    )


def _in_order(shape: Any) -> bool:
    """Whether the last axis of several elements varies fastest, and so on to the first."""
    axes = [a for a in shape.layout.minor_to_major if shape.dimensions[a] != 1]
    return axes == sorted(axes, reverse=True)


def _elements(shape: Any) -> int:
    if shape.tuple_shapes:
        return sum(map(_elements, shape.tuple_shapes))
    return math.prod(shape.dimensions)
