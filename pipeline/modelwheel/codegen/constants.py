"""Collects the constants of all variants in one read-only file, each distinct content once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..program.arrays import ALIGNMENT, ArrayShape
from ..program.program import Program
from .layouts import with_shared_layouts


@dataclass
class Constants:
    """The file of constants under construction."""

    blob: bytearray = field(default_factory=bytearray)
    offsets: dict[str, int] = field(default_factory=dict)
    """Offsets in `blob` by the SHA-256 of the content."""
    sizes: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, ArrayShape | None] = field(default_factory=dict)
    """The arrays that constants hold; None if that is not known, or if they must stay as they are."""

    def add(self, digest: str, content: bytes, array: ArrayShape | None = None) -> int:
        """Returns the offset of a constant, appending it unless equal content is there already."""
        if array is None or digest not in self.arrays:
            self.arrays[digest] = array
            self.sizes[digest] = len(content)
        if digest not in self.offsets:
            # Padding goes before a constant, not after it, so the file has no bytes after the last one.
            self.blob.extend(bytes(-len(self.blob) % ALIGNMENT))
            self.offsets[digest] = len(self.blob)
            self.blob.extend(content)
        return self.offsets[digest]

    def content(self, digest: str) -> bytes:
        """A constant, as it is stored."""
        start = self.offsets[digest]
        return bytes(self.blob[start : start + self.sizes[digest]])

    def rewrite(self, digest: str, change: Callable[[bytes], bytes]) -> None:
        """Stores a constant in another form; the offsets of those that follow may change."""
        start = self.offsets[digest]
        end = start + self.sizes[digest]
        changed = change(self.content(digest))
        growth = len(changed) - (end - start)
        followers = {other: offset for other, offset in self.offsets.items() if offset > start}
        padding = -growth % ALIGNMENT if followers else 0
        self.blob[start:end] = changed + bytes(padding)
        self.sizes[digest] = len(changed)
        for other, offset in followers.items():
            self.offsets[other] = offset + growth + padding

    def add_program(self, program: Program, content: bytes) -> Program:
        """Adds the constants of a program, from its `constants.bin`; returns it with the layouts that they have here."""
        # Every program of a model comes with its own copy of the weights, so constants are shared by content.
        program, constants = with_shared_layouts(program, content)
        arrays = {allocation.sha256: allocation.array for allocation in program.allocations}
        for digest, constant in constants.items():
            self.add(digest, constant, arrays[digest])
        return program
