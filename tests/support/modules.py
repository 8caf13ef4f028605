"""HLO modules from text, and the steps that XLA's thunks for them are, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelwheel.compiler.ir.covering import CoveringStep
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.hlo import Computation, Instruction
from modelwheel.compiler.ir.hlo_text import read_text
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.ir.match import behind_bitcasts, view_of
from modelwheel.compiler.ir.operations import operations_of
from modelwheel.compiler.ir.product_ops import dot_op
from modelwheel.dtypes import ElementType
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.ops import Kernel, While
from modelwheel.program.steps import Step, numbered
from modelwheel.program.view import View
from tests.support.programs import loop

_WITHOUT_THUNK = ("parameter", "constant", "bitcast", "get-tuple-element", "tuple")


def edited(text: str, *changes: tuple[str, str]) -> str:
    """A text in which parts, which it has, are replaced everywhere."""
    for old, new in changes:
        assert old in text, f"{old!r} is not in the text"
        text = text.replace(old, new)
    return text


class Emission:
    """A module, and the steps that XLA emits for a computation: a product of each dot, a kernel of each other operation.

    Each array has an allocation of its own, but for those that a bitcast only names. A loop has its state where that was
    before it.

    Args:
        text: XLA's text of the module.
        changes: Parts of it that are replaced.
        at: Values, by name, that are elsewhere: where another value is, or in a slice.
        computation: The name of the computation; by default the entry.
    """

    def __init__(
        self,
        text: str,
        *changes: tuple[str, str],
        at: Mapping[str, str | Slice] | None = None,
        computation: str | None = None,
    ) -> None:
        self.hlo = read_text(edited(text, *changes))
        (self._computation,) = (
            c for c in self.hlo.computations if c.name == (computation or self.hlo.entry.name)
        )
        self._at = dict(at or {})
        self._loops: dict[Computation, Instruction] = {}
        """By their bodies and conditions."""
        self._find_loops(self._computation)
        self._owners = [
            one
            for one in self._values
            if not one.shape.tuple_shapes and one.name not in self._at and self._named(one) is None
        ]
        self.steps = list(self._steps(self._computation))
        """Each covers its instruction."""

    @property
    def _values(self) -> list[Instruction]:
        """Those of the computation and of the loops in it."""
        computations = (self._computation, *self._loops)
        return [one for computation in computations for one in computation.instructions]

    def _find_loops(self, computation: Computation) -> None:
        for value in (one for one in computation.instructions if one.opcode == "while"):
            body, _ = value.called
            self._loops |= dict.fromkeys(value.called, value)
            for before, after in zip(value.operands[0].operands, body.root.operands, strict=True):
                if self._source(after) is not self._source(before):
                    self._at[behind_bitcasts(after).name] = self._source(before).name
            for inner in value.called:
                self._find_loops(inner)

    def _named(self, value: Instruction) -> Instruction | None:
        """The value that an instruction is another name of: what a bitcast is of, and the state of a loop."""
        if value.opcode == "bitcast":
            return value.operands[0]
        if value.opcode != "get-tuple-element":
            return None
        (source,) = value.operands
        inside = (one for c, one in self._loops.items() if source in c.instructions)
        owner = source if source.opcode == "while" else next(inside, None)
        return None if owner is None else owner.operands[0].operands[value.tuple_index]

    def _source(self, value: Instruction) -> Instruction:
        """The value that an instruction is, by whatever name."""
        while (other := self._named(value)) is not None:
            value = other
        return value

    def value(self, name: str) -> Instruction:
        """An instruction of the computation, or of a loop in it."""
        (found,) = (one for one in self._values if one.name == name)
        return found

    def allocation(self, name: str) -> int:
        """The allocation that holds a value alone."""
        return self._owners.index(self.value(name))

    def place(self, name: str) -> Slice:
        """Where a value is."""
        value = self._source(self.value(name))
        other = self._at.get(value.name)
        if isinstance(other, Slice):
            return other
        if other is not None:
            return self.place(other).model_copy(update={"size": _bytes(value)})
        return Slice(allocation=self._owners.index(value), offset=0, size=_bytes(value))

    def insert(self, before: str, step: Step) -> None:
        """Adds a step of an instruction that the module does not have before that of another one."""
        (position,) = (n for n, one in enumerate(self.steps) if one.covers == {before})
        self.steps.insert(position, CoveringStep.of(step, ["other"]))

    def allocations(self, **kinds: str) -> list[Allocation]:
        """All allocations: parameters are the callers', all others temporary, but for what `kinds` says by name."""
        defaults = {"parameter": "parameter", "constant": "constant"}
        allocations = (
            {"index": index, "size": _bytes(one)}
            | {"kind": kinds.get(one.name, defaults.get(one.opcode, "temporary"))}
            for index, one in enumerate(self._owners)
        )
        return [Allocation.model_validate(one) for one in allocations]

    def graph(self, results: Sequence[str], *, loops: bool = False, **kinds: str) -> Graph:
        """The graph of the steps, whose nodes cover the instructions.

        Args:
            results: Values, by name, that callers read in the end.
            loops: Whether all steps are in the body of a loop.
            kinds: Of allocations, as for `allocations`.
        """
        sequence = (loop(*self.steps, trip_count=2),) if loops else self.steps
        places = list(map(self.place, results))
        graph = lift(sequence, self.allocations(**kinds), places, self.hlo)
        check(graph)
        return graph

    def _steps(self, computation: Computation) -> tuple[CoveringStep, ...]:
        return tuple(
            CoveringStep.of(self._step(one), [one.name])
            for one in computation.instructions
            if one.opcode not in _WITHOUT_THUNK
        )

    def _step(self, value: Instruction) -> Step:
        if value.opcode == "while":
            return self._loop(value)
        operations = operations_of(value)
        if value.dot is not None:
            lhs, rhs, out = (
                view_of(one.shape, self.place(one.name)) for one in (*value.operands, value)
            )
            return Step(
                op=dot_op(value.dot),
                inputs={"lhs": lhs, "rhs": rhs},
                outputs={"out": out},
                operations=operations,
            )
        arguments = [View.of_bytes(self.place(one.name)) for one in value.operands]
        return Step(
            op=Kernel(symbol=value.name),
            inputs=numbered("argument", arguments),
            outputs=numbered("result", [View.of_bytes(self.place(value.name))]),
            operations=operations,
        )

    def _loop(self, value: Instruction) -> Step:
        body, condition = value.called
        goes_on = View.dense(self.place(condition.root.name), ElementType.BOOL, ())
        return Step(
            op=While(trip_count=None),
            inputs={"condition": goes_on},
            regions=(self._steps(condition), self._steps(body)),
        )


def _bytes(value: Instruction) -> int:
    assert value.shape.element_type is not None
    return value.shape.elements * value.shape.element_type.item_bytes
