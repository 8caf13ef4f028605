"""Lets loops that need nothing of each other run at the same time, such as both directions of a recurrent layer.

    %3 = dot %0, %1                         %6, %7 = branches
    %4 = while (%3) {trip_count=9}            %3 = dot %0, %1; %4 = while (%3) {trip_count=9}; yield %4
    %5 = dot %0, %2                   =>      %5 = dot %0, %2; %8 = while (%5) {trip_count=9}; yield %8
    %8 = while (%5) {trip_count=9}

The steps of such loops are too small for threads to share, but each loop may have a thread. XLA runs one after the other.

When: loops with known trip counts in one sequence, neither of which uses what the other one or a step between them makes
of it; in loops and choices too. Products that only one of them reads are part of its branch. Each branch needs memory of
its own: the program may take as much more as `_FEW_BYTES` or `_MOST_OF_OTHERS` say. Whether threads pay is decided when
the call is written (`codegen/cost.py`). Bits: the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...program.ops import Branches, Dot, RandomState, While
from ...thresholds import THRESHOLDS
from ..ir.assignment.assign import assign
from ..ir.assignment.proof import UnprovenError
from ..ir.forks import Fork
from ..ir.graph import Graph, Join, Node, Region

_MOST_BETWEEN = 64
"""Steps between two loops: where the search ends."""
_FEW_BYTES = 128 * 1024
"""A program may have as much for temporaries of branches, most of which find gaps between others."""
_MOST_OF_OTHERS = 4
"""So may one that has so many times as much for temporaries in XLA's plan."""


class ForkBranches:
    """See above."""

    name = "fork-branches"

    def run(self, graph: Graph) -> int:
        """Forks; returns the number of forks."""
        return _Forking(graph).region(graph.body)


@dataclass
class _Forking:
    graph: Graph
    most: int | None = None
    """Bytes of temporaries that the program may have; None if no loops were found yet."""

    def region(self, region: Region) -> int:
        """Forks the loops of a region, and those in its loops and choices; branches have no branches in them."""
        made, position = 0, 0
        while position < len(region.nodes):
            if _is_loop(region.nodes[position]):
                fork = self._largest(region, position)
                if fork is not None:
                    made += 1
                    position = region.position(fork.node)
            position += 1
        inner = (i for n in region.nodes if not isinstance(n.op, Branches) for i in n.regions)
        return made + sum(map(self.region, inner))

    def _largest(self, region: Region, position: int) -> Fork | None:
        """Forks a loop and as many of those behind it as possible."""
        groups = [_Group.at(self.graph, region, position)]
        while groups[-1].number < THRESHOLDS.most_parts and (larger := groups[-1].with_next()):
            groups.append(larger)
        made: Fork | None = None
        for group in groups[1:]:
            if made is not None:
                made.undo()
            fork = Fork(self.graph, region, group.branches)
            if not self._has_memory(fork):
                if made is not None:
                    made.apply()
                break
            made = fork
        return made

    def _has_memory(self, fork: Fork) -> bool:
        """Forks if there is memory for it."""
        if self.most is None:
            planned = sum(a.size for a in self.graph.allocations if a.kind == "temporary")
            more = max(planned // _MOST_OF_OTHERS, _FEW_BYTES)
            self.most = _temporary(self.graph) + more
        was = self.graph.changed
        fork.apply()
        self.graph.changed = True
        try:
            if _temporary(self.graph) <= self.most:
                return True
        except UnprovenError:
            pass  # A branch changes what another one reads in the same place.
        fork.undo()
        self.graph.changed = was
        return False


def _temporary(graph: Graph) -> int:
    """Bytes of the temporaries of a program."""
    return sum(a.size for a in assign(graph)[1] if a.kind == "temporary")


def _is_loop(node: Node) -> bool:
    """Whether a node is a loop with a known trip count that leaves the random state alone."""
    if not isinstance(node.op, While) or not node.op.trip_count or node.regions[0].nodes:
        return False
    return not any(isinstance(inner.op, RandomState) for inner in _walk(node))


def _walk(node: Node) -> list[Node]:
    """A node and all that are inside of it."""
    return [node, *(deep for r in node.regions for inner in r.nodes for deep in _walk(inner))]


@dataclass
class _Group:
    """Loops of one region, each with the products that only it reads."""

    graph: Graph
    nodes: Sequence[Node]
    """Those of the region."""
    region: Region
    start: int
    """Where a branch may begin."""
    end: int
    """Behind its last loop."""
    branches: tuple[tuple[Node, ...], ...]

    @classmethod
    def at(cls, graph: Graph, region: Region, position: int) -> _Group:
        """A single loop."""
        nodes, start = tuple(region.nodes), position
        while start and isinstance(nodes[start - 1].op, Dot | Join):
            start -= 1
        group = cls(graph, nodes, region, start, position + 1, ())
        group.branches = (group._branch(position),)
        return group

    def __post_init__(self) -> None:
        self._members = set(self.nodes)

    @property
    def number(self) -> int:
        """Of branches."""
        return len(self.branches)

    def with_next(self) -> _Group | None:
        """The group with the next loop; None if that, or a step before it, uses what the group computes."""
        inside = {node for branch in self.branches for node in branch}
        for position, node in enumerate(self.nodes[self.end :][:_MOST_BETWEEN], self.end):
            if any(self._outer(v.producer) in inside for deep in _walk(node) for v in deep.used):
                return None
            if _is_loop(node):
                branches = (*self.branches, self._branch(position))
                return _Group(
                    self.graph, self.nodes, self.region, self.start, position + 1, branches
                )
        return None

    def _branch(self, position: int) -> tuple[Node, ...]:
        """A loop behind the products that only it reads, for all its iterations."""
        branch = [self.nodes[position]]
        for node in reversed(self.nodes[self.start : position]):
            views = [operand.view for operand in node.inputs.values()]
            views += [result.view for result in node.outputs.values()]
            users = {self._outer(user) for value in node.values for user in value.users}
            if (
                isinstance(node.op, Dot | Join)
                and users
                and users <= set(branch)
                and not any(view.slice.step for view in views)
                and not any(piece.value in node.values for piece, _ in self.graph.results)
            ):
                branch.insert(0, node)
        return tuple(branch)

    def _outer(self, node: Node | None) -> Node | None:
        """The node of the region that a node is or is in; None if it is outside."""
        while node is not None and node not in self._members:
            node = node.region.owner if node.region else None
        return node
