"""Collects the constants of all variants in one read-only file, each distinct content once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..compiler.program import Allocation, Program, slices, walk

ALIGNMENT = 64
"""Bytes. XLA's kernels may assume that buffers have up to this alignment (xla/backends/cpu/alignment.h)."""


@dataclass
class Constants:
    """The file of constants under construction."""

    blob: bytearray = field(default_factory=bytearray)
    offsets: dict[str, int] = field(default_factory=dict)
    """Offsets in `blob` by the SHA-256 of the content."""

    def add(self, digest: str, content: bytes) -> int:
        """Returns the offset of a constant, appending it unless equal content is there already."""
        if digest not in self.offsets:
            # Padding goes before a constant, not after it, so the file has no bytes after the last one.
            self.blob.extend(bytes(-len(self.blob) % ALIGNMENT))
            self.offsets[digest] = len(self.blob)
            self.blob.extend(content)
        return self.offsets[digest]


def collect(variants: Iterable[tuple[Program, Path]]) -> Constants:
    """Collects the constants that the programs use, from their `constants.bin` files."""
    # Every program of a model comes with its own copy of the weights, so constants are shared by content.
    constants = Constants()
    for program, path in variants:
        content = path.read_bytes()
        for allocation in used_constants(program):
            assert allocation.constant_offset is not None
            assert allocation.sha256 is not None
            start = allocation.constant_offset
            constants.add(allocation.sha256, content[start : start + allocation.size])
    return constants


def used_constants(program: Program) -> list[Allocation]:
    """The constants that some thunk or result refers to, except empty ones."""
    used = used_allocations(program)
    return [
        allocation
        for allocation in program.allocations
        if allocation.kind == "constant" and allocation.size and allocation.index in used
    ]


def used_allocations(program: Program) -> frozenset[int]:
    """The indices of all allocations that some thunk or result refers to."""
    used = {part.allocation for thunk in walk(program.thunks) for part in slices(thunk)}
    used.update(result.slice.allocation for result in program.outputs)
    used.update(program.results[update].slice.allocation for _, update in program.moved_updates())
    return frozenset(used)
