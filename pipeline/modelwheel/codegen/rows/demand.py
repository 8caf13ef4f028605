"""Finds, from the results back to the inputs, of which steps only the first rows of a batch are read.

A call with n rows runs the program of N > n rows. Callers read the first n rows of each result. What these are computed from
follows from the steps alone (`rules`): of a product, say, the first rows of its left factor and all of its right one. A step
nobody knows about reads all of its operands. So a step whose results are read up to row n may compute these and leave
what comes after as it was in memory; all others compute all N rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...program.ops import Branches, Conditional, While
from ...program.program import Program
from ...program.steps import Step
from ...program.view import View
from .chunks import Chunks, Demands, chunks_of
from .rules import Apart, apart


class FirstRows:
    """The steps of a program that may compute the first rows alone."""

    def __init__(
        self, program: Program | None = None, rows: int = 1, per_row: Sequence[bool] = ()
    ) -> None:
        """Finds them; by default there are none.

        Args:
            program: The program.
            rows: The rows of its batch.
            per_row: For each output, whether it has a row for each of them, along its first axis.
        """
        self._rows = rows
        self._known: dict[int, tuple[Apart, ...]] = {}
        """How steps could compute rows by themselves, by identity; the program outlives them."""
        self._ways: dict[int, tuple[Apart, ...]] = {}
        """The ways that are left: nothing else is read of the results than the first rows."""
        self.inputs: tuple[bool, ...] = ()
        """For each input of the program, whether only its first rows are read; empty if all may be."""
        if program is not None and rows > 1 and any(per_row):
            before = self._walk(program.steps, _results(program, rows, per_row))
            self.inputs = tuple(_is_read_first(view, rows, before) for view in program.inputs)

    def __contains__(self, step: Step) -> bool:
        way = self._way(step)
        return way is not None and not way.computes_all

    def groups(self, step: Step) -> int:
        """How often all rows follow each other in the results of a step that computes the first ones."""
        way = self._way(step)
        return 1 if way is None else way.groups

    def _way(self, step: Step) -> Apart | None:
        return next(iter(self._ways.get(id(step), ())), None)

    def _walk(self, steps: Sequence[Step], after: Demands) -> Demands:
        """The memory that is read before some steps, if so much is read after them."""
        demands = after.copy()
        for step in reversed(steps):
            match step.op:
                case While():
                    demands = self._before_loop(step, step.op, demands)
                case Conditional():
                    demands = self._before_choice(step, demands)
                case Branches():
                    for branch in reversed(step.regions):
                        demands = self._walk(branch, demands)
                case _:
                    self._before(step, demands)
        return demands

    def _before(self, step: Step, demands: Demands) -> None:
        """Goes back over a step without others in it."""
        known = self._known.setdefault(id(step), apart(step, self._rows))
        outputs = {name: view for name, view in step.outputs.items() if name != "accumulator"}

        def is_enough(way: Apart) -> bool:
            return not any(demands.need_all(way.outputs[name]) for name in outputs)

        # What is read only grows while loops are looked at again.
        left = self._ways.get(id(step), known)
        self._ways[id(step)] = tuple(filter(is_enough, left))
        for name, view in outputs.items():
            if not view.slice.step:
                demands.written(view, self._written(step, name))
        way = self._way(step)
        for name, view in step.inputs.items():
            first = None if way is None else way.inputs.get(name)
            demands.read(first or view.slice)

    def _written(self, step: Step, name: str) -> Sequence[Chunks]:
        """A result of a step as rows of a batch, in each way that is known or in the one that it is computed in."""
        way = self._way(step)
        ways = self._known.get(id(step), ()) if way is None else (way,)
        return [known.outputs[name] for known in ways]

    def _before_loop(self, step: Step, loop: While, after: Demands) -> Demands:
        """An iteration may read what the one before it wrote, so that steps are looked at until nothing changes."""
        condition, body = step.regions
        read = [view.slice for view in step.inputs.values()]

        def iteration(demands: Demands) -> Demands:
            inside = self._walk(body, demands)
            for part in read:
                inside.read(part)
            return self._walk(condition, inside)

        if not loop.trip_count:
            # It may end before it begins, and reads its condition after the last iteration too.
            after = after.copy()
            for part in read:
                after.read(part)
            after = self._walk(condition, after)
            return _until_stable(after, iteration)
        _until_stable(after, iteration)
        before = after.copy()
        for inner in body:
            for name, view in inner.outputs.items():
                if view.slice.step and name != "accumulator":
                    before.written(view, self._written(inner, name))
        return iteration(_until_stable(before, iteration))

    def _before_choice(self, step: Step, after: Demands) -> Demands:
        demands = Demands()
        for branch in step.regions:
            demands.add(self._walk(branch, after))
        for view in step.inputs.values():
            demands.read(view.slice)
        return demands


def _until_stable(after: Demands, before: Callable[[Demands], Demands]) -> Demands:
    """The memory that is read after each iteration: what is read after the last, or before the next one."""
    demands = after.copy()
    while demands.add(before(demands)):
        pass
    return demands


def _is_read_first(view: View, rows: int, before: Demands) -> bool:
    """Whether of an input only the first rows are read; a scalar has none."""
    first = chunks_of(view, (0,), rows) if view.shape else None
    return first is not None and not before.need_all(first)


def _results(program: Program, rows: int, per_row: Sequence[bool]) -> Demands:
    """The memory that callers read, and the state that calls leave."""
    demands = Demands()
    for number, result in enumerate(program.results):
        first: Chunks | None = None
        if number < len(program.outputs) and per_row[number]:
            first = chunks_of(result, (0,), rows)
        demands.read(first or result.slice)
    return demands
