"""The call graph of a binary, from its machine code.

Wheels have no symbols, so functions are delimited by the unwind tables (ELF's `.eh_frame_hdr`, PE's
`.pdata`) and Mach-O's function starts, and between these by the targets of calls. An edge connects a
function with every function that it jumps to, calls or takes the address of. Wherever this is uncertain the
graph has an edge too many, never one too few. Unreachable functions are checked as if every CPU could run
them. Tables of offsets to functions, which need no relocations, are not recognised; compilers use them only
for labels inside one function.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from ..formats.binary import Image, Section


@dataclass
class Use:
    """Instructions of one function that need the same CPU features."""

    address: int
    """The address of the first one."""
    text: str
    """The first one, disassembled."""
    count: int = 1


@dataclass
class Block:
    """The result of decoding a piece of code."""

    uses: dict[frozenset[str], Use] = field(default_factory=dict)
    """Instructions by the features that they need beyond the architecture's baseline."""
    jumps: set[int] = field(default_factory=set)
    """Targets of jumps, mostly within the piece itself."""
    references: set[int] = field(default_factory=set)
    """Targets of calls, and all other addresses in its instructions, of functions or data."""
    candidates: set[int] = field(default_factory=set)
    """Addresses that it may compute, depending on the order in which its instructions run."""
    jumps_indirectly: bool = False
    """Whether it has jumps through a table or register."""
    loads_exclusively: bool = False
    """Whether it has exclusive loads, the atomic operations of every Arm CPU."""
    asks_for_features: bool = False
    """Whether it asks the CPU for its features: CPUID."""
    falls_through: bool = False
    """Whether execution may continue after its last instruction."""
    calls_last: bool = False
    """Whether the last instruction is a call, which need not return."""

    def append(self, other: Block) -> None:
        """Adds the piece that follows, after some data in between."""
        for features, use in other.uses.items():
            known = self.uses.setdefault(features, Use(use.address, use.text, 0))
            known.count += use.count
        self.jumps |= other.jumps
        self.references |= other.references
        self.candidates |= other.candidates
        self.jumps_indirectly |= other.jumps_indirectly
        self.loads_exclusively |= other.loads_exclusively
        self.asks_for_features |= other.asks_for_features
        self.falls_through, self.calls_last = other.falls_through, other.calls_last


Decode = Callable[[bytes, int], Block]
"""Decodes code, given its bytes and its address."""


@dataclass(frozen=True)
class Function:
    """Code that is entered only at its beginning, except by jumps from within."""

    address: int
    end: int
    whole: bool
    """Whether its end is known; otherwise it may continue after `end`."""
    block: Block


class Code:
    """The functions of an image, and the edges between them."""

    def __init__(self, image: Image, decode: Decode, alignment: int) -> None:
        self.image = image
        self._alignment = alignment
        self.functions = _divide(image, decode, alignment)
        self._addresses = [function.address for function in self.functions]
        self._starts = frozenset(self._addresses)
        self._edges = {f.address: tuple(self._successors(f)) for f in self.functions}

    def function_at(self, address: int) -> Function | None:
        """The function that contains an address."""
        index = bisect.bisect_right(self._addresses, address) - 1
        function = self.functions[index] if index >= 0 else None
        return function if function is not None and address < function.end else None

    def reach(self, roots: Iterable[int]) -> dict[int, int | None]:
        """The functions reachable from some addresses, each with the function that it was reached from."""
        reached: dict[int, int | None] = {}
        queue: deque[tuple[int, int | None]] = deque((root, None) for root in roots)
        while queue:
            # Breadth first, so the route that a finding shows is a shortest one.
            address, origin = queue.popleft()
            function = self.function_at(address)
            if function is None or function.address in reached:
                continue
            reached[function.address] = origin
            queue.extend((target, function.address) for target in self._edges[function.address])
        return reached

    def named_pointers(self) -> frozenset[int]:
        """The linkage-table entries that functions refer to; nothing else uses such entries."""
        return frozenset(
            address
            for function in self.functions
            for address in function.block.references
            if self.image.is_linkage(address)
        )

    def _successors(self, function: Function) -> Iterator[int]:
        block, image = function.block, self.image
        for target in block.jumps | block.references:
            # Pointers in other data are roots by themselves (`levels.assign`), so a reference there
            # needs no edge. An address inside of an Arm instruction is data, not an entry.
            if image.is_code(target) and target % self._alignment == 0:
                yield target
            elif target in image.pointers and image.is_linkage(target):
                yield image.pointers[target]
        # Candidates are guesses, and most are not addresses of code; only starts of functions are taken seriously.
        yield from (target for target in block.candidates if target in self._starts)
        # A function that ends in a call ends there because the callee does not return (abort, a throw).
        if block.falls_through and not (function.whole and block.calls_last):
            yield function.end


def _divide(image: Image, decode: Decode, alignment: int) -> list[Function]:
    """Divides all code into functions, in ascending order."""
    functions = [
        Function(start, end, whole=True, block=_decode(image, decode, start, end))
        for section in image.sections
        if section.executable
        for start, end in _pieces(image, section)
    ]
    # Functions with a known size are trusted. The rest is split at every address that something else refers
    # to; this needs the references of all pieces, so the code is decoded before it is split, and split
    # pieces again.
    sized = {address for address, size in image.functions.items() if size}
    named = {target for f in functions for target in f.block.references}
    named.update(image.pointers.values(), image.entries)
    entries = sorted(address for address in named if address % alignment == 0)
    return sorted(
        (
            piece
            for function in functions
            for piece in _split(
                function, image, decode, [] if function.address in sized else entries
            )
        ),
        key=lambda function: function.address,
    )


def _decode(image: Image, decode: Decode, start: int, end: int) -> Block:
    """Decodes the code of a function, leaving out data tables inside."""
    block, position = Block(), start
    for table in (table for table in image.data if start < table.stop and table.start < end):
        if position < table.start:
            block.append(decode(image.read(position, table.start - position), position))
        position = table.stop
    if position < end:
        block.append(decode(image.read(position, end - position), position))
    return block


def _pieces(image: Image, section: Section) -> Iterator[tuple[int, int]]:
    """The known functions of a section, and the gaps between them."""
    starts = sorted(a for a in image.functions if section.address <= a < section.end)
    position = section.address
    for index, start in enumerate(starts):
        # Gaps are code as well: leaf functions and assembly may have no unwind table.
        if position < start:
            yield position, start
        following = starts[index + 1] if index + 1 < len(starts) else section.end
        size = image.functions[start]
        # Never beyond the next start: `function_at` relies on functions that do not overlap.
        position = min(start + size, following) if size else following
        yield start, position
    if position < section.end:
        yield position, section.end


def _split(
    function: Function, image: Image, decode: Decode, entries: list[int]
) -> Iterator[Function]:
    """Splits a piece that may be several functions at the addresses where other code enters it.

    A piece with jumps through a table is not split, as the targets are unknown.
    """
    inside = entries[
        bisect.bisect_right(entries, function.address) : bisect.bisect_left(entries, function.end)
    ]
    if not inside or function.block.jumps_indirectly:
        yield function
        return
    bounds = [function.address, *inside, function.end]
    for start, end in pairwise(bounds):
        yield Function(start, end, whole=False, block=_decode(image, decode, start, end))
