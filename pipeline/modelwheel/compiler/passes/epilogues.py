"""Makes fusions that follow a product element by element part of the product.

XLA's CPU backend writes the result of a matrix product or convolution to memory; bias, scale, residual and clamp are
kernels of their own that read and write it again, like activation functions. The module has the computation of every such fusion
(`Instruction.called`): where it is what the hand-written kernels can do to a product, in the
same order, the product does it and the kernel is not called. Anything else stays as it is.

What several steps read, XLA finishes in each of them. Such a reader takes the finished value from memory instead, and if
all of them do, nobody reads the product itself any more. So fusions are looked at from the last to the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory, moved_readers, writing_to
from ..ir.emitted.thunk_walk import all_written, names_of_all, read, slices, walk, written
from ..ir.emitted.thunks import Array
from ..ir.hlo import Instruction, Module
from ..ir.match import behind_bitcasts, is_row_major, value_of
from ..ir.numbering import Numbering
from .match.epilogue_parts import Elsewhere, FusionReader, Parts, epilogue_of, followed_by
from .recognise.paddings import Padding, padding_of
from .recognise.pooling import mean_of_values, scaling
from .recognise.products import product_of_values

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

    def join(self, candidate: Emitted) -> bool:
        """Makes a kernel the epilogue of a product, if it is one."""
        fusion = self.hlo.instruction(candidate.instruction)
        if not isinstance(candidate.thunk, p.Kernel) or fusion is None or fusion.opcode != "fusion":
            return False
        # The last product that it reads: what others wrote are operands by then.
        for one in reversed(self.before(candidate)):
            if isinstance(one.thunk, p.Dot | p.Convolution) and one.fusion is None:
                number = self.only_use(one, fusion)
                if number is not None:
                    return _Join(self, one, candidate, fusion).done(number)
        return False

    def value(self, step: Emitted) -> Instruction:
        """The instruction that a step computes, which the module has."""
        value = self.hlo.instruction(step.instruction)
        assert value is not None, step.instruction
        return value

    def before(self, step: Emitted) -> list[Emitted]:
        """The steps before one."""
        return self.all[: self.all.index(step)]

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

    def join_scaling(self, candidate: Emitted) -> bool:
        """Leaves out a kernel that multiplies by a number what only one pooling adds up."""
        fusion, kernel = self.hlo.instruction(candidate.instruction), candidate.thunk
        if not isinstance(kernel, p.Kernel) or fusion is None or fusion.opcode != "fusion":
            return False
        if candidate.is_kept:
            return False
        factor = scaling(fusion)
        start = self.all.index(candidate)
        for position, step in enumerate(self.all[start + 1 :], start + 1):
            reader = self.hlo.instruction(step.instruction)
            pool = step.thunk
            if not isinstance(pool, p.Pooling) or reader is None or factor is None:
                continue
            if self.only_use(candidate, reader) is None or pool.reducer != "sum":
                continue
            between = [
                part for one in self.all[start + 1 : position] for part in all_written(one.thunk)
            ]
            (source,) = kernel.arguments
            plain = (
                (pool.input,) == kernel.results
                and pool.in_factor == 1
                and source.size == pool.input.size
            )
            if not plain or any(overlap(part, source) for part in [*between, pool.output]):
                return False
            covers = (*pool.covers, *kernel.covers)
            update = {"input": source, "in_factor": factor, "covers": covers}
            step.thunk = pool.model_copy(update=update)
            self.all.remove(candidate)
            (operand,) = map(behind_bitcasts, fusion.operands)
            self.leave(fusion, [operand])
            return True
        return False

    # --- values that are in memory already -------------------------------------------------------

    def find(self, node: Instruction, fusion: Instruction, before: Emitted) -> Emitted | None:
        """The step, before another one, that writes the value of an instruction in a fusion."""
        if self._memory is None:
            return None
        number = self.numbering.inside(node, fusion)
        for step in self.before(before):
            if isinstance(step.thunk, p.Kernel) and len(step.thunk.results) == 1:
                value = self.hlo.instruction(step.instruction)
                if value is not None and self.numbering.of(value) == number:
                    return step
        return None

    def finish(
        self, node: Instruction, fusion: Instruction, candidate: Emitted, other: Emitted
    ) -> Finished | None:
        """The product, not `other`, of which an instruction in a fusion is the epilogue, if nothing else uses either."""
        assert isinstance(candidate.thunk, p.Kernel)
        if self._memory is None:
            return None
        end = self.all.index(candidate)
        for start, step in enumerate(self.all[:end]):
            product = step.thunk
            if not isinstance(product, p.Dot | p.Convolution) or product.epilogue is not None:
                continue
            number = self.only_use(step, fusion) if step is not other else None
            if number is None:
                continue
            found = read_parts(product, candidate.thunk, fusion, number, node)
            if found is None or not found.named:
                continue
            epilogue = epilogue_of(product.arrays[-1].slice, found.named)
            needed = candidate.thunk.model_copy(
                update={"arguments": epilogue.operands, "results": ()}
            )
            between = [after.thunk for after in self.all[start + 1 : end]]
            if fits(epilogue, product) and may_exchange(between, needed):
                return Finished(step, epilogue, found.sources)
        return None

    def keep(self, step: Emitted, until: int, spoiled: Sequence[Slice]) -> Slice | None:
        """Makes the value of a kernel last until a position.

        Args:
            step: It has one result.
            until: The position of the step that reads it.
            spoiled: What that step may overwrite before it has read.

        Returns:
            Where it is; None if it cannot be kept.
        """
        assert isinstance(step.thunk, p.Kernel)
        (place,) = step.thunk.results
        start = self.all.index(step)
        step.is_kept = True
        spoils = [part for one in self.all[start + 1 : until] for part in all_written(one.thunk)]
        if not any(overlap(part, place) for part in [*spoils, *spoiled]):
            return place
        return self.move(step, place)

    def pooled(self, step: Emitted) -> tuple[Emitted, Padding] | None:
        """The pooling behind a kernel that alone reads its value, which has padding around something else."""
        following = self.all[self.all.index(step) + 1 :]
        reader = self.hlo.instruction(following[0].instruction) if following else None
        if reader is None or step.is_kept or self.only_use(step, reader) is None:
            return None
        pool = following[0].thunk
        if not isinstance(pool, p.Pooling) or pool.input not in written(step.thunk):
            return None
        value = self.hlo.instruction(step.instruction)
        padding = None if value is None else padding_of(value, pool)
        return None if padding is None else (following[0], padding)

    def move_from(self, step: Emitted, place: Slice) -> bool:
        """Moves the value of a pooling if it would be written over what is at a place; returns whether it is not."""
        assert isinstance(step.thunk, p.Pooling)
        output = step.thunk.output
        if not overlap(output, place):
            return True
        return self.move(step, output) is not None

    def writer(self, place: Slice, before: int) -> Emitted | None:
        """The kernel with one result, pooling or product that has written all of a place, as it is at a position."""
        for step in reversed(self.all[:before]):
            thunk = step.thunk
            if any(overlap(part, place) for part in all_written(thunk)):
                movable = isinstance(thunk, p.Pooling | p.Dot | p.Convolution)
                movable = movable or (isinstance(thunk, p.Kernel) and len(thunk.results) == 1)
                return step if movable and written(thunk)[-1] == place else None
        return None

    def move(self, step: Emitted, place: Slice) -> Slice | None:
        """Gives the value of such a step, which is at a place, memory of its own."""
        memory = self._memory
        if memory is None or not memory.may_move(place):
            return None
        new = memory.reserve(place.size)
        changed = self.reading_from(self.all.index(step), place, new)
        if changed is None:
            return None
        for position, thunk in changed.items():
            self.all[position].thunk = thunk
        step.thunk = writing_to(step.thunk, new)
        return new

    def reading_from(self, start: int, old: Slice, new: Slice) -> dict[int, p.Thunk] | None:
        """The thunks by position that read what the one at `start` wrote, with it elsewhere; None if one cannot."""
        return moved_readers([one.thunk for one in self.all], start, old, new)


class _Join:
    """A fusion that may become the epilogue of a product."""

    def __init__(self, steps: Steps, one: Emitted, candidate: Emitted, fusion: Instruction) -> None:
        self._steps = steps
        self._one = one
        self._candidate = candidate
        self._fusion = fusion
        self._kept: list[Emitted] = []
        self._finished: list[Finished] = []
        self._padded: tuple[Emitted, Padding] | None = None
        """The pooling that is left of the fusion if the product computes all but the padding."""

    def done(self, number: int) -> bool:
        """Joins the two, if that is possible; the product is this operand of the fusion."""
        steps, one, product, kernel = self._steps, self._one, self._one.thunk, self._candidate.thunk
        assert isinstance(product, p.Dot | p.Convolution)
        assert isinstance(kernel, p.Kernel)
        if len(kernel.results) != 1:
            return False
        root, result, rest = self._values(product, kernel)
        if rest is not None and overlap(kernel.results[0], result):
            return False
        found = read_parts(product, kernel, self._fusion, number, root, self._elsewhere)
        if found is None or not found.named:
            return False
        epilogue = followed_by(product.epilogue, result, found.named)
        if epilogue is None or not fits(epilogue, product):
            return False
        start, end = steps.all.index(one), steps.all.index(self._candidate)
        between = [after.thunk for after in steps.all[start + 1 : end]]
        # What is kept moves if it has to.
        kept = found.named.get("addend") if self._kept else None
        operands = tuple(part for part in epilogue.operands if part != kept)
        needed = kernel.model_copy(update={"arguments": operands})
        is_there = all(steps.all.index(step) < start for step in self._kept)
        if is_there and may_exchange(between, needed):
            place = start
        elif may_exchange(between, product):
            place = end
        else:
            return self._may_wait(start, end) and self._again().done(number)
        if self._padded is not None and not steps.move_from(self._padded[0], result):
            return False
        spoiled = [product.arrays[-1].slice, epilogue.result]
        for step in self._kept:
            where = steps.keep(step, place, spoiled)
            if where is None:
                return False
            epilogue = epilogue.model_copy(update={"addend": where})
        for finished in self._finished:
            finished.apply()
        total = product.operations + kernel.operations
        names = names_of_all(product, kernel)
        if rest is not None:
            names["covers"] = product.covers
        # Its operands may have moved.
        update = {"epilogue": epilogue, "operations": total, **names}
        one.thunk = one.thunk.model_copy(update=update)
        steps.leave(
            self._fusion, found.sources if not isinstance(rest, p.Dot) else self._others(number)
        )
        if place == end:
            steps.all.remove(one)
            steps.all.insert(steps.all.index(self._candidate), one)
        self._leave_out(kernel, rest, result)
        return True

    def _may_wait(self, start: int, end: int) -> bool:
        """Whether the product may run just before the kernel, with operands in memory that nobody overwrites until then."""
        steps = self._steps
        between = [after.thunk for after in steps.all[start + 1 : end]]
        for part in read(self._one.thunk):
            if any(overlap(part, other) for thunk in between for other in all_written(thunk)):
                writer = steps.writer(part, start)
                if writer is None or steps.move(writer, part) is None:
                    return False
        return may_exchange(between, self._one.thunk)

    def _again(self) -> _Join:
        return _Join(self._steps, self._one, self._candidate, self._fusion)

    def _leave_out(self, kernel: p.Kernel, rest: p.Pooling | p.Dot | None, result: Slice) -> None:
        """Leaves out the kernel, but for what is left of it."""
        if rest is not None:
            names = {"origin": kernel.origin, "covers": kernel.covers}
            self._candidate.thunk = rest.model_copy(update=names)
            return
        if self._padded is not None:
            reader, padding = self._padded
            assert isinstance(reader.thunk, p.Pooling)
            reader.thunk = padding.without(reader.thunk, result)
        else:
            self._one.fusion = self._candidate.instruction
            self._one.is_kept = self._candidate.is_kept
        self._steps.all.remove(self._candidate)

    def _values(
        self, product: p.Product, kernel: p.Kernel
    ) -> tuple[Instruction, Slice, p.Pooling | p.Dot | None]:
        """The instruction whose values the product may finish, and where; of a mean or a product, what is left of the kernel then."""
        place = value_of(product)
        mean = mean_of_values(self._fusion, kernel)
        if mean is not None:
            return mean[0], place, mean[1].model_copy(update={"input": place})
        self._padded = self._steps.pooled(self._candidate)
        if self._padded is not None:
            return self._padded[1].values, place, None
        found = product_of_values(self._fusion, kernel, place)
        if found is not None:
            return found[0], place, found[1]
        return self._fusion.called_root, kernel.results[0], None

    def _others(self, number: int) -> list[Instruction]:
        """The operands of the fusion but one."""
        operands = enumerate(self._fusion.operands)
        return [behind_bitcasts(one) for other, one in operands if other != number]

    def _elsewhere(self, node: Instruction) -> tuple[Slice, Instruction] | None:
        steps = self._steps
        step = steps.find(node, self._fusion, self._candidate)
        if step is not None:
            assert isinstance(step.thunk, p.Kernel)
            self._kept.append(step)
            return step.thunk.results[0], steps.value(step)
        finished = steps.finish(node, self._fusion, self._candidate, self._one)
        if finished is None:
            return None
        self._finished.append(finished)
        return finished.epilogue.result, steps.value(finished.step)


@dataclass(frozen=True)
class Finished:
    """A product that may have an epilogue, which only one fusion computes as a part of it."""

    step: Emitted
    epilogue: p.Epilogue
    sources: Sequence[Instruction]

    def apply(self) -> None:
        """Gives it to the product."""
        self.step.thunk = self.step.thunk.model_copy(update={"epilogue": self.epilogue})


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
