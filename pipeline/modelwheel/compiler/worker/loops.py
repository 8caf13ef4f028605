"""How often a loop turns whose condition does not depend on the model's inputs.

Such a loop may be run as soon as a graph is optimised: constant folding evaluates it. The turns of the
usual loop, a counter and a bound, follow from arithmetic; others are tried out, up to a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from .bodies import Body, Library
from .graphs import node_name
from .values import Tensor

_TRIED = 1000
"""Turns that are tried out."""
_FOREVER = 1 << 62
_LINEAR = frozenset({"Add", "AddV2", "Sub", "Identity", "Const", "NextIteration", "Switch"})
_MONOTONE = frozenset(
    {
        *("Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "Identity", "Const"),
        *("LoopCond", "Enter"),
    }
)


class _Evaluator(Protocol):
    def evaluate(
        self, body: Body, tensor: str, arguments: dict[int, Tensor], merged: dict[int, Tensor]
    ) -> Tensor: ...


@dataclass
class Loop:
    """A loop's condition and turn, as tensors of bodies."""

    condition: tuple[Body, str]
    turn: Body
    updates: Mapping[int, str]
    """By variable of the loop, the tensor of its next value."""
    start: Mapping[int, Tensor] = field(default_factory=dict)
    entering: Mapping[int, str] = field(default_factory=dict)
    """In TensorFlow 1, the tensors from which variables start."""
    frame: bool = False
    """Whether variables are nodes of a frame of TensorFlow 1, and not arguments."""
    invariant: frozenset[int] = frozenset()
    """Variables that no turn changes."""

    @classmethod
    def of_functions(
        cls, library: Library, condition: str, turn: str, inputs: Sequence[Tensor]
    ) -> Loop:
        """A While of TensorFlow 2."""
        body = library.bodies[turn]
        updates = dict(enumerate(library.results(turn)))
        invariant = frozenset(
            index for index, tensor in updates.items() if _argument(body, tensor) == index
        )
        result = (library.bodies[condition], library.results(condition)[0])
        return cls(result, body, updates, dict(enumerate(inputs)), invariant=invariant)

    @classmethod
    def of_frame(cls, body: Body, loop_condition: int) -> Loop:
        """A loop of Enter, Merge, Switch and NextIteration, by its LoopCond."""
        updates, entering = {}, {}
        for number in body.reach([loop_condition], control=False):
            if body.ops[number] == "Merge":
                for tensor in body.tensors[number]:
                    read = body.index.get(node_name(tensor), -1)
                    if body.ops[read] == "NextIteration":
                        updates[number] = tensor
                    elif tensor[0] != "^":
                        entering[number] = tensor
        name = body.names[loop_condition]
        return cls((body, name), body, updates, entering=entering, frame=True)


def _argument(body: Body, tensor: str) -> int | None:
    """The argument that a tensor passes on."""
    name = node_name(tensor)
    while name in body.index and body.ops[body.index[name]] == "Identity":
        name = node_name(body.tensors[body.index[name]][0])
    return body.arguments.get(name)


def count_turns(evaluator: _Evaluator, loop: Loop) -> int | None:
    """The number of turns; None if it was not found out. 0 also if the condition has other sources."""
    needed = _needed(loop)
    if loop.frame:
        if _depends_on_more(loop):
            return 0
        start = {
            index: evaluator.evaluate(loop.turn, tensor, {}, {})
            for index, tensor in loop.entering.items()
            if index in needed
        }
    else:
        start = {index: loop.start[index] for index in needed if index in loop.start}
    state = {index: tensor for index, tensor in start.items() if index in needed}
    if any(tensor.value is None or None in tensor.value for tensor in state.values()):
        return None
    deltas = _deltas(evaluator, loop, state)
    if deltas is not None:
        return _search(evaluator, loop, state, deltas)
    for turns in range(_TRIED):
        again = _holds(evaluator, loop, state)
        if again is None:
            return None
        if not again:
            return turns
        state = _next(evaluator, loop, state)
    return None


def _depends_on_more(loop: Loop) -> bool:
    body, name = loop.condition
    reached = body.reach([body.index[name]], control=False)
    sources = {body.ops[n] for n in reached if not body.data[n] and not body.tensors[n]}
    passed = any(node_name(tensor) not in body.index for n in reached for tensor in body.tensors[n])
    return passed or bool(sources - {"Const"})


def _needed(loop: Loop) -> set[int]:
    """The variables on which the condition depends, from turn to turn."""
    needed = _sources(loop, *loop.condition)
    waiting = list(needed)
    while waiting:
        index = waiting.pop()
        if index in loop.updates:
            for source in _sources(loop, loop.turn, loop.updates[index]):
                if source not in needed:
                    needed.add(source)
                    waiting.append(source)
    return needed


def _sources(loop: Loop, body: Body, tensor: str) -> set[int]:
    return _scan(loop, body, tensor)[0]


def _scan(loop: Loop, body: Body, tensor: str) -> tuple[set[int], set[str]]:
    """The variables that a tensor depends on, and the operations between."""
    variables, ops, seen = set[int](), set[str](), set[int]()
    waiting = [tensor]
    while waiting:
        name = node_name(waiting.pop())
        number = body.index.get(name)
        if number is None:
            variables.add(body.arguments[name])
        elif loop.frame and number in loop.updates:
            variables.add(number)
        elif number not in seen:
            seen.add(number)
            ops.add(body.ops[number])
            reads = [read for read in body.tensors[number] if read[0] != "^"]
            # In every turn but the last one, a Switch passes on its first input.
            waiting += reads[:1] if body.ops[number] == "Switch" else reads
    return variables, ops


def _given(loop: Loop, state: dict[int, Tensor]) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    return ({}, state) if loop.frame else (state, {})


def _holds(evaluator: _Evaluator, loop: Loop, state: dict[int, Tensor]) -> bool | None:
    result = evaluator.evaluate(*loop.condition, *_given(loop, state))
    if not result.value or result.value[0] is None:
        return None
    return bool(result.value[0])


def _next(evaluator: _Evaluator, loop: Loop, state: dict[int, Tensor]) -> dict[int, Tensor]:
    return {
        index: evaluator.evaluate(loop.turn, loop.updates[index], *_given(loop, state))
        if index in loop.updates
        else tensor
        for index, tensor in state.items()
    }


def _deltas(evaluator: _Evaluator, loop: Loop, state: dict[int, Tensor]) -> dict[int, int] | None:
    """How much each turn adds to each variable, if that never changes and decides the end."""
    if not _scan(loop, *loop.condition)[1] <= _MONOTONE:
        return None
    following = _next(evaluator, loop, state)
    deltas = {}
    for index, tensor in state.items():
        update = loop.updates.get(index)
        if update is not None:
            sources, ops = _scan(loop, loop.turn, update)
            if not ops <= _LINEAR or not sources <= {index}:
                return None
        before, after = tensor.value, following[index].value
        if before is None or after is None or len(before) != 1 or len(after) != 1:
            return None
        if not isinstance(before[0], int) or not isinstance(after[0], int):
            return None
        deltas[index] = after[0] - before[0]
    return deltas


def _search(
    evaluator: _Evaluator, loop: Loop, state: dict[int, Tensor], deltas: dict[int, int]
) -> int | None:
    """The first turn at which the condition fails: it holds for an interval of turns that begins at 0."""

    def holds(turn: int) -> bool | None:
        moved = {i: replace(t, value=(_moved(t, deltas[i] * turn),)) for i, t in state.items()}
        return _holds(evaluator, loop, moved)

    if not holds(0):
        return 0 if holds(0) is False else None
    low, high = 0, 1
    while holds(high):
        low, high = high, 2 * high
        if high > _FOREVER:
            return _FOREVER
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return high


def _moved(tensor: Tensor, distance: int) -> int:
    assert tensor.value is not None
    number = tensor.value[0]
    return int(number or 0) + distance
