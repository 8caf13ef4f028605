"""Makes one step of kernels that follow each other element by element, as the gates of a recurrent layer do.

XLA's kernels for them are compiled for each batch size, write what only the next one reads, and take long for sigmoid and
tanh. The step has what they compute as straight-line code (`Elementwise` in `program/program.py`), of which the runtime
compiles one copy with vectors of the level for all batch sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ...program.expr import ACTIVATIONS
from ..ir.counters import Counters
from ..ir.emitted import thunks as p
from ..ir.emitted.elementwise import Plane
from ..ir.emitted.thunk_walk import names_of_all
from ..ir.hlo import Instruction, Module
from .epilogues import Emitted, may_exchange
from .match.elementwise_code import Code, Reader, Source

_FLOAT_BYTES = ElementType.FLOAT32.item_bytes


@dataclass
class _Store:
    value: int
    step: Emitted


@dataclass
class _Group:
    """Steps that become one; it takes the place of the last."""

    rows: int
    columns: int
    code: Code = field(default_factory=Code)
    members: list[Emitted] = field(default_factory=list)
    planes: list[Plane] = field(default_factory=list)
    """Memory that it reads."""
    stores: dict[Slice, _Store] = field(default_factory=dict)
    unwritten: list[Emitted] = field(default_factory=list)
    """Steps whose values the group cannot write to memory: only its other steps may read them."""

    def values(self) -> dict[Slice, int]:
        """The values that are in memory by then."""
        return {where: store.value for where, store in self.stores.items()}

    def takes(
        self, member: Emitted, source: Source, value: int, target: Slice, *, written: bool
    ) -> bool:
        """Adds a step.

        Args:
            member: The step.
            source: What it reads.
            value: What it computes.
            target: Where.
            written: Whether it may only join if the value can be written.
        """
        if target.size != self.rows * self.columns * _FLOAT_BYTES:
            return False
        # XLA uses memory again as soon as nobody reads it: a step of the group may still have to.
        spoils = any(
            overlap(plane.slice, target) and plane != _rows_of(target, self.columns)
            for plane in (*self.planes, *source.planes)
        )
        crosses = any(overlap(where, target) for where in self.stores if where != target)
        if (spoils or crosses) and written:
            return False
        if spoils or crosses:
            self.unwritten.append(member)
        self.planes += source.planes
        self.members.append(member)
        self.stores[target] = _Store(value, member)
        return True

    def instructions(self, hlo: Module) -> set[Instruction]:
        """The instructions that it computes."""
        kernels = (one for one in self.members if isinstance(one.thunk, p.Kernel))
        found = (hlo.instruction(kernel.instruction) for kernel in kernels)
        return {instruction for instruction in found if instruction is not None}

    def hides(self, hlo: Module, member: Emitted) -> bool:
        """Whether nobody else reads the value of a step."""
        value = hlo.instruction(member.instruction)
        if not isinstance(member.thunk, p.Kernel) or value is None:
            return False
        uses, own = hlo.uses(value), self.instructions(hlo)
        return uses is not None and all(user in own for user, _ in uses)

    def conflicts(self, thunk: p.Thunk) -> bool:
        """Whether the group cannot run after a thunk that comes after some of it."""
        kernel = p.Kernel(
            operations=0,
            symbol="",
            workgroups=(1, 1, 1),
            arguments=tuple(plane.slice for plane in self.planes),
            results=tuple(self.stores),
        )
        return not may_exchange((thunk,), kernel)


def join_elementwise(hlo: Module, counters: Counters, steps: list[Emitted]) -> set[Instruction]:
    """Makes groups of steps one each; returns the instructions that they compute.

    Args:
        hlo: The module.
        counters: Those of the loop whose body the steps are.
        steps: The steps; they are changed.
    """
    written: list[Emitted] = []
    while True:
        groups = list(_groups(hlo, counters, steps, written))
        # What others read too must be written, and then be computed where that is possible.
        more = [one for group in groups for one in group.unwritten if not group.hides(hlo, one)]
        if not more:
            break
        written += more
    joined: set[Instruction] = set()
    for group in groups:
        joined |= _finish(hlo, group, steps)
    return joined


def _groups(
    hlo: Module, counters: Counters, steps: Sequence[Emitted], written: Sequence[Emitted]
) -> Iterator[_Group]:
    """Steps that can become one each, in order; the values of those in `written` are written."""
    group: _Group | None = None
    for step in steps:
        if group is not None and _added(hlo, counters, group, step, written):
            continue
        extent = None if step.is_kept else _extent(hlo, step)
        other = None if extent is None else _Group(*extent)
        begins = other is not None and _added(hlo, counters, other, step, written)
        if group is not None and (begins or group.conflicts(step.thunk)):
            yield group
            group = None
        if begins:
            group = other
    if group is not None:
        yield group


def _extent(hlo: Module, step: Emitted) -> tuple[int, int] | None:
    """The rows and columns of what a kernel writes."""
    instruction = hlo.instruction(step.instruction)
    if instruction is None or not isinstance(step.thunk, p.Kernel):
        return None
    shape = instruction.shape
    if shape.element_type != ElementType.FLOAT32 or not shape.dimensions:
        return None
    return math.prod(shape.dimensions[:-1]), shape.dimensions[-1]


def _added(
    hlo: Module,
    counters: Counters,
    group: _Group,
    step: Emitted,
    written: Sequence[Emitted],
) -> bool:
    """Whether a step has become one of a group."""
    if step.is_kept:
        return False
    source = Source(group.rows, group.columns, group.values())
    if isinstance(step.thunk, p.Copy):
        value = source.read(group.code, step.thunk.source, 0, group.columns)
        target = step.thunk.destination
        return value is not None and group.takes(step, source, value, target, written=True)
    instruction = hlo.instruction(step.instruction)
    if instruction is None or not isinstance(step.thunk, p.Kernel):
        return False
    if len(step.thunk.results) != 1 or _extent(hlo, step) != (group.rows, group.columns):
        return False
    reader = Reader(counters, instruction, step.thunk, group.code, source)
    value = reader.result()
    target = step.thunk.results[0]
    return value is not None and group.takes(step, source, value, target, written=step in written)


def _finish(hlo: Module, group: _Group, steps: list[Emitted]) -> set[Instruction]:
    """Puts a group in the place of its steps, if that is worth it."""
    computed = group.instructions(hlo)
    stores = {
        where: store.value
        for where, store in group.stores.items()
        if not group.hides(hlo, store.step)
    }
    read, masks, code, stored = group.code.finished(list(stores.values()))
    if not any(operation.opcode in ACTIVATIONS for operation in code):
        return set()
    last = group.members[-1]
    thunks = [member.thunk for member in group.members]
    last.thunk = p.Elementwise(
        operations=sum(thunk.operations for thunk in thunks),
        **names_of_all(*reversed(thunks)),
        rows=group.rows,
        columns=group.columns,
        reads=read,
        masks=masks,
        code=code,
        writes=tuple(_rows_of(where, group.columns) for where in stores),
        stored=stored,
    )
    for member in group.members[:-1]:
        steps.remove(member)
    return computed


def _rows_of(where: Slice, columns: int) -> Plane:
    return Plane(slice=where, start=0, row_step=columns)
