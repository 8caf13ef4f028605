"""Checks a program before anything is made of it: a step that reads what nobody wrote is found when it is compiled.

Each compile job does this. What it finds is an error of modelwheel: of a pass, or of the plan of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .aliases import alias_of, is_same
from .arrays import Slice, overlap
from .contents import Contents
from .operand_shapes import shape_mistake
from .ops import Branches, Kernel, While
from .program import Program
from .steps import Step, operand_mistake
from .view import View
from .walk import walk


class InvalidProgramError(RuntimeError):
    """A program breaks a rule; the message names the step and the rule."""


def verify(program: Program) -> None:
    """Checks the steps of a program.

    Raises:
        InvalidProgramError: A step has operands that its operation has not, memory outside of its allocation, an output
            where an input is that is still read, or reads memory that nothing has written; or two branches share memory.
    """
    for position, step in enumerate(program.steps):
        for inner in walk((step,)):
            mistake = (
                operand_mistake(inner)
                or _mistake_of_memory(inner, program)
                or shape_mistake(inner)
                or _mistake_of_aliases(inner)
                or _mistake_of_branches(inner)
            )
            if mistake:
                raise _error(position, inner, mistake)
    _verify_order(program)


def _error(position: int, step: Step, mistake: str) -> InvalidProgramError:
    origin = f" of {step.origin!r}" if step.origin else ""
    return InvalidProgramError(
        f"step {position} of the program: the {step.op.kind}{origin} {mistake}"
    )


# --- one step -----------------------------------------------------------------------------------------


def _named_views(step: Step) -> Iterator[tuple[str, View]]:
    yield from step.inputs.items()
    yield from step.outputs.items()


def _mistake_of_memory(step: Step, program: Program) -> str:
    for name, view in _named_views(step):
        whole = view.slice.whole
        count = len(program.allocations)
        if not 0 <= whole.allocation < count:
            return f"has its operand {name!r} in allocation {whole.allocation} of {count}"
        size = program.allocations[whole.allocation].size
        if whole.offset < 0 or whole.offset + whole.size > size:
            return (
                f"has its operand {name!r} at bytes {whole.offset} to {whole.offset + whole.size} of allocation "
                f"{whole.allocation}, which has {size}"
            )
        if len(view.shape) != len(view.strides):
            return f"has an operand {name!r} with {len(view.shape)} axes and {len(view.strides)} strides"
        if _end(view) > view.slice.size:
            return f"has an operand {name!r} whose elements are not all in its slice"
    return ""


def _end(view: View) -> int:
    """Where the last element of a view ends in its slice, in bytes."""
    if 0 in view.shape:
        return 0
    pairs = zip(view.shape, view.strides, strict=True)
    last = view.start + sum((extent - 1) * stride for extent, stride in pairs)
    return (last + 1) * view.element_type.item_bytes


def _mistake_of_aliases(step: Step) -> str:
    outputs = list(step.outputs.items())
    for number, (name, view) in enumerate(outputs):
        for other, second in outputs[number + 1 :]:
            # Sums before an epilogue are of no use after it.
            if overlap(view.slice, second.slice) and "accumulator" not in (name, other):
                return f"writes its outputs {name!r} and {other!r} to the same memory"
        for source, read in step.inputs.items():
            alias = alias_of(step.op, name, source)
            if alias is not None and alias.must and not is_same(view, read):
                return f"changes {source!r} in place, but writes {name!r} elsewhere"
            if overlap(view.slice, read.slice) and not _may_meet(step, name, source):
                return f"writes {name!r} to memory that it reads as {source!r}"
    return ""


def _may_meet(step: Step, output: str, source: str) -> bool:
    """Whether an output may be where an input is, as both are."""
    written, read = step.outputs[output], step.inputs[source]
    alias = alias_of(step.op, output, source)
    if alias is None:
        return False
    if alias.exact:
        return is_same(written, read)
    if isinstance(step.op, Kernel):
        return True
    sums = step.outputs.get("accumulator")
    return sums is not None and not overlap(sums.slice, read.slice)


def _mistake_of_branches(step: Step) -> str:
    if not isinstance(step.op, Branches):
        return ""
    used = [_touched(region) for region in step.regions]
    for number, (_, written) in enumerate(used):
        for other, (read, changed) in enumerate(used):
            if other == number:
                continue
            if any(overlap(a, b) for a in written for b in (*read, *changed)):
                return f"has branches {number} and {other} that share memory that one writes"
    return ""


def _touched(steps: Iterable[Step]) -> tuple[set[Slice], set[Slice]]:
    """The slices that steps read, and those that they write."""
    read, written = set[Slice](), set[Slice]()
    for step in walk(steps):
        read.update(view.slice.whole for view in step.inputs.values())
        written.update(view.slice.whole for view in step.outputs.values())
    return read, written


# --- their order --------------------------------------------------------------------------------------


_WRITTEN = True
"""What the record of memory holds where something has written."""


def _verify_order(program: Program) -> None:
    written = Contents[bool]()
    for allocation in program.allocations:
        if allocation.kind in ("parameter", "constant"):
            whole = Slice(allocation=allocation.index, offset=0, size=allocation.size)
            written.write(whole, _WRITTEN)
    for position, step in enumerate(program.steps):
        _follow(position, step, written)
    for number, result in enumerate(program.results):
        if not _has(written, result.slice):
            raise InvalidProgramError(f"no step of the program writes all of result {number}")


def _follow(position: int, step: Step, written: Contents[bool]) -> None:
    """Requires that what a step reads is written, and notes what it writes."""
    if isinstance(step.op, While):
        _follow_loop(position, step, step.op, written)
        return
    _require_written(position, step, step.inputs, written)
    if step.op.ALTERNATIVES:
        _follow_choice(position, step, written)
        return
    for region in step.regions:
        for inner in region:
            _follow(position, inner, written)
    for view in step.outputs.values():
        written.write(
            view.slice.whole if _in_all_iterations(view) else _first(view.slice), _WRITTEN
        )


def _follow_loop(position: int, step: Step, loop: While, written: Contents[bool]) -> None:
    condition, body = step.regions
    for inner in condition:
        _follow(position, inner, written)
    _require_written(position, step, step.inputs, written)
    # A loop with a condition may end before it begins.
    inside = written if loop.trip_count else written.copy()
    for inner in body:
        _follow(position, inner, inside)


def _follow_choice(position: int, step: Step, written: Contents[bool]) -> None:
    """After a choice, only that is written which all branches write."""
    after = []
    for region in step.regions:
        inside = written.copy()
        for inner in region:
            _follow(position, inner, inside)
        after.append(inside)
    changed = {
        view.slice.whole for inner in walk(step.regions[0]) for view in inner.outputs.values()
    }
    for part in changed:
        if all(_has(inside, part) for inside in after):
            written.write(part, _WRITTEN)


def _require_written(
    position: int, step: Step, operands: Mapping[str, View], written: Contents[bool]
) -> None:
    for name, view in operands.items():
        if not _has(written, _first(view.slice)):
            raise _error(
                position, step, f"reads memory as {name!r} that nothing has written before"
            )


def _has(written: Contents[bool], part: Slice) -> bool:
    return all(held.what for held in written.read(part))


def _first(part: Slice) -> Slice:
    """A part in the first iteration."""
    return Slice(allocation=part.allocation, offset=part.offset, size=part.size)


def _in_all_iterations(view: View) -> bool:
    """Whether the parts of all iterations are all memory from the first to the last."""
    return abs(view.slice.step) <= view.slice.size
