"""Optimises counted loops: slices are read and written where they are, without copies, and products that need no result
of another iteration are hoisted and computed for all iterations at once.

Such a product, of the input of a recurrent layer, then reads its weights once, and not in every iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...dtypes import ElementType
from ...program.arrays import ALIGNMENT, Slice, overlap
from ..ir.counters import Counters, position_of
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory, moved_readers, writing_to
from ..ir.emitted.thunk_walk import all_written
from ..ir.emitted.thunks import Array
from ..ir.hlo import Instruction, Module
from ..ir.match import is_row_major, value_of
from ..ir.windows import read_window, written_window
from .elementwise_chains import join_elementwise
from .epilogues import Emitted

_MOST_BYTES = 128 << 10
"""Of the results of a product in all iterations. Larger ones leave the cache before they are read, and take memory."""

_FLOATS = (ElementType.FLOAT32, ElementType.FLOAT64)


@dataclass
class SteppedLoop:
    """A loop whose trip count is known."""

    hlo: Module
    loop: Instruction
    counters: Counters
    steps: list[Emitted]
    """Of the body."""
    memory: Memory

    def apply(self) -> Sequence[p.Thunk]:
        """Changes the steps; returns those that come before the loop."""
        rewritten: set[Instruction] = set()
        """Instructions whose thunks do not read counters any more."""
        for step in list(self.steps):
            instruction, kernel = self.hlo.instruction(step.instruction), step.thunk
            if instruction is None or not isinstance(kernel, p.Kernel):
                continue
            copy = written_window(self.counters, instruction, kernel)
            if copy is not None:
                step.thunk = copy
                rewritten.add(instruction)
            elif self._read_in_place(step, instruction, kernel):
                rewritten.add(instruction)
        before = [found for step in list(self.steps) if (found := self._move_out(step))]
        self._separate_products()
        rewritten |= join_elementwise(self.hlo, self.counters, self.steps)
        self._leave_out_counters(rewritten)
        return before

    def _read_in_place(self, step: Emitted, instruction: Instruction, kernel: p.Kernel) -> bool:
        """Lets products read a part of an array where it is."""
        found = read_window(self.counters, instruction, kernel)
        if found is None:
            return False
        window, array = found
        position = position_of(array)
        if position not in self.counters.invariant or not self._is_kept(window):
            return False
        found_there = self._redirect(step, kernel.results[0], window)
        if found_there:
            self.steps.remove(step)
        return found_there

    def _redirect(self, step: Emitted, old: Slice, new: Slice) -> bool:
        """Lets all that read the result of a step read it elsewhere, if they can."""
        value = self.hlo.instruction(step.value)
        uses = None if value is None else self.hlo.uses(value)
        if uses is None or any(
            user.opcode in ("tuple", "while", "conditional") for user, _ in uses
        ):
            return False
        start = self.steps.index(step)
        changed = moved_readers([one.thunk for one in self.steps], start, old, new)
        aligned = not (new.offset % ALIGNMENT or new.step % ALIGNMENT)
        own = all(isinstance(one, p.Dot | p.Convolution) for one in (changed or {}).values())
        if changed is None or not (aligned or own):
            return False
        for position, thunk in changed.items():
            self.steps[position].thunk = thunk
        return True

    def _is_kept(self, *parts: Slice) -> bool:
        """Whether no iteration writes to some memory."""
        writes = [part for step in self.steps for part in all_written(step.thunk)]
        return not any(overlap(a, b) for a in parts for b in writes)

    # --- products of all iterations --------------------------------------------------------------

    def _move_out(self, step: Emitted) -> p.Dot | None:
        """The product of all iterations, if a step is one of them."""
        dot = step.thunk
        if not isinstance(dot, p.Dot) or not dot.lhs.slice.step or not _is_plain(dot):
            return None
        trip_count, window = self.counters.trip_count, dot.lhs.slice
        epilogue = _of_columns(dot)
        if dot.epilogue is not None and epilogue is None:
            return None
        read = (dot.rhs.slice, *(epilogue.operands if epilogue else ()))
        result = value_of(dot)
        if abs(window.step) != window.size or result.size * trip_count > _MOST_BYTES:
            return None
        if not self._is_kept(*read) or any(part.step for part in read):
            return None
        whole = self.memory.reserve(result.size * trip_count)
        # The product has the order of the array, which iterations may read from its end.
        last = result.size * (trip_count - 1)
        part = Slice(
            allocation=whole.allocation,
            offset=0 if window.step > 0 else last,
            size=result.size,
            step=result.size if window.step > 0 else -result.size,
            iterations=trip_count,
        )
        if not self._redirect(step, result, part):
            return None
        self.steps.remove(step)
        return dot.model_copy(
            update={
                "operations": dot.operations * trip_count,
                "lhs": _repeated(dot.lhs, window.whole, trip_count),
                "lhs_contracting": (1,),
                "out": _repeated(dot.out, whole, trip_count),
                "epilogue": epilogue and epilogue.model_copy(update={"result": whole}),
            }
        )

    def _separate_products(self) -> None:
        """Gives products whose memory other steps use too memory of their own: what reads them can then be one step."""
        for step in self.steps:
            dot = step.thunk
            if not isinstance(dot, p.Dot):
                continue
            others = [
                part for one in self.steps if one is not step for part in all_written(one.thunk)
            ]
            result = value_of(dot)
            if result.step or not any(overlap(part, result) for part in others):
                continue
            own = self.memory.reserve(result.size)
            if not self._redirect(step, result, own):
                continue
            step.thunk = writing_to(dot, own)

    # --- counters ----------------------------------------------------------------------------------

    def _leave_out_counters(self, rewritten: set[Instruction]) -> None:
        """Removes the steps that count iterations, unless anything still reads them."""
        hlo = self.hlo
        root = self.loop.called[0].root
        unread: dict[Instruction, Emitted] = {}
        for step in self.steps:
            instruction = hlo.instruction(step.instruction)
            if instruction is not None and isinstance(step.thunk, p.Kernel):
                shape = instruction.shape
                if shape.element_type == ElementType.INT32 and not shape.dimensions:
                    unread[instruction] = step
        while True:
            free = {*unread, *rewritten}
            unused = {n for n in self.counters.variables if self._is_unused(n, free)}
            live = [
                counting
                for counting in unread
                if not all(
                    user in free or (user is root and position in unused)
                    for user, position in hlo.uses(counting) or [(root, -1)]
                )
            ]
            if not live:
                break
            for counting in live:
                del unread[counting]
        for step in unread.values():
            self.steps.remove(step)

    def _is_unused(self, position: int, free: set[Instruction]) -> bool:
        """Whether only instructions in `free` read a variable, in the loop and after it."""
        hlo = self.hlo
        for user, _ in hlo.uses(self.loop) or [(self.loop, 0)]:
            if user.opcode != "get-tuple-element":
                return False
            if user.tuple_index == position and hlo.uses(user) != []:
                return False
        for instruction in self.loop.called[0].instructions:
            if position_of(instruction) != position:
                continue
            uses = hlo.uses(instruction)
            if uses is None or not all(user in free for user, _ in uses):
                return False
        return True


def _is_plain(dot: p.Dot) -> bool:
    """Whether a product is one of rows that follow each other by a matrix, without gaps."""
    arrays = (dot.lhs, dot.rhs, dot.out)
    rank = len(dot.lhs.shape)
    return (
        all(a.element_type in _FLOATS and a.row_step is None for a in arrays)
        and not dot.lhs_batch
        and rank in (1, 2)
        and dot.lhs_contracting == (rank - 1,)
        and len(dot.rhs.shape) == 2
        and len(dot.out.shape) == rank
        and all(is_row_major(a.shape, a.minor_to_major) for a in (dot.lhs, dot.out))
    )


def _of_columns(dot: p.Dot) -> p.Epilogue | None:
    """The epilogue of a product with values for each column only."""
    epilogue = dot.epilogue
    if epilogue is None or epilogue.addend is None:
        return epilogue
    if dot.out.elements != dot.out.shape[-1] or epilogue.shift is not None:
        return None
    return epilogue.model_copy(update={"addend": None, "shift": epilogue.addend})


def _repeated(array: Array, where: Slice, trip_count: int) -> Array:
    """The rows of an array in all iterations."""
    columns = array.shape[-1]
    shape = (array.elements // columns * trip_count, columns)
    return array.model_copy(update={"slice": where, "shape": shape, "minor_to_major": (1, 0)})
