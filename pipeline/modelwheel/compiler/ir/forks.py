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

from ...program.ops import Branches
from .graph import Carried, Graph, Node, Part, Piece, Region, Value


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
        position = max(map(self.region.position, nodes))
        moving = set(nodes)
        left = [node for node in self._before[:position] if node not in moving]
        self.region.reset([*left, self.node, *self._before[position + 1 :]])
        self.node.region = self.region
        for branch in self.branches:
            inner = Region(owner=self.node)
            inner.reset(branch)
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
        self.region.reset(self._before)
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
        results[number] = Piece.whole(value)
        self.node.carried.append(Carried(after, results=tuple(results)))
        value.users.append(self.node)

    def _redirect(self, old: Value, new: Value) -> None:
        """Lets all that is outside of the fork use another value."""

        def change(part: Part) -> Part:
            return _other(part, old, new)

        outside = [user for user in old.users if not user.inside(self.node)]
        for user in dict.fromkeys(outside):
            self.graph.rewrite(user, change)
        self.graph.results = [
            (_other(piece, old, new), place) for piece, place in self.graph.results
        ]


def _other(part: Part, old: Value, new: Value) -> Part:
    return replace(part, value=new) if part.value is old else part
