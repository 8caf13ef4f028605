"""Records of what a walk through a model's functions meets: large tensors, long loops, demands on inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...model.inspection import EndlessLoop, LargeTensor, NeededConstant
from ..graphs.bodies import Body, Library
from .constants import find_needed_constant
from .demands import Demands, join_demands
from .values import Tensor

_LOOPS_KEPT = 4
_TURNS_KEPT = 10_000


@dataclass
class Found:
    """Everything that a walk through a function met."""

    largest: LargeTensor | None = None
    loops: list[EndlessLoop] = field(default_factory=list)
    demands: Demands = field(default_factory=dict)
    constants: dict[str, NeededConstant] = field(default_factory=dict)
    """What XLA must know when it compiles, by node."""

    def size(self, body: Body, number: int, elements: int) -> None:
        if self.largest is None or elements > self.largest.elements:
            self.largest = LargeTensor(
                node=body.names[number], function=body.name, elements=min(elements, 10**30)
            )

    def loop(self, node: str, function: str, turns: int | None) -> None:
        # Short ones count too: they may be inside others.
        self.loops.append(EndlessLoop(node=node, function=function, turns=turns))
        self.loops.sort(key=_turns, reverse=True)
        del self.loops[_LOOPS_KEPT:]

    @property
    def long_loops(self) -> tuple[EndlessLoop, ...]:
        """Those that are worth a mention."""
        return tuple(loop for loop in self.loops if _turns(loop) > _TURNS_KEPT)

    def need_constants(self, node: Any, inputs: Sequence[Tensor]) -> None:
        needed = find_needed_constant(node, inputs)
        if needed is not None and len(self.constants) < _LOOPS_KEPT:
            self.constants.setdefault(node.name, needed)

    def add(self, other: Found, turns: int = 1) -> None:
        """Takes over what a called function met; in a loop of known turns, its loops turn as often."""
        largest = other.largest
        if largest and (self.largest is None or largest.elements > self.largest.elements):
            self.largest = largest
        join_demands(self.demands, other.demands)
        self.constants |= other.constants
        for loop in other.loops:
            self.loop(loop.node, loop.function, loop.turns and loop.turns * turns)


def _turns(loop: EndlessLoop) -> float:
    return math.inf if loop.turns is None else loop.turns


def largest_stored(library: Library, variables: Iterable[LargeTensor]) -> LargeTensor | None:
    """The largest constant of the file, or variable of the index: loading makes them all."""
    tensors = list(variables)
    for body in library.bodies.values():
        for number, op in enumerate(body.ops):
            if op in ("Const", "VarHandleOp", "HostConst"):
                node = body.nodes[number]
                tensor = _read_shape(node)
                tensors.append(
                    LargeTensor(node=body.names[number], function=body.name, elements=tensor)
                )
    return max(tensors, key=lambda tensor: tensor.elements, default=None)


def _read_shape(node: Any) -> int:
    """The elements of a Const or a variable."""
    shape = (
        node.attr["value"].tensor.tensor_shape if "value" in node.attr else node.attr["shape"].shape
    )
    elements = 1
    for dim in shape.dim:
        elements = min(elements * max(dim.size, 0 if dim.size == 0 else 1), 10**30)
    return elements
