"""Writes the steps of a variant as C++: a call for each of them, with loops and branches around the calls.

XLA's CPU backend compiles a module into thunks (xla/backends/cpu/runtime/thunk.h), which its own runtime interprets.
Here steps become the body of one function for each variant. Shapes become `constexpr` tables before the function, so the
compiler knows the size of the kernels' scratch memory. How the call of an operation is written is in `calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ..program.ops import Op
from ..program.steps import Step
from .cost import count_parts
from .cpp import INDENT, braces
from .rows.demand import FirstRows
from .scratch import Scratch

COMMON_USES = "common_uses()"
"""In C++, the use of all kernels of matrix products but those of uneven tiles."""

Write: TypeAlias = Callable[["StepWriter", Step, Any], Iterable[str]]
"""Returns the lines of a step; its third argument is the operation of the step, of the class that it is listed for."""

Library: TypeAlias = Callable[[Step], Iterable[str]]
"""Returns which hand-written kernels that are compiled by themselves a step is linked with: `gemm_float`."""


def _none(_: Step) -> Iterator[str]:
    yield from ()


class Call(NamedTuple):
    """How an operation is called."""

    write: Write
    library: Library = _none


@dataclass(frozen=True)
class BranchFunction:
    """A function that runs one of several branches, by its number, in the same memory as the function that calls it."""

    name: str
    lines: tuple[str, ...]
    """Between its head, with the addresses of allocations, and its end."""


@dataclass
class StepWriter:
    """Writes the steps of one variant, and collects the tables, headers and scratch memory that they need."""

    calls: Mapping[type[Op], Call]
    """By the kind of operation."""
    prefix: str
    """The prefix of the tables' names, different for every variant in a file."""
    tables: list[str] = field(default_factory=list)
    headers: set[str] = field(default_factory=set)
    scratch: Scratch = field(default_factory=Scratch)
    uses: dict[str, list[str]] = field(default_factory=dict)
    """C++ constant expressions for the kernels of matrix products that each step calls, by element type."""
    panels: frozenset[int] = frozenset()
    """The allocations of weights that are packed."""
    halved: frozenset[int] = frozenset()
    """The packed ones that are bfloat16."""
    types: dict[str, str] = field(default_factory=dict)
    """The definitions of types that do not depend on the variant, by name."""
    random_states: int = 0
    """The number of steps written so far that draw random numbers."""
    profiled: bool = False
    """Whether a call after each step adds up its time; see `modelwheel.program.walk.leaves`."""
    loops: int = 0
    """The number of loops around the steps that are written."""
    leaves: int = 0
    """The number of steps written so far that have no others in them."""
    batch: int = 1
    """The rows of a batch."""
    first: FirstRows = field(default_factory=FirstRows)
    """The steps that compute only as many of them as are asked for."""
    functions: list[BranchFunction] = field(default_factory=list)
    """Functions that the calls need."""

    def write(self, steps: Iterable[Step], depth: int = 1) -> list[str]:
        """Returns the lines for some steps, in order, indented to a depth."""
        lines: list[str] = []
        for step in steps:
            written = self.calls[type(step.op)].write(self, step, step.op)
            lines.extend(INDENT * depth + line for line in written)
            if self.profiled and not step.op.REGIONS:
                lines.append(f"{INDENT * depth}end_of_step({self.leaves});")
                self.leaves += 1
        return lines

    def table(self, type_name: str, values: Sequence[object], *, array: bool = False) -> str:
        """Adds a table of a type of the kernels, or an array of such tables; returns its name."""
        name = f"{self.prefix}_{type_name.lower()}_{len(self.tables)}"
        extent = "[]" if array else ""
        self.tables.append(f"constexpr {type_name} {name}{extent} = {braces(values)};")
        return name

    def constant(self, type_name: str, value: str) -> str:
        """Adds a constant, whose value only the C++ compiler knows; returns its name."""
        name = f"{self.prefix}_constant_{len(self.tables)}"
        self.tables.append(f"constexpr {type_name} {name} = {value};")
        return name

    def shape(self, step: Step, table: str, axis: str, rows: str = "rows") -> str:
        """The table of a step for as many rows as are asked for, which are along a member of it (`&Pooling::batch`)."""
        if step not in self.first:
            return table
        self.headers.add("parts/first_rows.h")
        return f"first_rows({table}, {axis}, {self.batch}, {rows})"

    def count(self, step: Step, size: int) -> str:
        """A number that grows with the rows of a batch, for as many as are asked for."""
        return f"{size // self.batch} * rows" if step in self.first else str(size)

    def needs(self, header: str, scratch: str) -> str:
        """Includes the header of a kernel; returns where the kernel finds its scratch memory of so many bytes."""
        self.headers.add(header)
        return self.scratch.take(scratch)

    def parts(self, step: Step) -> int:
        """The most parts in which threads may share a step, at least 1."""
        return count_parts(step, in_loop=self.loops > 0)

    def use(self, element: str, use: str = COMMON_USES) -> None:
        """Notes which kernels of matrix products a step calls; by default, it is known only when it runs."""
        self.uses.setdefault(element, []).append(use)
