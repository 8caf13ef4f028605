"""Makes less of what the turns of a loop do: nothing is copied that can be read or written where it is, and products
that need no result of another turn are computed for all turns at once, before the loop.

Such a product, of the input of a recurrent layer, then reads its weights once, and not in every turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ..ir import thunks as p
from ..ir.counters import Counters
from ..ir.hlo import HloModule
from ..ir.memory import Memory, moved_readers, writing_to
from ..ir.thunk_walk import all_written
from ..ir.thunks import Array
from ..ir.windows import read_window, written_window
from .elementwise_chains import join_elementwise
from .epilogues import Emitted

_MOST_BYTES = 128 << 10
"""Of the results of a product in all turns. Larger ones leave the cache before they are read, and take memory."""

_ALIGNMENT = 64
"""Of what XLA's kernels read."""

_FLOATS = (ElementType.FLOAT32, ElementType.FLOAT64)


@dataclass
class SteppedLoop:
    """A loop whose number of turns is known."""

    hlo: HloModule
    loop: Any
    counters: Counters
    steps: list[Emitted]
    """Of the body."""
    memory: Memory

    def apply(self) -> Sequence[p.Thunk]:
        """Changes the steps; gives those that come before the loop."""
        rewritten = set()
        """Instructions whose thunks do not read counters any more."""
        for step in list(self.steps):
            instruction, kernel = self.hlo.instruction(step.instruction), step.thunk
            if instruction is None or not isinstance(kernel, p.Kernel):
                continue
            copy = written_window(self.hlo, self.counters, instruction, kernel)
            if copy is not None:
                step.thunk = copy
                rewritten.add(instruction.id)
            elif self._read_in_place(step, instruction, kernel):
                rewritten.add(instruction.id)
        before = [found for step in list(self.steps) if (found := self._move_out(step))]
        self._separate_products()
        rewritten |= join_elementwise(self.hlo, self.counters, self.steps)
        self._leave_out_counters(rewritten)
        return before

    def _read_in_place(self, step: Emitted, instruction: Any, kernel: p.Kernel) -> bool:
        """Lets products read a part of an array where it is."""
        found = read_window(self.hlo, self.counters, instruction, kernel)
        if found is None:
            return False
        window, array = found
        position = self.counters.position(self.hlo, array)
        if position not in self.counters.invariant or not self._is_kept(window):
            return False
        found_there = self._redirect(step, kernel.results[0], window)
        if found_there:
            self.steps.remove(step)
        return found_there

    def _redirect(self, step: Emitted, old: Slice, new: Slice) -> bool:
        """Lets all that read the result of a step read it elsewhere, if they can."""
        value = self.hlo.instruction(step.value)
        readers = None if value is None else self.hlo.readers(value)
        if readers is None or any(
            r.opcode in ("tuple", "while", "conditional") for r, _ in readers
        ):
            return False
        start = self.steps.index(step)
        changed = moved_readers([one.thunk for one in self.steps], start, old, new)
        aligned = not (new.offset % _ALIGNMENT or new.step % _ALIGNMENT)
        own = all(isinstance(one, p.Dot | p.Convolution) for one in (changed or {}).values())
        if changed is None or not (aligned or own):
            return False
        for position, thunk in changed.items():
            self.steps[position].thunk = thunk
        return True

    def _is_kept(self, *parts: Slice) -> bool:
        """Whether no turn writes to some memory."""
        writes = [part for step in self.steps for part in all_written(step.thunk)]
        return not any(overlap(a, b) for a in parts for b in writes)

    # --- products of all turns -------------------------------------------------------------------

    def _move_out(self, step: Emitted) -> p.Dot | None:
        """The product of all turns, if a step is one of them."""
        dot = step.thunk
        if not isinstance(dot, p.Dot) or not dot.lhs.slice.step or not _is_plain(dot):
            return None
        turns, window = self.counters.turns, dot.lhs.slice
        epilogue = _of_columns(dot)
        if dot.epilogue is not None and epilogue is None:
            return None
        read = (dot.rhs.slice, *(epilogue.operands if epilogue else ()))
        result = epilogue.result if epilogue else dot.out.slice
        if abs(window.step) != window.size or result.size * turns > _MOST_BYTES:
            return None
        if not self._is_kept(*read) or any(part.step for part in read):
            return None
        whole = self.memory.reserve(result.size * turns)
        # The product has the order of the array, which turns may read from its end.
        last = result.size * (turns - 1)
        part = Slice(
            allocation=whole.allocation,
            offset=0 if window.step > 0 else last,
            size=result.size,
            step=result.size if window.step > 0 else -result.size,
            iterations=turns,
        )
        if not self._redirect(step, result, part):
            return None
        self.steps.remove(step)
        return dot.model_copy(
            update={
                "operations": dot.operations * turns,
                "lhs": _repeated(dot.lhs, window.whole, turns),
                "lhs_contracting": (1,),
                "out": _repeated(dot.out, whole, turns),
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
            result = dot.epilogue.result if dot.epilogue else dot.out.slice
            if result.step or not any(overlap(part, result) for part in others):
                continue
            own = self.memory.reserve(result.size)
            if not self._redirect(step, result, own):
                continue
            step.thunk = writing_to(dot, own)

    # --- counters ----------------------------------------------------------------------------------

    def _leave_out_counters(self, rewritten: set[int]) -> None:
        """Removes the steps that count turns, unless anything still reads them."""
        hlo = self.hlo
        root = hlo.called_roots(self.loop)[0]
        steps = {}
        for step in self.steps:
            instruction = hlo.instruction(step.instruction)
            if instruction is not None and isinstance(step.thunk, p.Kernel):
                shape = instruction.shape
                if shape.element_type == ElementType.INT32 and not shape.dimensions:
                    steps[instruction.id] = (step, instruction)
        unread = dict(steps)
        while True:
            free = {*unread, *rewritten}
            unused = {n for n in self.counters.variables if self._is_unused(n, free)}
            live = [
                number
                for number, (_, instruction) in unread.items()
                if not all(
                    reader.id in free or (reader.id == root.id and position in unused)
                    for reader, position in hlo.readers(instruction) or [(root, -1)]
                )
            ]
            if not live:
                break
            for number in live:
                del unread[number]
        for step, _ in unread.values():
            self.steps.remove(step)

    def _is_unused(self, position: int, free: set[int]) -> bool:
        """Whether only instructions in `free` read a variable, in the loop and after it."""
        hlo = self.hlo
        for reader, _ in hlo.readers(self.loop) or [(self.loop, 0)]:
            if reader.opcode != "get-tuple-element":
                return False
            if reader.tuple_index == position and hlo.readers(reader) != []:
                return False
        for instruction in hlo.body_instructions(self.loop):
            if self.counters.position(hlo, instruction) != position:
                continue
            readers = hlo.readers(instruction)
            if readers is None or not all(reader.id in free for reader, _ in readers):
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
        and all(_is_in_order(a) for a in (dot.lhs, dot.out))
    )


def _is_in_order(array: Array) -> bool:
    return array.minor_to_major == tuple(reversed(range(len(array.shape))))


def _of_columns(dot: p.Dot) -> p.Epilogue | None:
    """The epilogue of a product with values for each column only."""
    epilogue = dot.epilogue
    if epilogue is None or epilogue.addend is None:
        return epilogue
    if dot.out.elements != dot.out.shape[-1] or epilogue.shift is not None:
        return None
    return epilogue.model_copy(update={"addend": None, "shift": epilogue.addend})


def _repeated(array: Array, where: Slice, turns: int) -> Array:
    """The rows of an array in all turns."""
    columns = array.shape[-1]
    shape = (array.elements // columns * turns, columns)
    return array.model_copy(update={"slice": where, "shape": shape, "minor_to_major": (1, 0)})
