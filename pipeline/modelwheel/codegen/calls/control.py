"""Loops, choices and branches."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Branches, Conditional, While
from ...program.steps import Step
from ..cost import count_branches, count_parts_of_steps
from ..cpp import INDENT, largest, pointer
from ..writer import BranchFunction, StepWriter


def write_while(writer: StepWriter, step: Step, op: While) -> Iterator[str]:
    """A loop around the calls of its body."""
    condition, body = step.regions
    writer.loops += 1
    if "condition" in step.inputs:
        yield "for (;;) {"
        yield from writer.write(condition)
        yield f"{INDENT}if (*({pointer(step.inputs['condition'].slice)}) == 0) break;"
    else:
        # A known trip count: XLA does not evaluate the condition either.
        yield f"for (std::int64_t trip = 0; trip < {op.trip_count}; ++trip) {{"
    yield from writer.write(body)
    yield "}"
    writer.loops -= 1


def write_conditional(writer: StepWriter, step: Step, _: Conditional) -> Iterator[str]:
    """A `switch` with the calls of each branch."""
    index = step.inputs["index"].slice
    yield f"switch (branch_of({pointer(index)}, {index.size}, {len(step.regions)})) {{"
    for number, branch in enumerate(step.regions):
        yield f"{INDENT}case {number}:"
        yield from writer.write(branch, depth=2)
        yield f"{INDENT * 2}break;"
    yield f"{INDENT}default:"
    yield f"{INDENT * 2}return false;"
    yield "}"


def write_branches(writer: StepWriter, step: Step, _: Branches) -> Iterator[str]:
    """A call that runs branches in parallel, by a function of their own; or one after the other where that is not worth it."""
    if (count := count_branches(step)) == 1:
        for branch in step.regions:
            yield from writer.write(branch, depth=0)
        return
    writer.headers.add("parts/branches.h")
    name = f"branches_{writer.prefix}_{len(writer.functions)}"
    lines = [f"{INDENT}switch (number) {{"]
    with writer.scratch.of_branches() as sizes:
        for number, branch in enumerate(step.regions):
            last = number == count - 1
            lines.append(f"{INDENT * 2}{'default' if last else f'case {number}'}:")
            if writer.profiled:
                lines.append(f"{INDENT * 3}start_of_steps();")
            lines += writer.write(branch, depth=3)
            lines.append(f"{INDENT * 3}return true;")
    lines.append(f"{INDENT}}}")
    writer.functions.append(BranchFunction(name, tuple(lines)))
    parts = count_parts_of_steps(step)
    call = f"{name}(number, in, out, arena, own, rows, memory)"
    run = f"[&](std::int64_t number, const Threads &own, char *memory) {{ return {call}; }}"
    scratch = writer.scratch.take(largest(sizes))
    yield f"if (!run_branches({{threads, {count}}}, {parts}, {run}, {scratch})) return false;"
