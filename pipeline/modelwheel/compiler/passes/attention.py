"""Joins the steps of attention: scores, their softmax, and the products with the values.

XLA computes one after the other for all heads, and copies queries, keys, values and the result so that the rows of each head
follow each other. The runtime's kernel computes some rows of a head at a time, and reads and writes heads where they are.
What is added to queries, keys and values becomes the epilogue of the products that they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory
from ..ir.emitted.thunk_walk import all_written, names_of_all
from ..ir.emitted.thunks import Array
from ..ir.hlo import Instruction
from ..ir.match import Value, is_row_major
from ..ir.views import Source, Strides, source_of, strides_in_result, strides_of
from .attention_masks import Masks
from .epilogues import Emitted, Steps, fits, may_exchange, read_parts
from .match.epilogue_parts import Part, epilogue_of
from .match.softmaxes import Softmax, softmax_of

_MOST_HEAD_AXES = 2


@dataclass(frozen=True)
class _Operand:
    """Where an operand is."""

    heads: p.Heads
    kernel: Emitted | None = None
    """The kernel that has moved it, which nothing else needs."""
    product: Emitted | None = None
    """The product that it is, which nothing else reads, with its epilogue and memory of its own."""
    finished: p.Product | None = None
    sources: Sequence[Instruction] = ()
    """The instructions that are read for it."""
    factor: float = 1.0
    """The kernel has multiplied it by this."""


def join_attention(steps: Steps, candidate: Emitted, memory: Memory) -> bool:
    """Makes the product with the values, and all before it that only it needs, one step, if it is one of attention."""
    found = _Attention(steps, memory)
    return found.done(candidate)


class _Attention:
    def __init__(self, steps: Steps, memory: Memory) -> None:
        self._steps = steps
        self._hlo = steps.hlo
        self._memory = memory

    def done(self, pv: Emitted) -> bool:
        """Replaces the steps, if that is possible."""
        second = pv.thunk
        instruction = self._hlo.instruction(pv.instruction)
        if not isinstance(second, p.Dot) or instruction is None or not _is_plain(second):
            return False
        found = self._shares(second, *instruction.operands)
        if found is None:
            return False
        second, softmax, values = found
        qk = self._step(softmax.source)
        between = [self._step(fusion) for fusion in softmax.fusions]
        first = None if qk is None else qk.thunk
        if not isinstance(first, p.Dot) or qk is None or not _follow(first, second):
            return False
        inner = [step for step in between if step is not None]
        if len(inner) != len(between) or not self._only_read_by(
            [softmax.source, *softmax.fusions], [*softmax.fusions, instruction]
        ):
            return False
        operands = self._operands(qk, pv, first, second, values)
        output = self._output(pv, second)
        masks = Masks.of(self._steps, self._memory, softmax, first.out.shape)
        if operands is None or output is None or masks is None:
            return False
        scale = softmax.scale * operands[0].factor * operands[1].factor
        heads = [one.heads for one in operands]
        new = _step_of(scale, (first, second), output[1].thunk, heads, output[0])
        return self._replace(new, qk, pv, inner, operands, output, masks)

    def _shares(
        self, product: p.Dot, left: Instruction, right: Instruction
    ) -> tuple[p.Dot, Softmax, Instruction] | None:
        """The product of the softmax of scores, which is on its left side, and the values; the softmax; the values."""
        for dot, shares, values in ((product, left, right), (_turned(product), right, left)):
            rows, value = self._rows_first(dot, shares)
            softmax = softmax_of(lambda: self._steps.numbering, value)
            if softmax is not None and softmax.source.opcode == "dot":
                return rows, softmax, values
        return None

    def _rows_first(self, dot: p.Dot, shares: Instruction) -> tuple[p.Dot, Value]:
        """The product as if nothing had exchanged the rows and columns of its left side, and the value of that."""
        source, last = source_of(shares), len(dot.lhs.shape) - 1
        strides = strides_of(source)
        if dot.lhs_contracting != (last - 1,) or source.fusion is None or strides is None:
            return dot, Value(shares)
        order = _last_two_exchanged(last + 1)
        shape = tuple(dot.lhs.shape[axis] for axis in order)
        lhs = dot.lhs.model_copy(
            update={"shape": shape, "minor_to_major": tuple(range(last, -1, -1))}
        )
        steps = (strides.steps[axis] for axis in order)
        if strides.start or any(
            one not in (other, 0) for one, other in zip(steps, lhs.strides, strict=True)
        ):
            return dot, Value(shares)
        straight = dot.model_copy(update={"lhs": lhs, "lhs_contracting": (last,)})
        return straight, Value(source.node, source.fusion)

    def _step(self, instruction: Instruction) -> Emitted | None:
        """The step whose value an instruction outside of fusions is."""
        name = instruction.name
        return next((one for one in self._steps.all if one.value == name), None)

    def _only_read_by(self, values: Sequence[Instruction], readers: Sequence[Instruction]) -> bool:
        for value in values:
            uses = self._hlo.uses(value)
            if uses is None or any(user not in readers for user, _ in uses):
                return False
        return True

    # --- operands --------------------------------------------------------------------------------

    def _operands(
        self,
        qk: Emitted,
        pv: Emitted,
        first: p.Dot,
        second: p.Dot,
        values: Instruction,
    ) -> list[_Operand] | None:
        """Queries, keys and values."""
        queries, keys = self._steps.value(qk).operands
        rows = _free(first.lhs, first.lhs_batch, first.lhs_contracting)
        columns = _free(first.rhs, first.rhs_batch, first.rhs_contracting)
        features = _free(second.rhs, second.rhs_batch, second.rhs_contracting)
        if not len(rows) == len(columns) == len(features) == 1:
            return None
        query = (*first.lhs_batch, *rows, *first.lhs_contracting)
        key = (*first.rhs_batch, *columns, *first.rhs_contracting)
        value = (*second.rhs_batch, *second.rhs_contracting, *features)
        return [
            self._operand(source_of(queries, scaled=True), qk, first.lhs, query),
            self._operand(source_of(keys, scaled=True), qk, first.rhs, key),
            self._operand(source_of(values), pv, second.rhs, value),
        ]

    def _operand(
        self, source: Source, reader: Emitted, array: Array, axes: Sequence[int]
    ) -> _Operand:
        in_place = _Operand(_heads(array.slice, 0, array.strides, axes))
        kernel = None if source.kernel is None else self._step(source.kernel)
        strides = strides_of(source)
        if kernel is None or strides is None or not isinstance(kernel.thunk, p.Kernel):
            return in_place
        assert source.kernel is not None
        if not self._only_read_by(
            [source.kernel], [self._steps.value(reader)]
        ) or kernel.thunk.results != (array.slice,):
            return in_place
        if source.fusion is None:
            if len(kernel.thunk.arguments) != 1:
                return in_place
            heads = _heads(kernel.thunk.arguments[0], strides.start, strides.steps, axes)
            return _Operand(heads, kernel, factor=source.factor)
        return self._finished(source, source.fusion, kernel, strides, axes) or in_place

    def _finished(
        self,
        source: Source,
        fusion: Instruction,
        kernel: Emitted,
        strides: Strides,
        axes: Sequence[int],
    ) -> _Operand | None:
        """An operand that is a product with an epilogue."""
        assert isinstance(kernel.thunk, p.Kernel)
        end = self._steps.all.index(kernel)
        for position, step in enumerate(self._steps.all[:end]):
            product = step.thunk
            if not isinstance(product, p.Dot | p.Convolution) or product.epilogue is not None:
                continue
            number = self._steps.only_use(step, fusion)
            if number is None:
                continue
            found = read_parts(product, kernel.thunk, fusion, number, source.node)
            if found is None:
                continue
            place = self._memory.reserve(product.arrays[-1].slice.size)
            moved = _written_to(product, place, found.named)
            needed = kernel.thunk.model_copy(
                update={
                    "arguments": moved.epilogue.operands if moved.epilogue else (),
                    "results": (),
                }
            )
            between = [after.thunk for after in self._steps.all[position + 1 : end]]
            if (moved.epilogue is None or fits(moved.epilogue, moved)) and may_exchange(
                between, needed
            ):
                heads = _heads(place, strides.start, strides.steps, axes)
                return _Operand(heads, kernel, step, moved, found.sources, source.factor)
        return None

    # --- the result ------------------------------------------------------------------------------

    def _output(self, pv: Emitted, second: p.Dot) -> tuple[p.Heads, Emitted] | None:
        """Where the result is to be, and the step that has put it there."""
        axes = range(len(second.out.shape))
        plain = _heads(second.out.slice, 0, second.out.strides, axes), pv
        assert isinstance(pv.thunk, p.Dot)
        is_turned = second.lhs != pv.thunk.lhs
        value = self._steps.value(pv)
        uses = self._hlo.uses(value)
        if uses is None or len(uses) != 1:
            return plain
        ((reader, _),) = uses
        kernel, source = self._step(reader), source_of(reader)
        if kernel is None or not isinstance(kernel.thunk, p.Kernel) or source.node is not value:
            return plain
        strides = strides_in_result(source)
        if strides is None or len(kernel.thunk.results) != 1 or len(strides.steps) != len(axes):
            return plain
        moved = _last_two_exchanged(len(axes)) if is_turned else axes
        return _heads(kernel.thunk.results[0], strides.start, strides.steps, moved), kernel

    # --- all of them -----------------------------------------------------------------------------

    def _replace(
        self,
        step: p.Attention,
        qk: Emitted,
        pv: Emitted,
        inner: Sequence[Emitted],
        operands: Sequence[_Operand],
        output: tuple[p.Heads, Emitted],
        masks: Masks,
    ) -> bool:
        steps, (heads, last) = self._steps, output
        after = [step.thunk for step in steps.all[steps.all.index(last) + 1 :]]
        if not self._memory.may_move(heads.slice, after):
            return False
        gone = [qk, *inner, *(one.kernel for one in operands if one.kernel is not None)]
        # XLA keeps the operands until its own kernels have read them.
        start, end = min(map(steps.all.index, gone)), steps.all.index(pv)
        overwritten = [
            part
            for step in steps.all[start:end]
            if not any(step is one for one in gone)
            for part in all_written(step.thunk)
        ]
        in_place = [one.heads.slice for one in operands if one.product is None]
        in_place += masks.in_place
        if any(overlap(part, place) for part in overwritten for place in in_place):
            return False
        new = self._memory.reserve(heads.slice.size)
        changed = steps.reading_from(steps.all.index(last), heads.slice, new)
        if changed is None:
            return False
        for position, thunk in changed.items():
            steps.all[position].thunk = thunk
        for one in operands:
            if one.product is not None and one.finished is not None:
                assert one.kernel is not None
                one.product.thunk = one.finished
                one.product.fusion = one.kernel.instruction
                steps.leave(steps.value(one.kernel), one.sources)
        masks.apply()
        output_place = step.output.model_copy(update={"slice": new})
        pv.thunk = step.model_copy(update={"output": output_place, **masks.named})
        pv.fusion = last.instruction if last is not pv else pv.fusion
        steps.all[:] = [
            step
            for step in steps.all
            if not any(step is one for one in gone) and (step is pv or step is not last)
        ]
        return True


def _step_of(
    scale: float,
    products: tuple[p.Dot, p.Dot],
    last: p.Thunk,
    operands: Sequence[p.Heads],
    output: p.Heads,
) -> p.Attention:
    (first, second), (query, key, value) = products, operands
    rows, columns = first.out.shape[-2:]
    batch = first.out.shape[:-2]
    return p.Attention(
        operations=first.operations + second.operations,
        **names_of_all(second, first, last),
        heads=(math.prod(batch[:-1]), math.prod(batch[-1:])),
        queries=rows,
        keys=columns,
        depth=first.lhs.shape[first.lhs_contracting[0]],
        features=second.out.shape[-1],
        scale=scale,
        query=query,
        key=key,
        value=value,
        output=output,
    )


def _heads(place: Slice, start: int, steps: Sequence[int], axes: Sequence[int]) -> p.Heads:
    """Memory as heads: both axes of them, rows and columns."""
    *batch, row, column = (steps[axis] for axis in axes)
    outer, inner = [0] * (_MOST_HEAD_AXES - len(batch)) + batch
    return p.Heads(slice=place, start=start, steps=(outer, inner, row, column))


def _turned(dot: p.Dot) -> p.Dot:
    """`dot` with its sides exchanged: JAX writes the values first."""
    order = _last_two_exchanged(len(dot.out.shape))
    out = dot.out.model_copy(
        update={
            "shape": tuple(dot.out.shape[axis] for axis in order),
            "minor_to_major": tuple(order[axis] for axis in dot.out.minor_to_major),
        }
    )
    return dot.model_copy(
        update={
            "lhs": dot.rhs,
            "rhs": dot.lhs,
            "out": out,
            "lhs_batch": dot.rhs_batch,
            "rhs_batch": dot.lhs_batch,
            "lhs_contracting": dot.rhs_contracting,
            "rhs_contracting": dot.lhs_contracting,
        }
    )


def _last_two_exchanged(rank: int) -> list[int]:
    """The order of the axes."""
    return [*range(rank - 2), rank - 1, rank - 2]


def _written_to(product: p.Product, place: Slice, parts: Mapping[str, Part]) -> p.Product:
    """`product` with its result at another place, after an epilogue."""
    array = product.arrays[-1].model_copy(update={"slice": place})
    name = "out" if isinstance(product, p.Dot) else "output"
    epilogue = epilogue_of(place, parts) if parts else None
    return product.model_copy(update={name: array, "epilogue": epilogue})


def _free(array: Array, *taken: Sequence[int]) -> tuple[int, ...]:
    used = {axis for axes in taken for axis in axes}
    return tuple(axis for axis in range(len(array.shape)) if axis not in used)


def _is_plain(dot: p.Dot) -> bool:
    """Whether a product is one of floats for each head, with one contracted axis, and nothing follows."""
    floats = {array.element_type for array in dot.arrays} == {ElementType.FLOAT32}
    return (
        floats
        and dot.epilogue is None
        and len(dot.lhs_batch) <= _MOST_HEAD_AXES
        and len(dot.lhs_contracting) == 1
        and len(dot.out.shape) == len(dot.lhs_batch) + 2
        and all(array.row_step is None for array in dot.arrays)
    )


def _follow(first: p.Dot, second: p.Dot) -> bool:
    """Whether the result of one product may be, element by element, the left side of the other."""
    left, rank = second.lhs, len(second.lhs.shape)
    return (
        _is_plain(first)
        and first.out.shape == left.shape
        and first.out.minor_to_major == left.minor_to_major
        and is_row_major(left.shape, left.minor_to_major)
        and second.lhs_batch == tuple(range(rank - 2))
        and second.lhs_contracting == (rank - 1,)
    )
