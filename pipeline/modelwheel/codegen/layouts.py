"""Gives weights one layout, so that all programs of a model share them.

XLA chooses the layout of a constant for each program: the same matrix is stored by rows for a large batch, by
columns for a single row. The runtime's kernels read any layout. So a constant that only they read is stored in
the layout that is quickest for them, and then equal weights are equal bytes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..program.arrays import Array, ArrayShape
from ..program.program import (
    Branches,
    Conditional,
    Convolution,
    Dot,
    Product,
    Program,
    Strips,
    Thunk,
    While,
)
from ..program.walk import products, slices, used_allocations, walk

_FEW_COLUMNS = 8
"""With fewer, vectors run along the inner dimension (gemm_narrow.h), which is then the fastest varying."""

Layout = tuple[int, ...]
"""Axes from the fastest varying to the slowest, as in `Array.minor_to_major`."""


class Weight(NamedTuple):
    """A constant as its readers see it."""

    array: Array
    layout: Layout
    """The one that it gets."""

    @property
    def rearranged(self) -> ArrayShape:
        """What it holds in the new layout."""
        return ArrayShape(
            element_type=self.array.element_type,
            shape=self.array.shape,
            minor_to_major=self.layout,
        )

    def rearrange(self, content: bytes) -> bytes:
        """The same elements in the new layout."""
        import numpy as np  # which a plan does not need

        array = self.array
        before, after = array.minor_to_major[::-1], self.layout[::-1]
        elements = np.frombuffer(content, f"V{array.element_type.item_bytes}")
        stored = elements.reshape([array.shape[axis] for axis in before])
        rearranged: bytes = stored.transpose([before.index(axis) for axis in after]).tobytes()
        return rearranged


def with_shared_layouts(program: Program, content: bytes) -> tuple[Program, dict[str, bytes]]:
    """The program with its weights in the runtime's layouts.

    Args:
        program: As it was compiled.
        content: Its `constants.bin`.

    Returns:
        The program, and its constants by SHA-256: those that are not empty and that it uses.
    """
    weights = _weights(program)
    contents: dict[str, bytes] = {}
    allocations = list(program.allocations)
    used = used_allocations(program)
    for position, allocation in enumerate(program.allocations):
        if allocation.kind != "constant" or not allocation.size or allocation.index not in used:
            continue
        assert allocation.constant_offset is not None
        assert allocation.sha256 is not None
        start, digest = allocation.constant_offset, allocation.sha256
        constant = content[start : start + allocation.size]
        if allocation.index in weights:
            weight = weights[allocation.index]
            constant = weight.rearrange(constant)
            digest = hashlib.sha256(constant).hexdigest()
            changes = {"sha256": digest, "array": weight.rearranged}
            allocations[position] = allocation.model_copy(update=changes)
        contents[digest] = constant
    thunks = _rewrite(program.thunks, weights)
    rewritten = {"allocations": tuple(allocations), "thunks": thunks}
    return program.model_copy(update=rewritten), contents


def _weights(program: Program) -> dict[int, Weight]:
    """By allocation, the constants that get another layout: those that only the runtime's kernels read."""
    constants = {a.index: a for a in program.allocations if a.kind == "constant" and a.size}
    found: dict[int, Weight | None] = {}
    for thunk in walk(program.thunks):
        found_here = (weight for one in products(thunk) for weight in _weights_of(one))
        roles = {weight.array.slice: weight for weight in found_here}
        for part in slices(thunk):
            if part.allocation not in constants:
                continue
            whole = part.size == constants[part.allocation].size
            weight = roles.get(part) if whole else None
            if found.setdefault(part.allocation, weight) != weight:
                found[part.allocation] = None  # its readers want different layouts
    for result in program.results:
        found.pop(result.slice.allocation, None)
    return {
        index: weight
        for index, weight in found.items()
        if weight is not None and weight.layout != weight.array.minor_to_major
    }


def _weights_of(product: Product) -> Iterator[Weight]:
    if isinstance(product, Convolution):
        axes = product.kernel_axes
        yield Weight(product.kernel, (axes.feature, axes.batch, *axes.spatial[::-1]))
    else:
        yield _matrix(product.rhs, product.rhs_batch, product.rhs_contracting)
        # The left side too if the right one is a vector: the kernel exchanges them.
        if product.out.elements == _count(product.lhs, product.lhs_contracting):
            yield _matrix(product.lhs, product.lhs_batch, product.lhs_contracting)


def _matrix(array: Array, batch: Sequence[int], contracting: Sequence[int]) -> Weight:
    free = [a for a in range(len(array.shape)) if a not in batch and a not in contracting]
    columns = math.prod(array.shape[axis] for axis in free)
    if columns < _FEW_COLUMNS:
        slowest_first = (*batch, *free, *contracting)
    else:
        slowest_first = (*batch, *contracting, *free)
    return Weight(array, slowest_first[::-1])


def _count(array: Array, without: Sequence[int]) -> int:
    return math.prod(n for axis, n in enumerate(array.shape) if axis not in without)


def _rewrite(thunks: tuple[Thunk, ...], weights: Mapping[int, Weight]) -> tuple[Thunk, ...]:
    return tuple(_rewrite_one(thunk, weights) for thunk in thunks)


def _rewrite_one(thunk: Thunk, weights: Mapping[int, Weight]) -> Thunk:
    def array(before: Array) -> Array:
        weight = weights.get(before.slice.allocation)
        return before.model_copy(update={"minor_to_major": weight.layout}) if weight else before

    match thunk:
        case Dot():
            return thunk.model_copy(update={"lhs": array(thunk.lhs), "rhs": array(thunk.rhs)})
        case Convolution():
            return thunk.model_copy(update={"kernel": array(thunk.kernel)})
        case Strips():
            layers = _rewrite(thunk.layers, weights)
            return thunk.model_copy(update={"layers": layers})
        case While():
            condition, body = (_rewrite(part, weights) for part in (thunk.condition, thunk.body))
            return thunk.model_copy(update={"condition": condition, "body": body})
        case Conditional() | Branches():
            branches = tuple(_rewrite(branch, weights) for branch in thunk.branches)
            return thunk.model_copy(update={"branches": branches})
    return thunk
