"""Goes through the steps of a program, and finds the memory that each reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .arrays import Slice
from .placing import Access
from .steps import Step


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Every step, those inside loops and branches included, in program order."""
    for step in steps:
        yield step
        for region in step.regions:
            yield from walk(region)


def leaves(steps: Iterable[Step], runs: int = 1) -> Iterator[tuple[Step, int]]:
    """The steps without others in them, in program order, each with how often a run reaches it at most.

    A loop with an unknown trip count counts as one iteration.
    """
    for step in steps:
        if step.op.REGIONS:
            for region in step.regions:
                yield from leaves(region, runs * step.op.iterations)
        else:
            yield step, runs


def total(steps: Iterable[Step], number: Callable[[Step], int]) -> int:
    """The sum of a number of each step over one run.

    Loops count by their trip count, or once if it is unknown. Of alternatives the largest counts: which one runs is not known before.
    """
    return sum(_total(step, number) for step in steps)


def _total(step: Step, number: Callable[[Step], int]) -> int:
    regions = [total(region, number) for region in step.regions]
    inner = max(regions, default=0) if step.op.ALTERNATIVES else sum(regions)
    return number(step) + step.op.iterations * inner


def reads(step: Step) -> tuple[Slice, ...]:
    """The slices that one step itself reads (not those of steps inside it)."""
    return tuple(view.slice for view in step.inputs.values())


def writes(step: Step) -> tuple[Slice, ...]:
    """The slices that one step itself writes (not those of steps inside it)."""
    return tuple(view.slice for view in step.outputs.values())


def slices(step: Step) -> tuple[Slice, ...]:
    """The slices that one step itself reads and writes (not those of steps inside it)."""
    return reads(step) + writes(step)


def accesses(steps: Iterable[Step]) -> list[Access]:
    """The memory that each outer step reads and writes, with all steps inside it, as `placing` takes it."""
    return [_access(step) for step in steps]


def _access(step: Step) -> Access:
    if not step.op.REGIONS:
        return Access(reads(step), writes(step))
    # What a loop or branch writes is not all written, or read before.
    inner = (
        part.whole for region in step.regions for child in walk(region) for part in slices(child)
    )
    return Access((*reads(step), *inner), ())
