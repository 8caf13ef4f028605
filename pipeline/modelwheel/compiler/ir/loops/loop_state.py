"""Splits the state of loops: what XLA has in memory that another value needed too is not one state with it.

    %1 = while (%0) {trip_count=3}                      %1 = while (%0+192) {trip_count=3}
      body(%2):                                           body(%2):
        %3 u8[64] = kernel %2+192 u8[64]                    %3 u8[64] = kernel %2 u8[64]
        %4 u8[256] = kernel %3 u8[64]             =>        %4 u8[256] = kernel %3 u8[64]
        %5 u8[64] = kernel %4 u8[256]                       %5 u8[64] = kernel %4 u8[256]
        %6 u8[256] = join %4 u8[192], %5 u8[64]             yield %5
        yield %6

Bytes that nobody reads before they are written are no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ....program.arrays import Slice
from ....program.ops import While
from ....program.view import View
from ..erasing import tidy
from ..graph import INSIDE, Carried, Graph, Join, Node, Operand, Part, Piece, Result, Value
from ..ordering import piece_of


def split_state(graph: Graph) -> None:
    """Splits the state of all loops into what is read of it. Values stay where XLA has them."""
    changed = graph.changed
    for loop in reversed([node for node in graph.walk() if isinstance(node.op, While)]):
        _find_condition(graph, loop)
        split = [_Splitting(graph, loop, carried).apply() for carried in list(loop.carried)]
        if any(split):
            tidy(graph)
    graph.changed = changed


def _find_condition(graph: Graph, loop: Node) -> None:
    """Lets a loop read its condition itself, and not what it is joined with."""
    condition = loop.inputs.get("condition")
    join = None if condition is None else condition.value.producer
    if condition is None or join is None or not condition.value.has_one_use:
        return
    source = _piece_with(join, condition)
    if source is not None:
        condition.value.users.remove(loop)
        source.value.users.append(loop)
        loop.inputs["condition"] = source
        graph.detach(join)


def _piece_with(join: Node, operand: Operand) -> Operand | None:
    """An operand that is part of one of several pieces, as that piece has it."""
    read = _range_of(operand.view.slice)
    piece = _piece_at(join, read) if isinstance(join.op, Join) else None
    return None if piece is None else operand.moved(piece.value, piece.offset - read.start)


class _Range(NamedTuple):
    """Bytes of the state, from an offset on."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def has(self, other: _Range) -> bool:
        """Whether it has all of another one."""
        return self.start <= other.start and other.stop <= self.stop


class _Splitting:
    def __init__(self, graph: Graph, loop: Node, carried: Carried) -> None:
        self._graph = graph
        self._loop = loop
        self._carried = carried
        self._own = [carried.value, *(argument for argument in carried.arguments if argument)]
        """What is in the memory of the state: after the loop, and at the start of its regions."""
        self._joins = [self._join(piece) for piece in carried.results]
        """The nodes, by the region, that only make one value of the state that a region leaves."""
        self._left = [list(self._sources(number)) for number in range(len(carried.results))]
        """What each region leaves: where it is in the state."""
        self._condition = self._read_condition()

    def apply(self) -> bool:
        """Splits the state unless all of it is read together; returns whether it has."""
        if self._carried.value.home is None:
            return False
        ranges = _merged(self._reads())
        if ranges == [_Range(0, self._carried.value.size)] or self._hides_condition(ranges):
            return False
        before = self._initial(ranges)
        self._replace({part: self._part(part, before[part]) for part in ranges})
        return True

    # --- what is there -------------------------------------------------------------------------------

    def _join(self, left: Piece | None) -> Node | None:
        if left is None or left.size != left.value.size:
            return None
        node = left.value.producer
        pieces = [piece for carried in self._loop.carried for piece in carried.results]
        is_only_use = sum(piece is not None and piece.value is left.value for piece in pieces) == 1
        if node is None or not isinstance(node.op, Join) or not is_only_use:
            return None
        return node if set(left.value.users) == {self._loop} else None

    def _sources(self, number: int) -> Iterator[tuple[_Range, Piece]]:
        left, join = self._carried.results[number], self._joins[number]
        if join is not None:
            yield from _pieces_of(join)
        elif left is not None:
            yield _Range(0, left.size), left

    def _read_condition(self) -> Operand | None:
        """The operand that the loop reads as its condition, even where that is a part of its state."""
        condition = self._loop.inputs.get("condition")
        for join in self._joins:
            if condition is not None and join is not None and condition.value.producer is join:
                return _piece_with(join, condition) or condition
        return condition

    def _hides_condition(self, ranges: list[_Range]) -> bool:
        """Whether the condition is one of several pieces of what would still be one value."""
        before = self._loop.inputs.get("condition")
        if before is None or before is self._condition:
            return False
        read = _range_of(before.view.slice)
        whole = [part for part, _ in self._left[0] if part.has(read)]
        return any(
            _meet(span, read) and not all(part.has(span) for part in whole) for span in ranges
        )

    # --- what is read --------------------------------------------------------------------------------

    def _reads(self) -> Iterator[_Range]:
        """The bytes that others read together, or have in the same place."""
        for value in self._own:
            for user in dict.fromkeys(value.users):
                if user not in self._joins:
                    yield from (
                        _range(piece) for piece in self._used_by(user) if piece.value is value
                    )
        yield from (_range(piece) for piece, _ in self._graph.results if piece.value in self._own)
        for left in self._left:
            for part, piece in left:
                if piece.value in self._own and piece.offset != part.start:
                    yield _range(piece)
        if self._condition is not None and self._condition.value in self._own:
            yield _range_of(self._condition.view.slice)

    def _used_by(self, user: Node) -> Iterator[Piece]:
        """The bytes that a node uses, but for what the loop does with its state itself."""
        for name, operand in user.inputs.items():
            if user is not self._loop or name != "condition":
                yield piece_of(operand)
        for result in user.outputs.values():
            yield from (piece for piece in (result.base, *result.near) if piece is not None)
        for carried in user.carried:
            left = () if carried is self._carried else carried.results
            yield from (piece for piece in (carried.initial, *left) if piece is not None)

    # --- parts ---------------------------------------------------------------------------------------

    def _initial(self, ranges: list[_Range]) -> dict[_Range, Piece | None]:
        """The values before the loop: pieces themselves if nobody else needs what joins them."""
        initial = self._carried.initial
        if initial is None:
            return dict.fromkeys(ranges)
        whole: dict[_Range, Piece | None] = {part: _first(initial, part) for part in ranges}
        join = initial.value.producer
        if join is None or not isinstance(join.op, Join) or not initial.value.has_one_use:
            return whole
        pieces = {part: _piece_at(join, _range(_first(initial, part))) for part in ranges}
        return whole if None in pieces.values() else pieces

    def _part(self, part: _Range, initial: Piece | None) -> Carried:
        """A part of the state, without what regions leave there."""
        place = _place(self._carried.value, part)
        arguments = tuple(
            Value(part.size, "argument", self._loop, place) if argument is not None else None
            for argument in self._carried.arguments
        )
        return Carried(Value(part.size, producer=self._loop, home=place), initial, arguments, ())

    def _replace(self, parts: dict[_Range, Carried]) -> None:
        """Puts parts in the place of the state."""
        others = {
            (value, part): other
            for part, carried in parts.items()
            for value, other in zip(
                (self._carried.value, *self._carried.arguments),
                (carried.value, *carried.arguments),
                strict=True,
            )
            if value is not None and other is not None
        }

        def change(used: Part) -> Part:
            read = _range_of(used.view.slice) if isinstance(used, Operand) else _range(used)
            for (value, part), other in others.items():
                if used.value is value and part.has(read):
                    return used.moved(other, -part.start)
            return used

        graph, loop = self._graph, self._loop
        for part, carried in parts.items():
            carried.results = tuple(
                self._left_in(number, part) for number in range(len(self._left))
            )
        users = [user for value in self._own for user in value.users if user not in self._joins]
        if self._condition is not None:
            loop.inputs["condition"].value.users.remove(loop)
            self._condition.value.users.append(loop)
            loop.inputs["condition"] = self._condition
        position = loop.carried.index(self._carried)
        for piece in (self._carried.initial, *self._carried.results):
            if piece is not None:
                piece.value.users.remove(loop)
        loop.carried[position : position + 1] = parts.values()
        for carried in parts.values():
            for piece in (carried.initial, *carried.results):
                if piece is not None:
                    piece.value.users.append(loop)
        for user in dict.fromkeys([*users, loop]):
            graph.rewrite(user, change)
        graph.results = [(change(piece), place) for piece, place in graph.results]
        for join in self._joins:
            if join is not None:
                graph.detach(join)

    def _left_in(self, number: int, part: _Range) -> Piece | None:
        """The piece that a region leaves in a part of the state."""
        if self._carried.results[number] is None:
            return None
        sources = [(where, piece) for where, piece in self._left[number] if _meet(where, part)]
        for where, piece in sources:
            if where.has(part):
                return _first(piece, _Range(part.start - where.start, part.stop - where.start))
        place = _place(self._carried.value, part)
        join = self._joins[number]
        if join is None or not sources:
            return Piece(Value(part.size, "undefined", home=place), 0, part.size)
        return self._joined(join, part, sources)

    def _joined(self, old: Node, part: _Range, sources: list[tuple[_Range, Piece]]) -> Piece:
        """One value of several pieces, each cut to what is in a part of the state."""
        whole = Value(part.size, home=_place(self._carried.value, part))
        pieces, places = {}, []
        for number, (where, piece) in enumerate(sources):
            start, stop = max(where.start, part.start), min(where.stop, part.stop)
            offset = piece.offset + start - where.start
            at = Slice(allocation=INSIDE, offset=offset, size=stop - start)
            pieces[f"piece{number}"] = Operand(piece.value, View.of_bytes(at))
            places.append(start - part.start)
        at = Slice(allocation=INSIDE, offset=0, size=part.size)
        node = Node(Join(places=tuple(places)), pieces, {"whole": Result(whole, View.of_bytes(at))})
        self._graph.insert(node, old)
        return Piece(whole, 0, part.size)


def _pieces_of(join: Node) -> Iterator[tuple[_Range, Piece]]:
    """The pieces that a node joins, with where they are in the whole."""
    assert isinstance(join.op, Join)
    for operand, at in zip(join.inputs.values(), join.op.places, strict=True):
        part = operand.view.slice
        yield _Range(at, at + part.size), Piece(operand.value, part.offset, part.size)


def _piece_at(join: Node, part: _Range) -> Piece | None:
    """Bytes of a whole as the piece has them that has all of them."""
    for where, piece in _pieces_of(join):
        if where.has(part):
            return _first(piece, _Range(part.start - where.start, part.stop - where.start))
    return None


def _place(value: Value, part: _Range) -> Slice:
    """Where XLA has a part of a value."""
    assert value.home is not None
    update = {"offset": value.home.offset + part.start, "size": part.size}
    return value.home.model_copy(update=update)


def _range(piece: Piece) -> _Range:
    return _Range(piece.offset, piece.offset + piece.size)


def _range_of(part: Slice) -> _Range:
    return _Range(part.whole.offset, part.whole.offset + part.whole.size)


def _meet(left: _Range, right: _Range) -> bool:
    return left.start < right.stop and right.start < left.stop


def _first(piece: Piece, part: _Range) -> Piece:
    """A part of some bytes of a value."""
    return Piece(piece.value, piece.offset + part.start, part.size)


def _merged(ranges: Iterable[_Range]) -> list[_Range]:
    """Ranges without overlaps that together are some ranges; those that only touch stay apart."""
    spans: list[_Range] = []
    for span in sorted(ranges):
        if spans and span.start < spans[-1].stop:
            spans[-1] = _Range(spans[-1].start, max(spans[-1].stop, span.stop))
        elif span.size:
            spans.append(span)
    return spans
