"""Turns attention masks into operands of the step, computing them once where they are not in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ...thresholds import WIDEST_LANES
from ..ir.emitted import thunks as p
from ..ir.emitted.masks import MaskCode, MaskOperation
from ..ir.emitted.memory import Memory
from ..ir.emitted.thunk_walk import all_written
from ..ir.match import Value
from .epilogues import Emitted, Steps
from .match.mask_code import mask_code
from .match.softmaxes import Softmax

_TOGETHER = WIDEST_LANES
"""Rows are read to the next multiple."""


@dataclass
class Masks:
    """The masks of one step of attention."""

    steps: Steps
    memory: Memory
    shape: tuple[int, ...]
    """Of the scores."""
    named: dict[str, p.Heads | float | None] = field(default_factory=dict)
    """Fields of the step."""
    in_place: list[Slice] = field(default_factory=list)
    """Memory that it reads where XLA has put it."""
    _new: list[tuple[Emitted, p.Mask]] = field(default_factory=list)
    """Masks that are computed, each before the step that has read what they need."""

    @classmethod
    def of(
        cls, steps: Steps, memory: Memory, softmax: Softmax, shape: Sequence[int]
    ) -> Masks | None:
        """The masks of a softmax; None if one of them is unknown."""
        if len(shape) > 4:
            return None
        masks, kept = cls(steps, memory, tuple(shape)), softmax.kept
        if softmax.added is not None and not masks._add(
            "added", softmax.added, ElementType.FLOAT32
        ):
            return None
        if kept is not None:
            if not masks._add("kept", kept.condition, ElementType.BOOL, negated=kept.is_negated):
                return None
            masks.named["replacement"] = None if math.isinf(kept.replacement) else kept.replacement
        return masks

    def apply(self) -> None:
        """Puts the new steps where they belong."""
        for before, mask in self._new:
            place = self.steps.all.index(before)
            self.steps.all.insert(place, Emitted(mask, f"{before.instruction}.mask"))

    def _add(self, name: str, value: Value, element: ElementType, *, negated: bool = False) -> bool:
        """Makes a value an operand, if that is possible."""
        fusion = value.fusion
        step = next((one for one in self.steps.all if fusion and one.value == fusion.name), None)
        if step is None or not isinstance(step.thunk, p.Kernel):
            return False
        code = mask_code(value, step.thunk, self.shape)
        if code is None or code.operations[-1].element_type != element:
            return False
        code = code.negated() if negated else code
        heads = self._there(code)
        if heads is None:
            mask = self._computed(code, step)
            heads = p.Heads(slice=mask.output, start=0, steps=_steps(mask))
        self.named[name] = heads
        return True

    def _there(self, code: MaskCode) -> p.Heads | None:
        """A mask that is in memory as the step reads it."""
        (*_, last) = code.operations
        keys = self.shape[-1]
        plain = last.opcode == "read" and last.element_type == ElementType.FLOAT32
        if not plain or last.steps[-1] != 1 or keys % _TOGETHER:
            return None
        (read,) = code.reads
        self.in_place.append(read.slice)
        return p.Heads(slice=read.slice, start=last.start, steps=last.steps)

    def _computed(self, code: MaskCode, before: Emitted) -> p.Mask:
        """The step that computes a mask, a new one unless there is one already."""
        for mask in self._all(before):
            if mask.code == code and mask.extents == self._extents(code):
                return mask
        extents = self._extents(code)
        step = -(-extents[-1] // _TOGETHER) * _TOGETHER
        mask = p.Mask(
            operations=math.prod(extents) * len(code.operations),
            origin=before.thunk.origin,
            extents=extents,
            step=step,
            code=code,
            output=self.memory.reserve(
                math.prod(extents[:-1])
                * step
                * ElementType.FLOAT32.item_bytes  # or of a 32-bit condition
            ),
        )
        self._new.append((before, mask))
        return mask

    def _all(self, before: Emitted) -> Iterator[p.Mask]:
        """Masks that would be the same if they were computed before a step."""
        yield from (mask for _, mask in self._new)
        end = self.steps.all.index(before)
        for start, step in enumerate(self.steps.all[:end]):
            if isinstance(step.thunk, p.Mask):
                between = self.steps.all[start + 1 : end]
                parts = [part for one in between for part in all_written(one.thunk)]
                if not _spoils(parts, step.thunk):
                    yield step.thunk

    def _extents(self, code: MaskCode) -> tuple[int, int, int, int]:
        """Axes along which something changes; rows of keys are always whole."""
        shape = (*[1] * (4 - len(self.shape)), *self.shape)
        outer, inner, queries = (
            extent if _changes(code.operations, axis) else 1
            for axis, extent in enumerate(shape[:-1])
        )
        return outer, inner, queries, shape[-1]


def _changes(operations: Iterable[MaskOperation], axis: int) -> bool:
    return any(one.steps[axis] for one in operations)


def _spoils(parts: Iterable[Slice], mask: p.Mask) -> bool:
    """Whether something writes to what a mask is computed from."""
    reads = [read.slice for read in mask.code.reads]
    return any(overlap(part, read) for part in parts for read in reads)


def _steps(mask: p.Mask) -> tuple[int, int, int, int]:
    """How far apart neighbours are along each axis."""
    outer, inner, queries, _ = mask.extents
    steps = (inner * queries * mask.step, queries * mask.step, mask.step, 1)
    kept = (
        step if extent > 1 else 0
        for extent, step in zip((outer, inner, queries), steps, strict=False)
    )
    first, second, third = kept
    return first, second, third, 1
