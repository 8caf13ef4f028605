"""Puts nodes of a graph into branches that may run at the same time, and takes them out again.

    %2 = while (%1)                  %4, %5 = branches
    %3 = while (%1)           =>       %2 = while (%1); yield %2
    %4 = kernel %2, %3                 %3 = while (%1); yield %3
                                     %6 = kernel %4, %5

What nodes outside use of the values of a branch, the fork hands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ...program.ops import Branches
from .graph import Carried, Graph, Node, Operand, Piece, Region, Value

_Part = TypeVar("_Part", Piece, Operand)


@dataclass
class Fork:
    """Nodes of one region as branches of a new node, which is where the last of them was.

    No node between the first and the last of them that is in no branch may use their values.
    """

    graph: Graph
    region: Region
    branches: Sequence[Sequence[Node]]
    """The nodes of each branch, in order."""
    node: Node = field(init=False)
    _before: list[Node] = field(init=False)

    def apply(self) -> None:
        """Makes the fork."""
        nodes = [node for branch in self.branches for node in branch]
        origin = self.branches[0][-1].origin
        self.node = Node(Branches(), origin=origin)
        self._before = list(self.region.nodes)
        position = max(map(self.region.nodes.index, nodes))
        moving = set(nodes)
        left = [node for node in self._before[:position] if node not in moving]
        self.region.nodes[: position + 1] = [*left, self.node]
        self.node.region = self.region
        for branch in self.branches:
            inner = Region(list(branch), owner=self.node)
            self.node.regions.append(inner)
            for node in branch:
                node.region = inner
        for number, branch in enumerate(self.branches):
            for value in (value for node in branch for value in node.values):
                if self._is_used_outside(value):
                    self._hand_on(value, number)

    def undo(self) -> None:
        """Puts all nodes back where they were."""
        for carried in self.node.carried:
            (piece,) = (piece for piece in carried.results if piece is not None)
            piece.value.users.remove(self.node)
            self._redirect(carried.value, piece.value)
        self.region.nodes[:] = self._before
        for node in self._before:
            node.region = self.region

    def _is_used_outside(self, value: Value) -> bool:
        is_result = any(piece.value is value for piece, _ in self.graph.results)
        return is_result or not all(user.inside(self.node) for user in value.users)

    def _hand_on(self, value: Value, number: int) -> None:
        """Lets nodes outside use a value of the fork in the place of one of a branch."""
        after = Value(value.size, producer=self.node, home=value.home)
        self._redirect(value, after)
        results: list[Piece | None] = [None] * len(self.branches)
        results[number] = Piece(value, 0, value.size)
        self.node.carried.append(Carried(after, results=tuple(results)))
        value.users.append(self.node)

    def _redirect(self, old: Value, new: Value) -> None:
        """Lets all that is outside of the fork use another value."""
        for user in [user for user in old.users if not user.inside(self.node)]:
            old.users.remove(user)
            new.users.append(user)
        for user in dict.fromkeys(new.users):
            _change(user, old, new)
        self.graph.results = [
            (_other(piece, old, new), place) for piece, place in self.graph.results
        ]


def _change(node: Node, old: Value, new: Value) -> None:
    node.inputs = {role: _other(one, old, new) for role, one in node.inputs.items()}
    for role, result in node.outputs.items():
        near = tuple(_other(piece, old, new) for piece in result.near)
        base = result.base and _other(result.base, old, new)
        node.outputs[role] = replace(result, base=base, near=near)
    for carried in node.carried:
        carried.initial = carried.initial and _other(carried.initial, old, new)
        carried.results = tuple(piece and _other(piece, old, new) for piece in carried.results)


def _other(part: _Part, old: Value, new: Value) -> _Part:
    return replace(part, value=new) if part.value is old else part
