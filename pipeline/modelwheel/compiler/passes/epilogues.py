"""What the passes on thunks know of steps and of the products before them, until attention is a matter of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory, moved_readers
from ..ir.emitted.thunk_walk import slices, walk, written
from ..ir.emitted.thunks import Array
from ..ir.hlo import Instruction, Module
from ..ir.match import is_row_major, value_of
from ..ir.numbering import Numbering
from .match.epilogue_parts import Elsewhere, FusionReader, Parts

# With fewer columns XLA's kernel is faster: its vectors run along all axes.
_MIN_COLUMNS = 4


@dataclass(eq=False)
class Emitted:
    """A thunk, and the name of the instruction that it computes."""

    thunk: p.Thunk
    instruction: str
    fusion: str | None = None
    """The instruction that became its epilogue."""
    is_kept: bool = False
    """Whether its value is read by more steps than the module says."""

    @property
    def value(self) -> str:
        """The name of the instruction whose value it writes."""
        return self.fusion or self.instruction


class Steps:
    """The thunks of a sequence while fusions become epilogues."""

    def __init__(self, hlo: Module, steps: list[Emitted], memory: Memory | None) -> None:
        self.all = steps
        self.hlo = hlo
        self._memory = memory
        self._numbering: Numbering | None = None
        self._left: dict[Instruction, frozenset[Instruction]] = {}
        """The instructions that are still read for a fusion that became an epilogue, by the fusion."""

    @property
    def numbering(self) -> Numbering:
        """The numbers of the module's values."""
        if self._numbering is None:
            self._numbering = Numbering(self.hlo)
        return self._numbering

    def value(self, step: Emitted) -> Instruction:
        """The instruction that a step computes, which the module has."""
        value = self.hlo.instruction(step.instruction)
        assert value is not None, step.instruction
        return value

    def only_use(self, step: Emitted, fusion: Instruction) -> int | None:
        """Which operand of a fusion the value of a step is, if nothing else still uses it."""
        value = self.hlo.instruction(step.instruction)
        uses = None if value is None else self.hlo.uses(value)
        if uses is None:
            return None
        live = [(user, n) for user, n in uses if value in self._left.get(user, {value})]
        return live[0][1] if len(live) == 1 and live[0][0] is fusion else None

    def leave(self, fusion: Instruction, sources: Sequence[Instruction]) -> None:
        """Notes what is still read for a fusion."""
        self._left[fusion] = frozenset(sources)

    def reading_from(self, start: int, old: Slice, new: Slice) -> dict[int, p.Thunk] | None:
        """The thunks by position that read what the one at `start` wrote, with it elsewhere; None if one cannot."""
        return moved_readers([one.thunk for one in self.all], start, old, new)


def may_exchange(between: Sequence[p.Thunk], one: p.Thunk) -> bool:
    """Whether a thunk may run before or after some others alike: neither writes what the other reads or writes."""
    for thunk in walk(tuple(between)):
        for a, b in ((thunk, one), (one, thunk)):
            if any(overlap(part, other) for part in written(a) for other in slices(b)):
                return False
    return True


def read_parts(
    product: p.Product,
    kernel: p.Kernel,
    fusion: Instruction,
    number: int,
    node: Instruction,
    elsewhere: Elsewhere[Slice] = lambda _: None,
) -> Parts[Slice] | None:
    """The parts of an epilogue from a product, an operand of a fusion, to an instruction of the fusion."""
    _, columns = columns_of(product)
    plain = (
        {array.element_type for array in product.arrays} == {ElementType.FLOAT32}
        and columns >= _MIN_COLUMNS
        and len(kernel.arguments) == len(fusion.operands)
        and kernel.arguments[number] == value_of(product)
    )
    if not plain:
        return None
    return FusionReader(fusion, number, kernel.arguments, columns, elsewhere).parts(node)


def fits(epilogue: p.Epilogue, product: p.Product) -> bool:
    """Whether all parts have the sizes that the product needs, and are where the result does not spoil them."""
    out, columns = columns_of(product)
    result = epilogue.result
    if result.size != out.slice.size or (overlap(result, out.slice) and result != out.slice):
        return False
    sizes = {"bias": columns, "scale": columns, "shift": columns, "addend": out.elements}
    for name, size in sizes.items():
        part: Slice | None = getattr(epilogue, name)
        # An addend may be the result itself, but not a part of it.
        apart = part is None or not overlap(part, result) or (name == "addend" and part == result)
        if part is not None and (part.size != size * ElementType.FLOAT32.item_bytes or not apart):
            return False
    return True


def columns_of(product: p.Product) -> tuple[Array, int]:
    """The result of a product, and the number of its columns; 0 unless they are contiguous and vary fastest."""
    if isinstance(product, p.Convolution):
        out = product.output
        feature = product.output_axes.feature
        return out, out.shape[feature] if out.minor_to_major[0] == feature else 0
    out = product.out
    rank = len(out.shape)
    free = len(product.rhs.shape) - len(product.rhs_batch) - len(product.rhs_contracting)
    in_order = is_row_major(out.shape, out.minor_to_major)
    return out, math.prod(out.shape[rank - free :]) if in_order else 0
