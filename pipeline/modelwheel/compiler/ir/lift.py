"""Lifts a program to a graph: which step computed what another one reads, whatever memory both use.

    kernel(a5+0 -> a5+64)              %2 = kernel %1
    copy(a5+64 -> a7)             =>   %3 = copy %2
    kernel(a1 -> a5+64)                %4 = kernel %0

Steps are followed in order with a record of what each byte holds. A read of one value, or of a part of it, is an operand;
of several, a join of them. A step that writes only some bytes of its operand (a column, the part of an iteration), or
writes where it reads, has a result with a base. A loop carries what it writes; branches hand on what they write.

Memory that nobody has written is an undefined value: nothing is refused here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...program.aliases import fills, may_be_apart
from ...program.array_rows import ArrayOfRows, arrays_of_rows
from ...program.arrays import Allocation, Slice, overlap
from ...program.contents import Contents, merged
from ...program.ops import Branches, Kernel, While
from ...program.steps import Step
from ...program.view import View
from ...program.walk import walk
from .covering import covers_of
from .erasing import tidy
from .graph import INSIDE, Carried, Graph, Join, Node, Operand, Piece, Region, Result, Value
from .hlo import Module
from .loops.loop_bodies import is_overwritten
from .loops.loop_state import split_state


def lift(
    steps: Sequence[Step],
    allocations: Sequence[Allocation],
    results: Sequence[Slice],
    module: Module | None = None,
) -> Graph:
    """The graph of a program.

    Args:
        steps: All outer steps.
        allocations: The memory that they use.
        results: What callers read in the end.
        module: What XLA made the steps of.
    """
    graph = Graph(tuple(allocations), module=module)
    lifter = _Lifter(graph, Contents())
    for allocation in allocations:
        kind = allocation.kind
        if kind in ("parameter", "constant"):
            whole = Slice(allocation=allocation.index, offset=0, size=allocation.size)
            lifter.contents.write(whole, Value(allocation.size, kind, home=whole))
    lifter.sequence(steps, graph.body)
    for part in results:
        graph.results.append((lifter.read(part, graph.body), part))
    covered = Counter(name for node in graph.walk() for name in node.covers)
    graph.repeated = frozenset(name for name, count in covered.items() if count > 1)
    tidy(graph)
    split_state(graph)
    return graph


@dataclass
class _Lifter:
    graph: Graph
    contents: Contents[Value]

    def sequence(self, steps: Sequence[Step], region: Region) -> None:
        """Adds the nodes of steps to a region."""
        arrays = arrays_of_rows(steps)
        for position, step in enumerate(steps):
            if isinstance(step.op, While):
                self._loop(step, step.op, region)
            elif step.regions:
                self._branches(step, region)
            else:
                self._leaf(step, region, arrays.get(position))

    # --- values ----------------------------------------------------------------------------------

    def read(self, part: Slice, region: Region) -> Piece:
        """The content of a slice: some bytes of one value, which may be a new one that joins several."""
        held = list(self.contents.read(part))
        whats = {content.what for content in held}
        if len(whats) == 1 and (value := held[0].what) is not None and value.home is not None:
            return Piece(value, part.offset - value.home.offset, part.size)
        whole = Value(part.size, home=part)
        if whats in (set(), {None}):
            whole.source = "undefined"
        else:
            known = [(content, content.what) for content in held if content.what is not None]
            pieces = {
                f"piece{number}": _bytes_of(value, content.start, content.stop)
                for number, (content, value) in enumerate(known)
            }
            join = Join(places=tuple(content.start - part.offset for content, _ in known))
            at = Slice(allocation=INSIDE, offset=0, size=part.size)
            outputs = {"whole": Result(whole, View.of_bytes(at))}
            self.graph.append(region, Node(join, pieces, outputs))
        self.contents.write(part, whole)
        return Piece(whole, 0, part.size)

    def _operand(self, view: View, region: Region) -> Operand:
        part = view.slice
        piece = self.read(part.whole, region)
        assert piece.value.home is not None
        return Operand(piece.value, inside(view, piece.value.home))

    # --- steps -----------------------------------------------------------------------------------

    def _leaf(self, step: Step, region: Region, array: ArrayOfRows | None) -> None:
        inputs = {role: self._operand(view, region) for role, view in step.inputs.items()}
        outputs: dict[str, Result] = {}
        # What is left in memory for sums is the result, if both are in one place.
        for role in sorted(step.outputs, key=lambda role: role != "accumulator"):
            outputs[role] = self._result(step, role, inputs, outputs.values(), region, array)
        sums = outputs.get("accumulator")
        if sums is not None and sums.value is outputs["out"].value:
            outputs |= {"out": sums, "accumulator": replace(sums, base=None, near=())}
        outputs = {role: outputs[role] for role in step.outputs}
        node = _node(step)
        node.inputs, node.outputs = inputs, outputs
        self.graph.append(region, node)

    def _result(
        self,
        step: Step,
        role: str,
        inputs: Mapping[str, Operand],
        others: Iterable[Result],
        region: Region,
        array: ArrayOfRows | None,
    ) -> Result:
        view = step.outputs[role]
        place = view.slice.whole
        if array is not None and view.slice == array.part:
            place = array.place
        near: list[Piece] = []
        for value in (other.value for other in others):
            if value.home == place:
                return Result(value, inside(view, place))
            near += _common(value, value.home, place)
        for name, read in step.inputs.items():
            if overlap(read.slice, place) and not may_be_apart(step, role):
                near += _common(inputs[name].value, read.slice.whole, place)
        base = None
        # Sums that are where the result will be are written as it is.
        is_result = role == "accumulator" and view.slice == step.outputs["out"].slice
        if not (
            fills(step, "out" if is_result else role)
            or (array and array.is_first and view.slice == array.part)
        ):
            base = self._known(place, region)
        elif isinstance(step.op, Kernel):
            # One that changes its operand leaves the rest of it as it is.
            base = next((piece for piece in near if piece.size == place.size), None)
        value = Value(place.size, home=place)
        self.contents.write(place, value)
        return Result(value, inside(view, place), base, tuple(p for p in near if p != base))

    def _loop(self, step: Step, op: While, region: Region) -> None:
        """A loop: each iteration runs the condition, then the body, on what the one before left."""
        places = merged(_written(step.regions))
        node = _node(step)
        initial = [self._known(place, region) for place in places]
        before = self.contents.copy()
        entries: list[list[Value | None]] = []
        left: list[list[Piece | None]] = []
        for steps in step.regions:
            inner = Region(owner=node)
            node.regions.append(inner)
            # The condition of a loop with a known trip count. Where bodies compute it for the next iteration, it is
            # empty, too, but is read.
            if not steps and "condition" not in step.inputs:
                entries.append([None] * len(places))
                left.append([None] * len(places))
                continue
            arguments = [Value(p.size, "argument", home=p) for p in places]
            for place, argument in zip(places, arguments, strict=True):
                self.contents.write(place, argument)
            self.sequence(steps, inner)
            entries.append([*arguments])
            left.append([self.read(place, inner) for place in places])
            if "condition" in step.inputs and "condition" not in node.inputs:
                node.inputs["condition"] = self._operand(step.inputs["condition"], inner)
        self.contents = before
        for number, place in enumerate(places):
            carried = Carried(
                Value(place.size, home=place),
                initial[number],
                tuple(row[number] for row in entries),
                tuple(row[number] for row in left),
            )
            if is_overwritten(op, carried):
                carried.initial = None
            node.carried.append(carried)
            self.contents.write(place, carried.value)
        self.graph.append(region, node)

    def _branches(self, step: Step, region: Region) -> None:
        """A choice of branches, or branches that all run, each of which finds what was there before."""
        node = _node(step)
        node.inputs = {role: self._operand(view, region) for role, view in step.inputs.items()}
        all_run = isinstance(step.op, Branches)
        written = [_written([steps]) for steps in step.regions]
        places = merged(part for parts in written for part in parts)
        before = self.contents.copy()
        left: list[list[Piece | None]] = []
        for number, steps in enumerate(step.regions):
            inner = Region(owner=node)
            node.regions.append(inner)
            self.contents = before.copy()
            self.sequence(steps, inner)
            changes = [any(overlap(part, other) for other in written[number]) for part in places]
            pairs = zip(places, changes, strict=True)
            left.append(
                [
                    self.read(place, inner) if changed or not all_run else None
                    for place, changed in pairs
                ]
            )
        self.contents = before
        for number, place in enumerate(places):
            carried = Carried(
                Value(place.size, home=place), results=tuple(row[number] for row in left)
            )
            node.carried.append(carried)
            self.contents.write(place, carried.value)
        self.graph.append(region, node)

    def _known(self, place: Slice, region: Region) -> Piece | None:
        """The content of a slice; None if nobody knows."""
        if all(content.what is None for content in self.contents.read(place)):
            return None
        return self.read(place, region)


def _node(step: Step) -> Node:
    """The node of a step, without operands."""
    return Node(step.op, operations=step.operations, origin=step.origin, covers=covers_of(step))


def _written(regions: Iterable[Sequence[Step]]) -> list[Slice]:
    """The memory that regions may write, in all iterations."""
    return [
        view.slice.whole
        for steps in regions
        for step in walk(steps)
        for view in step.outputs.values()
    ]


def _common(value: Value, part: Slice | None, place: Slice) -> Iterator[Piece]:
    """The bytes of a part of a value that a place has too."""
    assert value.home is not None
    assert part is not None
    start = max(part.offset, place.offset)
    stop = min(part.offset + part.size, place.offset + place.size)
    if part.allocation == place.allocation and start < stop:
        yield Piece(value, start - value.home.offset, stop - start, start - place.offset)


def inside(view: View, home: Slice) -> View:
    """A view of memory as one inside of the value that is there."""
    part = view.slice
    moved = {"allocation": INSIDE, "offset": part.offset - home.offset}
    return view.model_copy(update={"slice": part.model_copy(update=moved)})


def _bytes_of(value: Value, start: int, stop: int) -> Operand:
    """Some bytes of a value, by their offsets in its allocation."""
    assert value.home is not None
    part = Slice(allocation=INSIDE, offset=start - value.home.offset, size=stop - start)
    return Operand(value, View.of_bytes(part))
