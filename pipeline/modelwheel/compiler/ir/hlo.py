"""XLA's modules as typed records: what the passes read of an HLO program, without protobuf.

`compiler/xla/hlo_proto.py` makes them from XLA's protobuf (xla/service/hlo.proto), `hlo_text.py` from XLA's text. An
instruction holds its operands and the computations that it calls, so most readers need nothing else; who uses a value is
known by the `Module`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ...dtypes import ElementType

PRIMITIVES = {
    "pred": ElementType.BOOL,
    "s8": ElementType.INT8,
    "s16": ElementType.INT16,
    "s32": ElementType.INT32,
    "s64": ElementType.INT64,
    "u8": ElementType.UINT8,
    "u16": ElementType.UINT16,
    "u32": ElementType.UINT32,
    "u64": ElementType.UINT64,
    "f16": ElementType.FLOAT16,
    "f32": ElementType.FLOAT32,
    "f64": ElementType.FLOAT64,
    "c64": ElementType.COMPLEX64,
    "bf16": ElementType.BFLOAT16,
    "c128": ElementType.COMPLEX128,
}
"""The element types of programs by XLA's names. XLA has more: `s4`, `token`."""

Scalar: TypeAlias = "bool | int | float | complex"


@dataclass(frozen=True)
class Shape:
    """The type of a value: an array, a tuple, or something without elements (`token`)."""

    primitive: str
    """XLA's name of the element type; `tuple` of tuples."""
    dimensions: tuple[int, ...] = ()
    minor_to_major: tuple[int, ...] = ()
    """Axes from the fastest varying to the slowest (XLA's layout)."""
    tuple_shapes: tuple[Shape, ...] = ()

    @property
    def element_type(self) -> ElementType | None:
        """The element type; None if programs cannot have it."""
        return PRIMITIVES.get(self.primitive)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dimensions)

    @property
    def elements(self) -> int:
        """The number of elements, in all arrays of a tuple."""
        if self.tuple_shapes:
            return sum(shape.elements for shape in self.tuple_shapes)
        return math.prod(self.dimensions)


@dataclass(frozen=True)
class DotNumbers:
    """Which axes of its operands a matrix product has as batches, and which it contracts."""

    lhs_batch: tuple[int, ...] = ()
    lhs_contracting: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()


@dataclass(frozen=True)
class ConvolutionNumbers:
    """The role of each axis of the input, the kernel and the output of a convolution."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True)
class GatherNumbers:
    """How a gather takes slices: https://openxla.org/xla/operation_semantics#gather."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0


@dataclass(frozen=True)
class WindowAxis:
    """The window of a convolution or reduction along one axis."""

    size: int
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversed: bool = False


@dataclass(frozen=True)
class SliceAxis:
    """The elements of one axis that a slice takes."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True)
class PadAxis:
    """The elements that a pad adds along one axis; negative numbers take some away."""

    low: int
    high: int
    interior: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Instruction:
    """One operation, with all attributes that passes read; two instructions are equal only if they are one."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[Instruction, ...] = ()
    called: tuple[Computation, ...] = ()
    """The computations that it calls; of a loop the body, then the condition."""
    dimensions: tuple[int, ...] = ()
    parameter_number: int = 0
    tuple_index: int = 0
    value: Scalar | None = None
    """The element of a constant that has only one."""
    direction: str = ""
    """Of a comparison: `LT`."""
    comparison: str = ""
    """Its order: `SIGNED`, `UNSIGNED`, `FLOAT` or `TOTALORDER`."""
    slices: tuple[SliceAxis, ...] = ()
    slice_sizes: tuple[int, ...] = ()
    """Of a gather."""
    padding: tuple[PadAxis, ...] = ()
    window: tuple[WindowAxis, ...] = ()
    dot: DotNumbers | None = None
    convolution: ConvolutionNumbers | None = None
    gather: GatherNumbers | None = None
    feature_groups: int = 1
    batch_groups: int = 1
    op_name: str = ""
    """The operation of the model that it comes from; empty if XLA does not say."""

    def __repr__(self) -> str:
        return f"<{self.opcode} {self.name}>"

    @property
    def called_root(self) -> Instruction:
        """The root of the only computation that it calls."""
        (computation,) = self.called
        return computation.root


@dataclass(frozen=True, eq=False, repr=False)
class Computation:
    """Instructions in an order in which operands come first."""

    name: str
    instructions: tuple[Instruction, ...]
    root: Instruction
    """The instruction whose value is the result."""

    def __repr__(self) -> str:
        return f"<computation {self.name}>"

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Its parameters by their numbers."""
        parameters = (i for i in self.instructions if i.opcode == "parameter")
        return tuple(sorted(parameters, key=lambda parameter: parameter.parameter_number))


@dataclass(frozen=True, eq=False)
class Module:
    """A program, with an index of the users of its values."""

    name: str
    computations: tuple[Computation, ...]
    """In an order in which called computations come first."""
    entry: Computation

    @property
    def instructions(self) -> Iterator[Instruction]:
        """The instructions of all computations."""
        for computation in self.computations:
            yield from computation.instructions

    def instruction(self, name: str) -> Instruction | None:
        """The instruction of this name."""
        return self._by_name.get(name)

    def named(self, names: Collection[str]) -> list[Instruction]:
        """The instructions of some names, in order."""
        known = [name for name in names if name in self._by_name]
        known.sort(key=self._positions.__getitem__)
        return [self._by_name[name] for name in known]

    def users(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The instructions that have it as an operand, each once."""
        return self._users.get(instruction, ())

    def uses(self, instruction: Instruction) -> list[tuple[Instruction, int]] | None:
        """The users of a value, each with the number of the operand that it is, bitcasts looked through.

        None if the value is the result of a computation.
        """
        if instruction in self._roots:
            return None
        uses: list[tuple[Instruction, int]] = []
        for user in self.users(instruction):
            if user.opcode != "bitcast":
                uses += [
                    (user, n) for n, operand in enumerate(user.operands) if operand is instruction
                ]
                continue
            behind = self.uses(user)
            if behind is None:
                return None
            uses += behind
        return uses

    @cached_property
    def _by_name(self) -> dict[str, Instruction]:
        return {instruction.name: instruction for instruction in self.instructions}

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._by_name)}

    @cached_property
    def _roots(self) -> frozenset[Instruction]:
        return frozenset(computation.root for computation in self.computations)

    @cached_property
    def _users(self) -> dict[Instruction, tuple[Instruction, ...]]:
        users_of: dict[Instruction, dict[Instruction, None]] = {}
        for instruction in self.instructions:
            for operand in instruction.operands:
                users_of.setdefault(operand, {})[instruction] = None
        return {operand: tuple(users) for operand, users in users_of.items()}
