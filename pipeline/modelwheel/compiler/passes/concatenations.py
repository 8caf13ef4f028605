"""Makes concatenations of columns a matter of the steps that compute the pieces.

XLA concatenates in a kernel of its own, which also computes again what another kernel has computed for other readers. Here
each product or convolution writes its piece into the rows of the whole, with its epilogue; what is in memory already is
copied there, or if only poolings read it too, is written there at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory
from ..ir.emitted.thunk_walk import all_written
from ..ir.hlo import Instruction
from ..ir.match import behind_bitcasts, value_of
from .epilogues import Emitted, Steps, columns_of, fits, may_exchange, read_parts
from .match.epilogue_parts import Part, Parts, epilogue_of

_FLOAT_BYTES = ElementType.FLOAT32.item_bytes


def join_concatenation(steps: Steps, candidate: Emitted, memory: Memory) -> bool:
    """Leaves out a kernel that concatenates columns, if other steps can write all pieces."""
    fusion = steps.hlo.instruction(candidate.instruction)
    if not isinstance(candidate.thunk, p.Kernel) or fusion is None or fusion.opcode != "fusion":
        return False
    root = fusion.called_root
    if not _is_of_columns(root) or len(candidate.thunk.results) != 1:
        return False
    return _Concatenation(steps, candidate, fusion, root, memory).done()


def _is_of_columns(root: Instruction) -> bool:
    """Whether an instruction puts the rows of arrays in one order beside each other."""
    order = root.shape.minor_to_major
    return (
        root.opcode == "concatenate"
        and root.shape.element_type == ElementType.FLOAT32
        and root.dimensions[0] == order[0]
        and all(o.shape.minor_to_major == order for o in root.operands)
    )


@dataclass(frozen=True)
class _Piece:
    """Columns of the whole."""

    rows: int
    first: int
    columns: int
    step: int
    """Columns of the whole."""

    def of(self, whole: Slice) -> Slice:
        """From its first element to its last."""
        size = ((self.rows - 1) * self.step + self.columns) * _FLOAT_BYTES
        offset = whole.offset + self.first * _FLOAT_BYTES
        return Slice(allocation=whole.allocation, offset=offset, size=size)


@dataclass(frozen=True)
class _Written:
    """A product that writes a piece."""

    step: Emitted
    parts: Parts[Slice]
    piece: _Piece

    def write(self, whole: Slice) -> None:
        """Makes it so."""
        product = self.step.thunk
        assert isinstance(product, p.Dot | p.Convolution)
        moved = _in_part(product, self.parts.named, self.piece.of(whole), self.piece)
        assert moved is not None
        self.step.thunk = moved


@dataclass(frozen=True)
class _Copied:
    """A value in memory that is copied into a piece."""

    piece: _Piece
    source: Slice
    instruction: Instruction
    step: Emitted | None
    """The step that writes it, if XLA need not have kept it until then."""


class _Concatenation:
    def __init__(
        self,
        steps: Steps,
        candidate: Emitted,
        fusion: Instruction,
        root: Instruction,
        memory: Memory,
    ) -> None:
        self._steps = steps
        self._candidate = candidate
        self._fusion = fusion
        self._root = root
        self._memory = memory

    def done(self) -> bool:
        """Writes the pieces elsewhere, if that is possible."""
        steps, memory, (before,) = self._steps, self._memory, self._kernel.results
        if not memory.may_move(before):
            return False
        whole = memory.reserve(before.size)
        pieces = [
            self._written(node, piece, whole) or self._copied(node, piece)
            for node, piece in self._pieces()
        ]
        products = [one for one in pieces if isinstance(one, _Written)]
        copies = [one for one in pieces if isinstance(one, _Copied)]
        # Where all pieces are in memory, XLA's kernel copies them too.
        if None in pieces or len({id(one.step) for one in products}) != max(len(products), 1):
            return False
        position = steps.all.index(self._candidate)
        sources = [self._kept(one, position) for one in copies]
        readers = steps.reading_from(position, before, whole)
        if None in sources or readers is None:
            return False
        for place, thunk in readers.items():
            steps.all[place].thunk = thunk
        for one in products:
            one.write(whole)
        # All write a part of the value; one covers it.
        last = products[-1].step
        covers = (*last.thunk.covers, *self._kernel.covers)
        last.thunk = last.thunk.model_copy(update={"covers": covers})
        named = [source for one in products for source in one.parts.sources]
        steps.leave(self._fusion, [*named, *(one.instruction for one in copies)])
        steps.all[position : position + 1] = [
            self._copy(one.piece, source, whole)
            for one, source in zip(copies, sources, strict=True)
            if source is not None
        ]
        return True

    @property
    def _kernel(self) -> p.Kernel:
        assert isinstance(self._candidate.thunk, p.Kernel)
        return self._candidate.thunk

    def _pieces(self) -> Iterator[tuple[Instruction, _Piece]]:
        """The operands of the concatenation, and where they are to be."""
        (axis,), shape = self._root.dimensions, self._root.shape
        step, first = shape.dimensions[axis], 0
        rows = shape.elements // step
        for node in self._root.operands:
            columns = node.shape.dimensions[axis]
            yield node, _Piece(rows, first, columns, step)
            first += columns

    def _written(self, node: Instruction, piece: _Piece, whole: Slice) -> _Written | None:
        """The product that can write a piece, of which nothing else reads the result."""
        steps, kernel, end = self._steps, self._kernel, self._steps.all.index(self._candidate)
        for start, step in enumerate(steps.all[:end]):
            product = step.thunk
            if not isinstance(product, p.Dot | p.Convolution) or product.epilogue is not None:
                continue
            number = steps.only_use(step, self._fusion)
            if number is None:
                continue
            found = read_parts(product, kernel, self._fusion, number, node)
            thunk = (
                None if found is None else _in_part(product, found.named, piece.of(whole), piece)
            )
            if found is None or thunk is None:
                continue
            operands = thunk.epilogue.operands if thunk.epilogue else ()
            needed = kernel.model_copy(update={"arguments": operands, "results": ()})
            if may_exchange([after.thunk for after in steps.all[start + 1 : end]], needed):
                return _Written(step, found, piece)
        return None

    def _copied(self, node: Instruction, piece: _Piece) -> _Copied | None:
        """A value in memory that is a piece."""
        steps, source = self._steps, behind_bitcasts(node)
        if source.opcode == "parameter" and len(self._kernel.arguments) == len(
            self._fusion.operands
        ):
            number = source.parameter_number
            operand = behind_bitcasts(self._fusion.operands[number])
            return _Copied(piece, self._kernel.arguments[number], operand, None)
        step = steps.find(node, self._fusion, self._candidate)
        if step is None:
            return None
        assert isinstance(step.thunk, p.Kernel)
        return _Copied(piece, step.thunk.results[0], steps.value(step), step)

    def _kept(self, copied: _Copied, position: int) -> Slice | None:
        """Where a value is when it is copied."""
        if copied.source.size != copied.piece.rows * copied.piece.columns * _FLOAT_BYTES:
            return None
        if copied.step is None:
            return copied.source
        return self._steps.keep(copied.step, position, ())

    def _copy(self, piece: _Piece, source: Slice, whole: Slice) -> Emitted:
        copy = p.CopyRows(
            operations=0,
            origin=self._kernel.origin,
            source=source,
            destination=piece.of(whole),
            rows=piece.rows,
            columns=piece.columns,
            step=piece.step,
        )
        return Emitted(copy, self._candidate.instruction)


def _in_part(
    product: p.Product, parts: Mapping[str, Part], place: Slice, piece: _Piece
) -> p.Product | None:
    """`product` with its result, after an epilogue, in columns of an array."""
    out, columns = columns_of(product)
    # The result of several axes of columns has no rows of its own.
    fitting = (
        columns == piece.columns == out.shape[out.minor_to_major[0]]
        and out.elements == piece.rows * piece.columns
        and "addend" not in parts
    )
    if not fitting:
        return None
    array = out.model_copy(update={"slice": place, "row_step": piece.step})
    name = "out" if isinstance(product, p.Dot) else "output"
    epilogue = epilogue_of(place, parts) if parts else None
    moved = product.model_copy(update={name: array, "epilogue": epilogue})
    return moved if epilogue is None or fits(epilogue, moved) else None


def write_at_once(steps: Steps) -> None:
    """Leaves out copies of what a product writes and only poolings read too: it is written where it belongs."""
    for step in list(steps.all):
        if isinstance(step.thunk, p.CopyRows):
            _write_at_once(steps, step, step.thunk)


def _write_at_once(steps: Steps, step: Emitted, copy: p.CopyRows) -> None:
    before = steps.before(step)
    start = next(
        (n for n in reversed(range(len(before))) if _may_write(before[n].thunk, copy.source)), None
    )
    if start is None:
        return
    product = before[start].thunk
    if not isinstance(product, p.Dot | p.Convolution):
        return
    epilogue, result = product.epilogue, value_of(product)
    readers = steps.reading_from(start, copy.source, copy.destination)
    if result != copy.source or readers is None:
        return
    changed: dict[int, p.Thunk] = {}
    for position, thunk in readers.items():
        if isinstance(thunk, p.Pooling) and thunk.features == copy.columns:
            changed[position] = thunk.model_copy(update={"in_step": copy.step})
        elif steps.all[position] is not step:
            return
    parts = {} if epilogue is None else _parts_of(epilogue)
    piece = _Piece(copy.rows, 0, copy.columns, copy.step)
    moved = _in_part(product, parts, copy.destination, piece)
    if moved is None:
        return
    before[start].thunk = moved
    for position, thunk in changed.items():
        steps.all[position].thunk = thunk
    steps.all.remove(step)


def _may_write(thunk: p.Thunk, part: Slice) -> bool:
    return any(overlap(one, part) for one in all_written(thunk))


def _parts_of(epilogue: p.Epilogue) -> dict[str, Part]:
    names = (name for name in p.Epilogue.model_fields if name != "result")
    parts = {name: getattr(epilogue, name) for name in names}
    return {name: part for name, part in parts.items() if part is not None}
