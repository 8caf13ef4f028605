"""Gives loops their trip counts, and lets them read and write parts of arrays where they are.

    %4 = while (%0, %1) {trip_count=null}               %4 = while (undefined) {trip_count=5}
      condition(%5, ..):                                  body(%6):
        %7 = kernel %5 {symbol=less}                        %11 = dot %3+128i, %2
        yield %5, ..                            =>          %12 = kernel %11
      body(%8, %6):                                         %13+128i into %6 = copy %12
        %9 = kernel %8 {symbol=add_one}                     yield %13
        %10 = kernel %3, %8 {symbol=dynamic_slice}
        %11 = dot %10, %2
        %12 = kernel %11
        %13 into %6 = kernel %6, %8, %12 {symbol=dynamic_update_slice}
        yield %9, %13

XLA copies the part of an array that an iteration reads, and counts iterations in memory. What only counts is left out.

When: a counter has constant start, step and bound. A part is read where it is if no iteration changes the array and all
readers can read memory that moves; XLA's kernels need it aligned. Bits: the same.
"""

from __future__ import annotations

from ...program.ops import Copy, While
from ..ir.erasing import erase_dead
from ..ir.graph import Graph, Node
from ..ir.hlo import Instruction
from ..ir.loops.counters import Counters, counters_of
from ..ir.loops.loop_bodies import (
    body_of,
    forget_overwritten,
    is_inside,
    may_be_elsewhere,
    set_trip_count,
)
from ..ir.loops.windows import read_window, written_window


class CountLoops:
    """See above."""

    name = "count-loops"

    def run(self, graph: Graph) -> int:
        """Changes loops; returns the number of conditions and of copies that it has left out."""
        changed = 0
        for loop in [node for node in graph.walk() if isinstance(node.op, While)]:
            counters = counters_of(graph, loop)
            if counters is None:
                continue
            if loop.op != While(trip_count=counters.trip_count):
                if not set_trip_count(graph, loop, counters.trip_count):
                    continue
                changed += 1
            changed += _without_copies(graph, loop, counters)
            forget_overwritten(loop)
        if changed:
            erase_dead(graph)
        return changed


def _without_copies(graph: Graph, loop: Node, counters: Counters) -> int:
    """Lets the nodes of a body read and write arrays where they are; returns how many copies that saves."""
    (instruction,) = (
        candidate for candidate in graph.instructions(loop) if candidate.opcode == "while"
    )
    own = frozenset(instruction.called[0].instructions)
    changed = 0
    for node in list(body_of(loop)):
        fusions = graph.instructions(node)
        if len(fusions) == 1 and fusions[0] in own:
            changed += _write_in_place(graph, counters, fusions[0], node) or _read_in_place(
                graph, loop, counters, fusions[0], node
            )
    return changed


def _write_in_place(graph: Graph, counters: Counters, fusion: Instruction, node: Node) -> bool:
    """Makes a kernel that writes a part of an array a copy."""
    window = written_window(counters, fusion, node)
    if window is None:
        return False
    source, result = window
    copy = graph.merged(Copy(), [node])
    copy.operations = 0
    copy.inputs, copy.outputs = {"source": source}, {"destination": result}
    graph.replace([node], copy)
    return True


def _read_in_place(
    graph: Graph, loop: Node, counters: Counters, fusion: Instruction, node: Node
) -> bool:
    """Lets all that reads a copy of a part of an array read the array."""
    window = read_window(counters, fusion, node)
    if window is None or is_inside(window.value, loop):
        return False
    (copied,) = node.values
    if not may_be_elsewhere(loop, copied, window):
        return False
    graph.replace_uses(copied, window.value, window.view.slice)
    return True
