"""How often a loop turns whose condition does not depend on the model's inputs.

Such a loop may be run as soon as a graph is optimised: constant folding evaluates it. The turns of the
usual loop, counters and bounds, follow from arithmetic; others are tried out, up to a bound. Where a
number is known by its bounds only, as the counter of an outer loop is, the turns are the most possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tensorflow.core.framework import types_pb2

from ..graphs.bodies import Body, Library
from ..graphs.graphs import node_name
from .bounds import bounds_of, hull
from .values import UNKNOWN, Bounds, Tensor

_TRIED = 10_000
"""Turns that are tried out."""
_FOREVER = 1 << 62
_COUNTERS = (types_pb2.DT_INT32, types_pb2.DT_INT64)
_PASSING = frozenset({"Identity", "Const", "Enter"})
_LINEAR = _PASSING | {"Add", "AddV2", "Sub", "NextIteration", "Switch"}
_MONOTONE = _PASSING | {
    *("Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LoopCond"),
    *("Add", "AddV2", "Sub"),
}


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
        waiting, seen = [loop_condition], {loop_condition}
        for number in waiting:  # grows while it is walked
            if body.ops[number] in ("Enter", "Exit"):  # of an outer, of an inner loop
                continue
            if closes_loop(body, number):
                for tensor in body.tensors[number]:
                    read = body.index.get(node_name(tensor), -1)
                    if body.ops[read] == "NextIteration":
                        updates[number] = tensor
                    elif tensor[0] != "^":
                        entering[number] = tensor
            new = [read for read in body.data[number] if read not in seen]
            seen.update(new)
            waiting += new
        name = body.names[loop_condition]
        return cls((body, name), body, updates, entering=entering, frame=True)


def closes_loop(body: Body, number: int) -> bool:
    """Whether a node is the Merge of a loop of TensorFlow 1, not of a branch."""
    return body.ops[number] == "Merge" and any(
        body.ops[read] == "NextIteration" for read in body.data[number]
    )


def _argument(body: Body, tensor: str) -> int | None:
    """The argument that a tensor passes on."""
    name = node_name(tensor)
    while name in body.index and body.ops[body.index[name]] == "Identity":
        name = node_name(body.tensors[body.index[name]][0])
    return body.arguments.get(name)


@dataclass(frozen=True)
class Turns:
    """How often a loop turns, and the bounds of its variables."""

    count: int | None
    """At most; None if it was not found out. 0 also if the condition has other sources."""
    within: Mapping[int, Bounds] = field(default_factory=dict)
    """When a turn begins."""
    after: Mapping[int, Bounds] = field(default_factory=dict)


def count_turns(evaluator: _Evaluator, loop: Loop) -> Turns:
    """Finds out how often a loop turns."""
    if loop.frame and _depends_on_more(loop):
        return Turns(0)
    needed = _needed(loop)
    if loop.frame:
        start = {
            index: evaluator.evaluate(loop.turn, tensor, {}, {})
            for index, tensor in loop.entering.items()
            if index in needed or loop.turn.nodes[index].attr["T"].type in _COUNTERS
        }
    else:
        start = {index: tensor for index, tensor in loop.start.items() if index in loop.updates}
    state = {index: start.get(index, UNKNOWN) for index in needed}
    deltas = {}
    for index in start:
        delta = _delta(evaluator, loop, index, start)
        if delta is not None:
            deltas[index] = delta
    monotone = _scan(loop, *loop.condition)[1] <= _MONOTONE
    if monotone and needed <= deltas.keys():
        return _search(evaluator, loop, {index: start[index] for index in deltas}, deltas)
    turns = _try(evaluator, loop, state)
    if not turns.count:
        return turns
    least = 0  # the condition may fail at once
    within, after = dict(turns.within), dict(turns.after)
    for index in deltas.keys() - needed:
        within[index], after[index] = _moved(start[index], deltas[index], (least, turns.count))
    return Turns(turns.count, within, after)


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
            if loop.frame and body.ops[number] == "Enter":  # the same in all turns
                continue
            reads = [read for read in body.tensors[number] if read[0] != "^"]
            # In every turn but the last one, a Switch passes on its first input.
            waiting += reads[:1] if body.ops[number] == "Switch" else reads
    return variables, ops


def _given(loop: Loop, state: dict[int, Tensor]) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    return ({}, state) if loop.frame else (state, {})


def _holds(evaluator: _Evaluator, loop: Loop, state: dict[int, Tensor]) -> Bounds:
    """(1, 1) if the condition holds, (0, 0) if not, (0, 1) if either may be."""
    return bounds_of(evaluator.evaluate(*loop.condition, *_given(loop, state))) or (0, 1)


def _update(evaluator: _Evaluator, loop: Loop, index: int, state: dict[int, Tensor]) -> Tensor:
    if index not in loop.updates:
        return state[index]
    return evaluator.evaluate(loop.turn, loop.updates[index], *_given(loop, state))


# --- arithmetic -----------------------------------------------------------------------------------


def _delta(evaluator: _Evaluator, loop: Loop, index: int, start: dict[int, Tensor]) -> int | None:
    """How much each turn adds to a variable, if that never changes."""
    if bounds_of(start[index]) is None:
        return None
    if index not in loop.updates:
        return 0
    sources, ops = _scan(loop, loop.turn, loop.updates[index])
    if not ops <= _LINEAR or not all(s == index or s in loop.invariant for s in sources):
        return None
    deltas, numbers = [], [start[index]]
    for _ in range(2):  # `i + i` adds something else in the second turn
        numbers.append(_update(evaluator, loop, index, start | {index: numbers[-1]}))
        before, after = map(bounds_of, numbers[-2:])
        if before is None or after is None or after[0] - before[0] != after[1] - before[1]:
            return None
        deltas.append(after[0] - before[0])
    return deltas[0] if deltas[0] == deltas[1] else None


def _search(
    evaluator: _Evaluator, loop: Loop, state: dict[int, Tensor], deltas: dict[int, int]
) -> Turns:
    """Bounds of the first turn at which the condition fails: it holds up to that, and not again."""

    def holds(turn: int) -> Bounds:
        moved = {i: _at(t, _moved(t, deltas[i], (turn, turn))[1]) for i, t in state.items()}
        return _holds(evaluator, loop, moved)

    most = _first(lambda turn: not holds(turn)[1])
    if most >= _FOREVER:
        return Turns(most)
    least = _first(lambda turn: not holds(turn)[0])
    moved = {i: _moved(t, deltas[i], (least, most)) for i, t in state.items()}
    return Turns(most, {i: m[0] for i, m in moved.items()}, {i: m[1] for i, m in moved.items()})


def _first(fails: Callable[[int], bool]) -> int:
    """The first turn for which something is true that stays true."""
    low, high = -1, 0
    while not fails(high):
        low, high = high, 2 * high + 1
        if high > _FOREVER:
            return _FOREVER
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high


def _moved(tensor: Tensor, delta: int, turns: tuple[int, int]) -> tuple[Bounds, Bounds]:
    """The bounds of a variable while a loop turns, and after it."""
    low, high = bounds_of(tensor) or (0, 0)
    least, most = (delta * count for count in turns)
    last = delta * max(turns[1] - 1, 0)
    return (
        (low + min(0, last), high + max(0, last)),
        (low + min(least, most), high + max(least, most)),
    )


def _at(tensor: Tensor, bounds: Bounds) -> Tensor:
    return replace(tensor, value=None, bounds=bounds)


# --- trial ----------------------------------------------------------------------------------------


def _try(evaluator: _Evaluator, loop: Loop, state: dict[int, Tensor]) -> Turns:
    within: dict[int, Bounds | None] = {}
    after: dict[int, Bounds | None] = {}
    seen = set[tuple[Tensor, ...]]()
    for turn in range(_TRIED):
        least, most = _holds(evaluator, loop, state)
        now = {index: bounds_of(tensor) for index, tensor in state.items()}
        if not least:
            after = {i: hull((after[i], b)) if i in after else b for i, b in now.items()}
        if not most:
            return Turns(turn, _known(within), _known(after))
        within = {i: hull((within[i], b)) if i in within else b for i, b in now.items()}
        key = tuple(state.values())
        if key in seen:  # it goes round, or more will never be known
            break
        seen.add(key)
        state = {index: _update(evaluator, loop, index, state) for index in state}
    return Turns(None)


def _known(bounds: Mapping[int, Bounds | None]) -> dict[int, Bounds]:
    return {index: bound for index, bound in bounds.items() if bound is not None}
