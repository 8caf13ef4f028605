"""Makes fusions that follow a product element by element part of the product.

XLA's CPU backend writes the result of a matrix product or convolution to memory; bias, scale, residual and clamp are
kernels of their own that read and write it again, like activation functions. The module has the computation of every such fusion
(HloInstructionProto.called_computation_ids): where it is what the hand-written kernels can do to a product, in the
same order, the product does it and the kernel is not called. Anything else stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from ...dtypes import ElementType
from .. import program as p
from .activations import Activations
from .hlo import HloModule

_ORDER = ("bias", "scale", "shift", "addend", "low", "high", "activation")
"""The order in which the kernels apply the parts of an epilogue."""
_PARTS: dict[tuple[str, str], str] = {
    ("multiply", "columns"): "scale",
    ("add", "columns"): "shift",
    ("add", "array"): "addend",
    ("maximum", "scalar"): "low",
    ("minimum", "scalar"): "high",
}
"""The part that an operation is, by the kind of its other side."""
# With fewer columns XLA's kernel is faster: its vectors run along all axes.
_MIN_COLUMNS = 4


_Part: TypeAlias = "tuple[str, p.Slice | float | str]"
"""A part of an epilogue by its name."""


@dataclass(frozen=True)
class Emitted:
    """A thunk, and the name of the instruction that it computes."""

    thunk: p.Thunk
    instruction: str
    fusion: str | None = None
    """The instruction that became its epilogue."""

    @property
    def value(self) -> str:
        """The name of the instruction whose value it writes."""
        return self.fusion or self.instruction


def join_epilogues(hlo: HloModule, emitted: Sequence[Emitted]) -> list[Emitted]:
    """The thunks of a sequence, with kernels that became the epilogues of products left out."""
    kept: list[Emitted] = []
    for candidate in emitted:
        if not _joined(hlo, kept, candidate):
            kept.append(candidate)
    return kept


def _joined(hlo: HloModule, kept: list[Emitted], candidate: Emitted) -> bool:
    if not isinstance(candidate.thunk, p.Kernel):
        return False
    fusion = hlo.instruction(candidate.instruction)
    if fusion is None or fusion.opcode != "fusion":
        return False
    # The last product that it reads: what others wrote are operands by then.
    for position in reversed(range(len(kept))):
        one = kept[position]
        if isinstance(one.thunk, p.Dot | p.Convolution) and one.thunk.epilogue is None:
            product = hlo.instruction(one.instruction)
            number = hlo.only_use(product, fusion) if product is not None else None
            if number is None:
                continue
            between = [after.thunk for after in kept[position + 1 :]]
            epilogue = _epilogue(hlo, one.thunk, candidate.thunk, fusion, number)
            if epilogue is None:
                return False
            total = one.thunk.operations + candidate.thunk.operations
            update = {"epilogue": epilogue, "operations": total}
            thunk = one.thunk.model_copy(update=update)
            joined = replace(one, thunk=thunk, fusion=candidate.instruction)
            if _may_exchange(between, candidate.thunk):
                kept[position] = joined
            elif _may_exchange(between, one.thunk):
                del kept[position]
                kept.append(joined)
            else:
                return False
            return True
    return False


def _may_exchange(between: Sequence[p.Thunk], one: p.Thunk) -> bool:
    """Whether a thunk may run before or after some others alike: neither writes what the other reads or writes."""
    for thunk in p.walk(tuple(between)):
        for a, b in ((thunk, one), (one, thunk)):
            if any(p.overlap(part, other) for part in p.written(a) for other in p.slices(b)):
                return False
    return True


def _epilogue(
    hlo: HloModule, product: p.Product, kernel: p.Kernel, fusion: Any, number: int
) -> p.Epilogue | None:
    out, columns = _columns(product)
    types = {array.element_type for array in product.arrays}
    plain = (
        types == {ElementType.FLOAT32}
        and columns >= _MIN_COLUMNS
        and len(kernel.arguments) == len(fusion.operand_ids)
        and len(kernel.results) == 1
        and kernel.arguments[number] == out.slice
    )
    if not plain:
        return None
    (result,) = kernel.results
    if result.size != out.slice.size or (p.overlap(result, out.slice) and result != out.slice):
        return None
    parts = _Fusion(hlo, fusion, number, kernel.arguments, columns).parts()
    if not parts:
        return None
    epilogue = p.Epilogue.model_validate({"result": result, **parts})
    sizes = {
        "bias": columns * 4,
        "scale": columns * 4,
        "shift": columns * 4,
        "addend": out.slice.size,
    }
    for name, size in sizes.items():
        part: p.Slice | None = getattr(epilogue, name)
        # An addend may be the result itself, but not a part of it.
        apart = part is None or not p.overlap(part, result) or (name == "addend" and part == result)
        if part is not None and (part.size != size or not apart):
            return None
    return epilogue


def _columns(product: p.Product) -> tuple[p.Array, int]:
    """The result of a product, and the number of its columns; 0 unless they are contiguous and vary fastest."""
    if isinstance(product, p.Convolution):
        out = product.output
        feature = product.output_axes.feature
        return out, out.shape[feature] if out.minor_to_major[0] == feature else 0
    out = product.out
    rank = len(out.shape)
    free = len(product.rhs.shape) - len(product.rhs_batch) - len(product.rhs_contracting)
    in_order = out.minor_to_major == tuple(reversed(range(rank)))
    return out, math.prod(out.shape[rank - free :]) if in_order else 0


class _Fusion:
    """The computation of a fusion, read as parts of an epilogue of one of its parameters."""

    def __init__(
        self,
        hlo: HloModule,
        fusion: Any,
        product: int,
        arguments: Sequence[p.Slice],
        columns: int,
    ) -> None:
        self._hlo = hlo
        self._root = hlo.called_root(fusion)
        self._product = product
        self._arguments = arguments
        self._columns = columns
        self._activations = Activations(hlo)

    def parts(self) -> dict[str, p.Slice | float | str] | None:
        """The parts by name, or None if the fusion does anything else or in another order."""
        chain = self._chain(self._root)
        if chain is None:
            return None
        for number, (before, after) in enumerate(pairwise(name for name, _ in chain)):
            if (before, after) == ("shift", "scale"):
                chain[number] = ("bias", chain[number][1])
        positions = [_ORDER.index(name) for name, _ in chain]
        in_order = all(before < after for before, after in pairwise(positions))
        return dict(chain) if in_order else None

    def _chain(self, node: Any) -> list[_Part] | None:
        """The parts from the product to a node."""
        if node.shape.element_type != ElementType.FLOAT32:
            return None
        if node.opcode == "parameter":
            return [] if node.parameter_number == self._product else None
        if (found := self._activations.find(node)) is not None:
            before = self._chain(found.argument)
            return None if before is None else [*before, ("activation", found.activation)]
        operands = self._hlo.operands(node)
        match node.opcode:
            case "bitcast":  # the same memory with another shape
                return self._chain(operands[0])
            case "clamp":
                low, value, high = operands
                following = [("maximum", low), ("minimum", high)]
            case "add" | "multiply" | "maximum" | "minimum":
                value, other = operands
                if not self._reads_product(value):
                    value, other = other, value
                following = [(node.opcode, other)]
            case _:
                return None
        chain = self._chain(value)
        parts = [self._part(operation, other, node) for operation, other in following]
        if chain is None or None in parts:
            return None
        return chain + [part for part in parts if part is not None]

    def _reads_product(self, node: Any) -> bool:
        if node.opcode == "parameter":
            return bool(node.parameter_number == self._product)
        return any(map(self._reads_product, self._hlo.operands(node)))

    def _part(self, operation: str, other: Any, node: Any) -> _Part | None:
        """The part that an operation with the value of another node is."""
        # The sums themselves are not kept for a second use.
        if other.shape.element_type != ElementType.FLOAT32 or self._reads_product(other):
            return None
        value: p.Slice | float | None
        if other.opcode == "parameter":
            kind = "array"
            value = self._arguments[other.parameter_number]
            if not _same_layout(other.shape, node.shape):
                return None
        elif (value := self._scalar(other)) is not None:
            kind = "scalar"
        else:
            kind, value = "columns", self._per_column(other)
        name = _PARTS.get((operation, kind))
        return (name, value) if name is not None and value is not None else None

    def _scalar(self, node: Any) -> float | None:
        while node.opcode == "broadcast":
            (node,) = self._hlo.operands(node)
        if node.opcode != "constant" or len(node.literal.f32s) != 1:
            return None
        value = float(node.literal.f32s[0])
        return value if math.isfinite(value) else None

    def _per_column(self, node: Any) -> p.Slice | None:
        """The parameter with a value for each column that a node repeats in every row."""
        if node.opcode != "broadcast":
            return None
        (operand,) = self._hlo.operands(node)
        extents = node.shape.dimensions
        wide = [axis for axis in node.dimensions if extents[axis] != 1]
        # Axes with one element may be anywhere in the layout.
        fastest = [axis for axis in node.shape.layout.minor_to_major if extents[axis] != 1][:1]
        if wide != fastest or math.prod(extents[axis] for axis in wide) != self._columns:
            return None
        source = self._hlo.behind_bitcasts(operand)
        return self._arguments[source.parameter_number] if source.opcode == "parameter" else None


def _same_layout(a: Any, b: Any) -> bool:
    """Whether two shapes have the same elements in the same places."""
    return (
        list(a.dimensions) == list(b.dimensions)
        and list(a.layout.minor_to_major) == list(b.layout.minor_to_major)
        and a.element_type == b.element_type
    )
