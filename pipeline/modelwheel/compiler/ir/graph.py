"""Graphs: a program as values, before they have memory.

    %3 f32[4,8] = dot %1 f32[4,16], %2 f32[16,8]
    %4 f32[4,8] = kernel %3 {symbol=fusion_1}

Each value has one producer, and users. A node has operands by role, as steps have: a value, and a view inside of it. The
memory that a value has in the end is chosen by `assign`; what must be in one place is tied: a result to the value whose
bytes it leaves where it does not write (`Result.base`), the pieces of a join to the whole, the state of a loop to itself.

Only the mutators of `Graph`, `erasing`, `forks`, `loop_bodies` and `loop_state` change a graph; `SumInResults` changes results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, TypeAlias, TypeVar

from ...program.arrays import Allocation, Slice
from ...program.op_names import join_names
from ...program.ops import Alias, AnyOp, Conditional, Role
from ...program.view import View
from .hlo import Instruction, Module
from .op_origins import origin_of

INSIDE = -1
"""The allocation of views inside of a value."""

Source: TypeAlias = Literal["parameter", "constant", "undefined", "argument", "node"]


@dataclass(frozen=True)
class Join:
    """Puts values that are pieces of one array where it has them. Nothing runs for it: they are computed there."""

    INPUTS: ClassVar[tuple[Role, ...]] = (Role("piece", many=True),)
    OUTPUTS: ClassVar[tuple[Role, ...]] = (Role("whole"),)
    ALIASES: ClassVar[tuple[Alias, ...]] = ()
    REGIONS: ClassVar[tuple[str, ...]] = ()
    kind: Literal["join"] = "join"
    places: tuple[int, ...] = ()
    """Where in the whole each piece begins, in bytes."""


@dataclass(eq=False, repr=False)
class Value:
    """Bytes that one node computes, or that are there from the start."""

    size: int
    """Bytes."""
    source: Source = "node"
    producer: Node | None = None
    """The node that computes it; of an argument of a loop, the loop."""
    home: Slice | None = None
    """Where XLA has it."""
    users: list[Node] = field(default_factory=list)
    """A node that uses it twice is there twice."""

    @property
    def has_one_use(self) -> bool:
        """Whether one operand of one node is all that reads it."""
        return len(self.users) == 1


@dataclass(frozen=True)
class Operand:
    """A value, and what of it a node reads: a view whose slice is inside of the value."""

    value: Value
    view: View

    def moved(self, value: Value, way: int, **changes: int) -> Operand:
        """An operand of these bytes in another value, which has them so many bytes further on; `changes` are of the slice."""
        offset = self.view.slice.offset + way
        part = self.view.slice.model_copy(update={"offset": offset, **changes})
        return Operand(value, self.view.model_copy(update={"slice": part}))


@dataclass(frozen=True)
class Piece:
    """Bytes of a value that are in another one too, at the same place."""

    value: Value
    offset: int
    """Where in `value` they begin."""
    size: int
    at: int = 0
    """Where in the other one they begin."""

    @classmethod
    def whole(cls, value: Value) -> Piece:
        """All bytes of a value."""
        return cls(value, 0, value.size)

    def moved(self, value: Value, way: int) -> Piece:
        """A piece of these bytes in another value, which has them so many bytes further on."""
        return replace(self, value=value, offset=self.offset + way)


Part = TypeVar("Part", Piece, Operand)


class Change(Protocol):
    """Gives each use of a value another one."""

    def __call__(self, part: Part, /) -> Part:
        """The bytes that are used in the place of some others."""


@dataclass(frozen=True)
class Result:
    """A value that a node computes, and where in it the node writes."""

    value: Value
    view: View
    base: Piece | None = None
    """What the value is where the node does not write: the two share memory."""
    near: tuple[Piece, ...] = ()
    """Bytes of operands in whose memory it is at the same place, though it has nothing of them."""


@dataclass(eq=False, repr=False)
class Carried:
    """Memory that outlives the regions of a node: the state of a loop, or what branches write.

    All its values are in one place.
    """

    value: Value
    """What is there after the node."""
    initial: Piece | None = None
    """What is there before it; None if nobody knows or reads it."""
    arguments: tuple[Value | None, ...] = ()
    """Of a loop, what each region finds."""
    results: tuple[Piece | None, ...] = ()
    """What each region leaves; None if it does not change it."""


@dataclass(eq=False, repr=False)
class Region:
    """A sequence of nodes: the outermost one, the body of a loop, or a branch."""

    owner: Node | None = None
    _nodes: list[Node] = field(default_factory=list)
    _positions: dict[Node, int] | None = None
    """Where each node is; None after a change, until somebody asks."""

    @property
    def nodes(self) -> Sequence[Node]:
        """All in order; a view: it changes as the region does."""
        return self._nodes

    def position(self, node: Node) -> int:
        """Where a node is in the sequence; -1 if it is not in it."""
        if self._positions is None:
            self._positions = {node: number for number, node in enumerate(self._nodes)}
        return self._positions.get(node, -1)

    # --- for those that change a graph -----------------------------------------------------------

    def insert(self, node: Node, before: Node | None = None) -> None:
        """Adds a node before another one of the sequence, or at the end."""
        at = len(self._nodes) if before is None else self._nodes.index(before)
        self._nodes.insert(at, node)
        self._positions = None

    def remove(self, node: Node) -> None:
        """Takes a node out of the sequence."""
        self._nodes.remove(node)
        self._positions = None

    def reset(self, nodes: Iterable[Node]) -> None:
        """Makes some nodes the sequence."""
        self._nodes = list(nodes)
        self._positions = None


@dataclass(eq=False, repr=False)
class Node:
    """An operation on values."""

    op: AnyOp | Join
    inputs: dict[str, Operand] = field(default_factory=dict)
    outputs: dict[str, Result] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    carried: list[Carried] = field(default_factory=list)
    operations: int = 0
    origin: str = ""
    covers: frozenset[str] = frozenset()
    """The names of the HLO instructions whose values it computes."""
    region: Region | None = None
    """The sequence that it is in."""

    @property
    def values(self) -> Iterator[Value]:
        """The values that it computes."""
        yield from (result.value for result in self.outputs.values())
        yield from (carried.value for carried in self.carried)

    @property
    def used(self) -> Iterator[Value]:
        """The values that it reads itself, once for each operand; not what nodes inside of it read."""
        yield from (operand.value for operand in self.inputs.values())
        for result in self.outputs.values():
            yield from (piece.value for piece in (result.base, *result.near) if piece is not None)
        for carried in self.carried:
            pieces = (carried.initial, *carried.results)
            yield from (piece.value for piece in pieces if piece is not None)

    def inside(self, loop: Node) -> bool:
        """Whether it is in a region of another node, however deep."""
        owner = self.region.owner if self.region else None
        while owner is not None and owner is not loop:
            owner = owner.region.owner if owner.region else None
        return owner is loop


@dataclass(frozen=True)
class Replacement:
    """The result of a rule: the arguments of `Graph.replace`."""

    nodes: Sequence[Node]
    node: Node
    at: Node | None = None


@dataclass(eq=False, repr=False)
class Graph:
    """A program as values."""

    allocations: tuple[Allocation, ...]
    """Those of the program that it was: parameters, constants and results stay there."""
    body: Region = field(default_factory=Region)
    results: list[tuple[Piece, Slice]] = field(default_factory=list)
    """What callers read in the end, and where they do."""
    changed: bool = False
    """Whether values still are what XLA has at their homes."""
    module: Module | None = None
    """What XLA made the program of; `Node.covers` has names of its instructions."""
    repeated: frozenset[str] = frozenset()
    """The names of instructions for which XLA has several steps, such as copies before a sort."""

    def walk(self, region: Region | None = None) -> Iterator[Node]:
        """Every node in order; those inside of another one after it."""
        for node in (region or self.body).nodes:
            yield node
            for inner in node.regions:
                yield from self.walk(inner)

    @property
    def regions(self) -> Iterator[Region]:
        """Every sequence; those inside of a node come after the one that has it."""
        yield self.body
        for node in self.walk():
            yield from node.regions

    def instructions(self, node: Node) -> list[Instruction]:
        """The instructions whose values a node computes, in the order of the module."""
        return [] if self.module is None else self.module.named(node.covers)

    def merged(self, op: AnyOp, nodes: Sequence[Node]) -> Node:
        """A node, without operands, that does the work of several: it covers what they do."""
        node = Node(op, operations=sum(member.operations for member in nodes))
        node.covers = frozenset(name for member in nodes for name in member.covers)
        own = origin_of(self.module, self.instructions(node)) if self.module else ""
        node.origin = own or join_names(*(member.origin for member in nodes))
        return node

    # --- mutators --------------------------------------------------------------------------------

    def append(self, region: Region, node: Node) -> None:
        """Adds a node at the end of a region; for those who make a graph."""
        region.insert(node)
        self._attach(region, node)

    def insert(self, node: Node, before: Node) -> None:
        """Adds a node just before another one."""
        region = before.region
        assert region is not None
        region.insert(node, before)
        self._attach(region, node)
        self.changed = True

    def update(
        self, node: Node, inputs: Mapping[str, Operand], outputs: Mapping[str, Result]
    ) -> None:
        """Gives a node other operands and results, in its place; what nobody computes then, nobody may use."""
        assert node.region is not None
        for value in node.used:
            value.users.remove(node)
        node.inputs, node.outputs = dict(inputs), dict(outputs)
        self._attach(node.region, node)
        self.changed = True

    def replace(self, nodes: Sequence[Node], node: Node, at: Node | None = None) -> None:
        """Puts a node in the place of some nodes of one region, which go.

        Args:
            nodes: In order. What others still use of their values, `node` computes: it has these values as results.
            node: The new one.
            at: The node of the region, one of them or another, that it comes before; by default the last of them.

        Raises:
            ValueError: The nodes are in several regions, or a value is left that nobody computes.
        """
        region = nodes[-1].region
        if region is None or any(old.region is not region for old in nodes):
            raise ValueError("nodes that one replaces are in one region")
        region.insert(node, at or nodes[-1])
        for old in nodes:
            self.detach(old)
        self._attach(region, node)
        left = [value for old in nodes for value in old.values if value not in set(node.values)]
        if any(value.users for value in left) or any(
            piece.value in left for piece, _ in self.results
        ):
            raise ValueError("nodes are replaced while others use their values")
        self.changed = True

    def hoist(self, node: Node) -> None:
        """Moves a node out of the loop that it is in: it runs once, just before.

        Raises:
            ValueError: It is in no loop, or reads or updates what the loop computes.
        """
        region = node.region
        loop = region.owner if region is not None else None
        if region is None or loop is None or loop.region is None:
            raise ValueError("a node outside of loops cannot move further out")
        inside = {value for node in self.walk() if node.inside(loop) for value in node.values}
        inside |= {value for carried in loop.carried for value in carried.arguments if value}
        views = [operand.view for operand in node.inputs.values()]
        views += [result.view for result in node.outputs.values()]
        moving = any(view.slice.step for view in views)
        own = set(node.values)
        if moving or any(value in inside and value not in own for value in node.used):
            raise ValueError("a node that reads what its loop computes cannot move out of it")
        region.remove(node)
        loop.region.insert(node, loop)
        node.region = loop.region
        self.changed = True

    def replace_uses(self, old: Value, new: Value, at: Slice | None = None) -> None:
        """Lets all nodes that read a value as an operand read another one.

        Args:
            old: The value.
            new: One of the same bytes, or with these bytes among its own.
            at: Where in `new` they are: another place in each iteration if it has a step. By default, they are all of it.
        """
        offset = 0 if at is None else at.offset
        moving = (
            {"step": at.step, "iterations": at.iterations} if at is not None and at.step else {}
        )
        for node in dict.fromkeys(old.users):
            for role, operand in node.inputs.items():
                if operand.value is old:
                    node.inputs[role] = operand.moved(new, offset, **moving)
                    old.users.remove(node)
                    new.users.append(node)
        self.changed = True

    def rewrite(self, node: Node, change: Change) -> None:
        """Lets a node use other values; for those that change a graph.

        Args:
            node: The node.
            change: What it uses in the place of each operand and each piece.
        """
        for value in node.used:
            value.users.remove(node)
        node.inputs = {role: change(operand) for role, operand in node.inputs.items()}
        for role, result in node.outputs.items():
            base, near = result.base and change(result.base), tuple(map(change, result.near))
            node.outputs[role] = replace(result, base=base, near=near)
        for carried in node.carried:
            carried.initial = carried.initial and change(carried.initial)
            carried.results = tuple(piece and change(piece) for piece in carried.results)
        for value in node.used:
            value.users.append(node)

    # --- helpers ----------------------------------------------------------------------------------

    def _attach(self, region: Region, node: Node) -> None:
        node.region = region
        for value in node.values:
            value.producer = node
        for carried in node.carried:
            for argument in carried.arguments:
                if argument is not None:
                    argument.producer = node
        for value in node.used:
            value.users.append(node)

    def detach(self, node: Node) -> None:
        """Takes a node out of its region, with all that is in it; for those that change a graph."""
        assert node.region is not None
        for inner in node.regions:
            for child in list(inner.nodes):
                self.detach(child)
        node.region.remove(node)
        for value in node.used:
            value.users.remove(node)


def is_choice(node: Node) -> bool:
    """Whether only one of its regions runs."""
    return isinstance(node.op, Conditional)
