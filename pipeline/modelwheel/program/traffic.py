"""How many bytes the steps of a program read and write."""

from __future__ import annotations

from collections.abc import Iterator

from .arrays import Slice
from .ops import Mask
from .program import Program
from .steps import Step, role_of
from .view import View
from .walk import total


def touched(step: Step) -> Iterator[tuple[Slice, int]]:
    """The memory of each operand of a step, and how many bytes of it the step itself reads or writes."""
    inputs = step.inputs
    if isinstance(step.op, Mask):  # which may see one array in several ways
        arrays = {(view.slice, view.element_type): name for name, view in inputs.items()}
        inputs = {name: inputs[name] for name in arrays.values()}
    for name, view in inputs.items():
        size = _bytes(view)
        yield view.slice, min(size, _looked_up(step)) if name == "table" else size
    in_place = {alias.output for alias in step.op.ALIASES if alias.must}
    for name, view in step.outputs.items():
        if role_of(name) not in in_place:
            yield view.slice, _bytes(view)


def _bytes(view: View) -> int:
    """Bytes of an array, without those between its elements."""
    return min(view.slice.size, view.elements * view.element_type.item_bytes)


def _looked_up(step: Step) -> int:
    """Bytes of the rows of a table that are looked up."""
    return step.inputs["indices"].elements * step.inputs["table"].shape[1]


def bytes_of_step(step: Step) -> int:
    """Bytes that one step itself reads and writes (not those of steps inside it)."""
    return sum(size for _, size in touched(step))


def bytes_moved(program: Program) -> int:
    """Bytes read and written by all steps of one run; see `walk.total` for loops and branches."""
    return total(program.steps, bytes_of_step)
