"""`If` and `Loop`.

What known values decide is decided here: one branch, or the turns one after another. Few turns are written so
as well, which XLA optimises across turns. Other loops stay loops, unless a body needs shapes that the
number of the turn decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from math import prod

import numpy as np
import onnx

from .....errors import UnsupportedModelError
from .....util.text import one_line
from ....stablehlo.writer import Builder, Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import regions as c
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import BOOL, INT32, INT64, DType
from .onnx_node import Closure, Item, Node, Result, TensorList, operator

FEW_TURNS = 16
"""So many are written one after another."""
MAX_TURNS = 4096
_MOST = (1 << 31) - 1
_COUNTED = 1 << 16
"""Turns that are counted by computing a condition; more count as unknown."""

Kind = tuple[DType, tuple[int, ...]]


class _UnfitBodyError(Exception):
    """A body cannot be written once for all turns; the text says why."""


# --- branches -------------------------------------------------------------------------------------


@operator("If")
def if_(node: Node) -> Result:
    """One branch, if its condition is known; else a branch of the compiled model."""
    then, other = node.closure("then_branch"), node.closure("else_branch")
    condition = node.input(0)
    if condition.known is not None:
        return (then if bool(condition.known.reshape(())) else other).write([])
    forms: list[list[Item]] = []

    def write(branch: Closure) -> list[Value]:
        try:
            items = branch.write([])
        except UnsupportedModelError as error:
            raise UnsupportedModelError(
                f"{error}; it is in a branch of {one_line(node.where)}: if an input decides about that and is always "
                "the same, make it a constant, such as source.constants: {NAME: VALUE}"
            ) from None
        forms.append([_fit(*pair) for pair in zip_longest(items, *forms[:1])] if forms else items)
        return list(_tensors(forms[-1]))

    try:
        values = c.if_(condition, partial(write, then), partial(write, other))
    except ValueError:
        values = []
    if len(forms) < 2 or not _same_form(*forms):
        left, right = ([_describe(item) for item in form] for form in forms)
        raise node.refuse(
            f"returns {', '.join(left)} or {', '.join(right)}, as its condition decides when the model runs",
            "make its condition a constant with source.constants, or make both shapes equal",
        )
    return _rebuild(forms[0], values)


def _fit(item: Item, like: Item) -> Item:
    """One element in the shape that the other branch gives it, which may be that of a scalar."""
    if not (isinstance(item, Value) and isinstance(like, Value)):
        return item
    if prod(item.shape) == prod(like.shape) == 1 and item.shape != like.shape:
        return s.reshape(item, like.shape)
    return item


def _tensors(items: Sequence[Item]) -> Iterator[Value]:
    """The tensors of items, those of sequences one by one."""
    for item in items:
        if isinstance(item, TensorList):
            yield from item.values
        elif isinstance(item, Value):
            yield item


def _rebuild(form: Sequence[Item], tensors: Sequence[Value]) -> list[Item]:
    """Items of the same form, made of other tensors."""
    rest = iter(tensors)
    made: list[Item] = []
    for item in form:
        if isinstance(item, TensorList):
            made.append(TensorList(tuple(next(rest) for _ in item.values), item.dtype))
        else:
            made.append(next(rest) if isinstance(item, Value) else item)
    return made


def _same_form(left: Sequence[Item], right: Sequence[Item]) -> bool:
    """Whether items have the same types, shapes and lengths."""
    return [_describe(item) for item in left] == [_describe(item) for item in right]


def _describe(item: Item) -> str:
    if isinstance(item, Value):
        return f"{item.dtype}{list(item.shape)}"
    if isinstance(item, TensorList):
        return f"a sequence of {len(item.values)} ({', '.join(map(_describe, item.values))})"
    return "nothing"


# --- loops ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loop:
    """A `Loop` node."""

    node: Node
    body: Closure
    turns: Value | None
    """At most so many."""
    condition: Value
    """Whether there is a first turn."""
    state: list[Item]

    @property
    def builder(self) -> Builder:
        return self.node.builder

    @property
    def limit(self) -> int | None:
        """The number of turns that there are at most, if it is known."""
        if self.turns is None or self.turns.known is None:
            return None
        number = int(self.turns.known.reshape(()))
        return max(number, 0) if number <= _MOST else None

    @property
    def unlimited(self) -> bool:
        """Whether only the condition ends the loop."""
        return self.turns is None or (self.turns.known is not None and self.limit is None)

    def turn(self, number: Value, condition: Value, state: Sequence[Item]) -> list[Item]:
        """Writes the body; returns the next condition, the next state, and rows of results."""
        return self.body.write([number, condition, *state])

    def endless(self) -> UnsupportedModelError:
        return self.node.refuse(
            "loops until a condition holds that depends on the inputs",
            "export the loop with a fixed number of turns and no other outputs than its state",
        )


@operator("Loop")
def loop(node: Node) -> Result:
    """A loop, or its turns one after another."""
    turns, going = node.optional(0), node.optional(1)
    condition = node.builder.constant(np.True_) if going is None else going
    one = _Loop(node, node.closure("body"), turns, condition, list(node.inputs[2:]))
    known = condition.known
    if one.limit == 0 or (known is not None and not bool(known.reshape(()))):
        return _Once(one).none()
    if one.limit is not None and one.limit <= FEW_TURNS:
        return _Turns(one).write()
    if one.unlimited and condition.known is not None:
        turns_ = _known_turns(one)
        if turns_ is None:
            return _once(one)
        if turns_ > FEW_TURNS:
            try:
                return _Once(one).counted(turns_)
            except (_UnfitBodyError, UnsupportedModelError, ValueError):
                pass  # shapes change from turn to turn
        return _Turns(one).write()
    try:
        return _once(one)
    except (_UnfitBodyError, UnsupportedModelError):
        if one.limit is None:
            raise
    return _Turns(one).write()


def _once(loop: _Loop) -> list[Item]:
    """The loop with its body written once."""
    try:
        return _Once(loop).write()
    except _UnfitBodyError as error:
        raise loop.node.refuse(str(error), "keep the shapes in each turn") from error


class _Once:
    """A loop with its body written once. State that no turn changes stays what it is outside."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop
        self._count = len(loop.state)
        self._moving = [
            number
            for number in range(self._count)
            if not _passes(loop.body.graph, 1 + number, 2 + number)
        ]
        self._form = [loop.state[number] for number in self._moving]

    def write(self) -> list[Item]:
        """The last state, and the stacked rows of the results."""
        loop = self._loop
        sure, rows = self._probe()
        if sure and loop.unlimited:
            raise loop.node.refuse(
                "loops without an end", "give it a number of turns or a condition that ends it"
            )
        if sure and loop.limit is not None:
            return self.counted(loop.limit)
        if rows:
            raise loop.node.refuse(
                "returns a row for each turn, and the inputs decide how many turns there are",
                "fix the input that it depends on with source.constants, or export the loop with a "
                "fixed number of turns and no condition",
            )
        return self._conditional(sure=sure)

    def _body(self, number: Value, going: Value, moving: Sequence[Value]) -> list[Item]:
        state = list(self._loop.state)
        for place, item in zip(self._moving, _rebuild(self._form, moving), strict=True):
            state[place] = item
        return self._loop.turn(number, going, state)

    def _after(self, written: Sequence[Item]) -> list[Value]:
        """The tensors of the state that changes."""
        after = [written[1 + place] for place in self._moving]
        if not _same_form(after, self._form):
            raise _UnfitBodyError("changes the shape of its state")
        return list(_tensors(after))

    def _rows(self, written: Sequence[Item]) -> list[Value]:
        rows = [item for item in written[1 + self._count :] if isinstance(item, Value)]
        if len(rows) != len(written) - 1 - self._count:
            raise _UnfitBodyError("returns rows that are no tensors")
        return rows

    def _probe(self) -> tuple[bool, list[Value]]:
        """Whether nothing but the number of turns ends the loop, and rows of the results."""
        loop = self._loop
        rows: list[Value] = []
        sure = False

        def write(values: list[Value]) -> list[Value]:
            nonlocal sure
            number, going, *moving = values
            written = self._body(number, going, moving)
            goes = written[0]
            always = isinstance(goes, Value) and goes.known is not None and bool(goes.known.all())
            stays = goes is going or _passes(loop.body.graph, 0, 1)
            first = loop.condition.known
            sure = (always or stays) and first is not None and bool(first.all())
            rows.extend(self._rows(written))
            return self._after(written)

        kinds: list[Kind] = [(INT64, ()), (BOOL, ())]
        loop.builder.region([*kinds, *((v.dtype, v.shape) for v in _tensors(self._form))], write)
        return sure, rows

    def none(self) -> list[Item]:
        """The results of a loop without turns."""
        _, rows = self._probe()
        empty = [s.full(self._loop.builder, (0, *row.shape), 0, row.dtype) for row in rows]
        return [*self._loop.state, *empty]

    def counted(self, turns: int) -> list[Item]:
        """The results after a known number of turns, whatever the condition is.

        Raises:
            _UnfitBodyError, ValueError: A turn changes the shape of its state.
        """
        loop = self._loop

        def write(
            before: list[Value], _: list[Value], place: Value
        ) -> tuple[list[Value], list[Value]]:
            going = loop.builder.constant(np.True_)
            written = self._body(e.convert(place, INT64), going, before)
            return self._after(written), self._rows(written)

        state = list(_tensors(self._form))
        last, stacked = c.scan(write, state, [], turns, builder=loop.builder)
        return [*self._state(last), *stacked]

    def _conditional(self, *, sure: bool) -> list[Item]:
        """A loop that a condition of inputs ends."""
        loop = self._loop
        limit = _limit(loop)
        start = [loop.builder.constant(0, INT32), s.reshape(e.convert(loop.condition, BOOL), [])]

        def goes(values: list[Value]) -> Value:
            inside = values[1] if limit is None else values[0] < limit
            return inside if limit is None or sure else e.and_(inside, values[1])

        def write(values: list[Value]) -> list[Value]:
            number, going, *moving = values
            written = self._body(e.convert(number, INT64), going, moving)
            following = written[0]
            if not isinstance(following, Value):
                raise _UnfitBodyError("returns a condition that is no tensor")
            return [number + 1, s.reshape(e.convert(following, BOOL), []), *self._after(written)]

        results = c.while_loop(goes, write, [*start, *_tensors(self._form)])
        return self._state(results[2:])

    def _state(self, tensors: Sequence[Value]) -> list[Item]:
        state = list(self._loop.state)
        for place, item in zip(self._moving, _rebuild(self._form, tensors), strict=True):
            state[place] = item
        return state


def _known_turns(loop: _Loop) -> int | None:
    """After how many turns the condition ends a loop, if that follows from known values alone.

    Only what the condition depends on is computed, turn after turn, and nothing of it is written.
    """
    body = loop.body.graph
    count = len(loop.state)
    inputs = [value.name for value in body.input]
    outputs = [value.name for value in body.output[: 1 + count]]
    places = {0}
    while True:
        read = loop.body.needed([outputs[n] for n in places])
        more = places | {n for n in range(1, 1 + count) if inputs[1 + n] in read}
        if more == places:
            break
        places = more
    order = sorted(places)
    turns = 0

    def simulate(_: list[Value]) -> list[Value]:
        nonlocal turns
        state = dict(zip(inputs[2:], loop.state, strict=True))
        going: Item = loop.condition
        while isinstance(going, Value) and going.known is not None:
            if not bool(going.known.reshape(())):
                return []
            turns += 1
            if turns > _COUNTED:
                break
            number = loop.builder.constant(turns - 1, INT64)
            values = {inputs[0]: number, inputs[1]: going, **state}
            names = [outputs[n] for n in order]
            going, *rest = loop.body.write_some(values, names)
            state |= {inputs[1 + n]: item for n, item in zip(order[1:], rest, strict=True)}
        turns = -1
        return []

    loop.builder.region([], simulate)
    return turns if turns >= 0 else None


def _limit(loop: _Loop) -> Value | None:
    """The largest number of turns as an int32; None if only the condition ends the loop."""
    if loop.turns is None or loop.unlimited:
        return None
    return e.convert(e.minimum(s.reshape(loop.turns, []), _MOST), INT32)


def _passes(graph: onnx.GraphProto, output: int, source: int) -> bool:
    """Whether an output of a body is an input, unchanged."""
    names = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Identity" and node.domain in ("", "ai.onnx")
    }
    name = graph.output[output].name
    while name in names:
        name = names[name]
    return name == graph.input[source].name


class _Turns:
    """A loop whose turns are written one after another."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop
        self._rows: list[list[Item]] = [[] for _ in range(loop.body.outputs - 1 - len(loop.state))]

    def write(self) -> list[Item]:
        """The last state, and the stacked rows of the results."""
        loop = self._loop
        state, condition = list(loop.state), loop.condition
        turns = self._number()
        active: Value | None = None
        for turn in range(turns):
            if active is None and condition.known is not None:
                if not bool(condition.known.reshape(())):
                    break
            elif loop.unlimited or self._rows:
                raise loop.endless()
            else:
                flag = s.reshape(e.convert(condition, BOOL), [])
                active = flag if active is None else e.and_(active, flag)
            going, after = self._turn(turn, condition, state)
            state = after if active is None else self._select(active, after, state)
            condition = going
        else:
            if loop.unlimited:
                raise loop.endless()
        return [*state, *(self._stack(rows) for rows in self._rows)]

    def _number(self) -> int:
        loop = self._loop
        if loop.unlimited:
            return MAX_TURNS
        if loop.limit is None:
            raise loop.node.refuse(
                "loops as often as the inputs decide",
                "fix the input that it depends on with source.constants, or export the loop with a "
                "fixed number of turns",
            )
        if loop.limit > MAX_TURNS and loop.condition.known is None:
            raise loop.endless()
        return loop.limit

    def _turn(self, turn: int, condition: Value, state: Sequence[Item]) -> tuple[Value, list[Item]]:
        loop = self._loop
        if turn >= MAX_TURNS:
            raise loop.node.refuse(
                f"changes shapes in each turn and makes more than {MAX_TURNS} turns",
                "keep the shapes in each turn, or make fewer turns",
            )
        written = loop.turn(loop.builder.constant(turn, INT64), condition, state)
        going, count = written[0], len(loop.state)
        if not isinstance(going, Value):
            raise TypeError("the condition of the next turn is not a tensor")
        for rows, row in zip(self._rows, written[1 + count :], strict=True):
            rows.append(row)
        return going, written[1 : 1 + count]

    def _select(self, active: Value, after: Sequence[Item], before: Sequence[Item]) -> list[Item]:
        if not _same_form(after, before):
            raise self._loop.node.refuse(
                "changes the shape of its state", "keep the shapes in each turn"
            )
        chosen = c.choose(active, list(_tensors(after)), list(_tensors(before)))
        return _rebuild(after, chosen)

    def _stack(self, rows: Sequence[Item]) -> Value:
        values = [row for row in rows if isinstance(row, Value)]
        if len(values) != len(rows):
            raise TypeError("a row of a result is not a tensor")
        if len({value.shape for value in values}) > 1:
            raise self._loop.node.refuse(
                "returns rows of different shapes", "return them as a sequence in its state"
            )
        return s.stack(values, 0)
