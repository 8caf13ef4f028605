"""Small HLO modules made by hand, for tests of what reads them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.ir.thunks import Array
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.dtypes import ElementType
from modelwheel.program.arrays import Allocation, Slice
from tests.support.thunks import array, dense

ENTRY = "entry"


def shape(*dimensions: int, element: ElementType = ElementType.FLOAT32) -> SimpleNamespace:
    """A row-major shape."""
    layout = SimpleNamespace(minor_to_major=tuple(reversed(range(len(dimensions)))))
    return SimpleNamespace(element_type=element, dimensions=dimensions, layout=layout)


class Steps:
    """A module and the thunks that XLA emits for it; each value has an allocation of its own, by name."""

    def __init__(self) -> None:
        self._computations: dict[str, list[SimpleNamespace]] = {ENTRY: []}
        self._names: dict[tuple[str, str], SimpleNamespace] = {}
        self.emitted: list[Emitted] = []
        self.allocations: list[str] = []
        self._shared: dict[str, str] = {}

    def add(
        self, name: str, opcode: str, of: Any, *operands: str, within: str = ENTRY, **fields: Any
    ) -> str:
        """Adds an instruction to a computation; `calls` names the one that it calls."""
        ids = [self._names[within, operand].id for operand in operands]
        unique = name if within == ENTRY else f"{within}/{name}"
        rest = {"dimensions": [], "parameter_number": 0, "calls": None, **fields}
        instruction = SimpleNamespace(
            id=len(self._names), name=unique, opcode=opcode, shape=of, operand_ids=ids, **rest
        )
        self._names[within, name] = instruction
        self._computations.setdefault(within, []).append(instruction)
        return name

    def place(self, name: str) -> Slice:
        """Where a value of the entry computation is."""
        name = self._shared.get(name, name)
        if name not in self.allocations:
            self.allocations.append(name)
        return dense(self._names[ENTRY, name].shape.dimensions, self.allocations.index(name)).slice

    def given(self, name: str, of: Any) -> str:
        """A value that is in memory from the start."""
        self.add(name, "parameter", of)
        self.place(name)
        return name

    def product(self, name: str, of: Any, lhs: str) -> str:
        """A product of a value with a matrix of its own."""
        weights = self.given(f"{name}.w", shape(4, of.dimensions[-1]))
        self.add(name, "dot", of, lhs, weights)
        rows = math.prod(of.dimensions) // of.dimensions[-1]
        dot = p.Dot(
            operations=1,
            lhs=self._array(lhs, (rows, 4)),
            rhs=self._array(weights, (4, of.dimensions[-1])),
            out=self._array(name, (rows, of.dimensions[-1])),
            lhs_batch=(),
            rhs_batch=(),
            lhs_contracting=(1,),
            rhs_contracting=(0,),
        )
        self.emitted.append(Emitted(dot, name))
        return name

    def _array(self, name: str, extents: tuple[int, ...]) -> Array:
        order = tuple(reversed(range(len(extents))))
        part = self.place(name)
        return array(extents, order, part.allocation).model_copy(update={"slice": part})

    def fusion(
        self, name: str, of: Any, *operands: str, result: str | None = None, calls: str = ""
    ) -> str:
        """A kernel that has the computation `calls`; its result may be where another value was."""
        self.add(name, "fusion", of, *operands, calls=calls or name)
        if result is not None:
            self._shared[name] = result
        return self.kernel(name, operands, self.place(name))

    def kernel(self, name: str, operands: tuple[str, ...], result: Slice) -> str:
        """A kernel of XLA."""
        kernel = p.Kernel(
            operations=1,
            symbol=name,
            workgroups=(1, 1, 1),
            arguments=tuple(map(self.place, operands)),
            results=(result,),
        )
        self.emitted.append(Emitted(kernel, name))
        return name

    def build(self) -> HloModule:
        """The module; the last instruction of each computation is its root."""
        numbers = {name: number for number, name in enumerate(self._computations)}
        for instruction in self._names.values():
            called = instruction.calls
            instruction.called_computation_ids = [] if called is None else [numbers[called]]
        computations = [
            SimpleNamespace(id=numbers[name], instructions=body, root_id=body[-1].id)
            for name, body in self._computations.items()
        ]
        return HloModule(SimpleNamespace(computations=computations, entry_computation_id=0))

    def kinds(self) -> list[Allocation]:
        """All allocations; parameters of the module are the callers', all others temporary."""
        return [
            Allocation(
                index=index,
                size=self.place(name).size,
                kind="parameter" if self._names[ENTRY, name].opcode == "parameter" else "temporary",
            )
            for index, name in enumerate(self.allocations)
        ]
