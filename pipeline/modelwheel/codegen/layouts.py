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

from ..dtypes import ElementType
from ..program.arrays import ArrayShape
from ..program.ops import Convolution, Dot
from ..program.program import Program
from ..program.steps import Step
from ..program.strip_layers import products
from ..program.view import View
from ..program.walk import walk
from .strides import ProductViews

_FEW_COLUMNS = 8
"""With fewer, vectors run along the inner dimension (`src/kernels/gemm/narrow.h`), which is then the fastest varying."""

Layout = tuple[int, ...]
"""Axes from the fastest varying to the slowest, as in `View.order`."""


class Weight(NamedTuple):
    """A constant as its readers see it."""

    view: View
    layout: Layout
    """The one that it gets."""

    @property
    def rearranged(self) -> ArrayShape:
        """The array that the constant holds in the new layout."""
        view = self.view
        return ArrayShape(
            element_type=view.element_type, shape=view.shape, minor_to_major=self.layout
        )

    def rearrange(self, content: bytes) -> bytes:
        """The elements in the new layout, from those in the old one."""
        import numpy as np  # which a plan does not need

        view = self.view
        before, after = view.order[::-1], self.layout[::-1]
        elements = np.frombuffer(content, f"V{view.element_type.item_bytes}")
        stored = elements.reshape([view.shape[axis] for axis in before])
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
    used = program.used_allocations
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
    steps = _rewrite(program.steps, weights)
    rewritten = {"allocations": tuple(allocations), "steps": steps}
    return program.model_copy(update=rewritten), contents


def _weights(program: Program) -> dict[int, Weight]:
    """By allocation, the constants that get another layout: those that only the runtime's kernels read."""
    constants = {a.index: a for a in program.allocations if a.kind == "constant" and a.size}
    candidates: dict[int, Weight | None] = {}
    for step in walk(program.steps):
        weights = {weight.view.slice: weight for layer in products(step) for weight in _of(layer)}
        for view in step.views:
            index = view.slice.allocation
            if index not in constants:
                continue
            whole = view.slice.size == constants[index].size
            weight = weights.get(view.slice) if whole else None
            if candidates.setdefault(index, weight) != weight:
                candidates[index] = None  # its readers want different layouts
    for result in program.results:
        candidates.pop(result.slice.allocation, None)
    return {
        index: weight
        for index, weight in candidates.items()
        if weight is not None and weight.view.ordered(weight.layout) != weight.view
    }


def _of(step: Step) -> Iterator[Weight]:
    """The operands of a product, a convolution or a layer of strips that may be weights."""
    views, op = ProductViews.of(step), step.op
    if isinstance(op, Convolution):
        axes = op.kernel_axes
        yield Weight(views.rhs, (axes.feature, axes.batch, *axes.spatial[::-1]))
    elif isinstance(op, Dot):
        yield _matrix(views.rhs, op.rhs_batch, op.rhs_contracting)
        # The left side too if the right one is a vector: the kernel exchanges them.
        if views.sums.elements == _count(views.lhs, op.lhs_contracting):
            yield _matrix(views.lhs, op.lhs_batch, op.lhs_contracting)


def _matrix(view: View, batch: Sequence[int], contracting: Sequence[int]) -> Weight:
    free = [a for a in range(len(view.shape)) if a not in batch and a not in contracting]
    columns = math.prod(view.shape[axis] for axis in free)
    if columns < _FEW_COLUMNS and view.element_type != ElementType.INT8:  # bytes are packed
        slowest_first = (*batch, *free, *contracting)
    else:
        slowest_first = (*batch, *contracting, *free)
    return Weight(view, slowest_first[::-1])


def _count(view: View, without: Sequence[int]) -> int:
    return math.prod(n for axis, n in enumerate(view.shape) if axis not in without)


def _rewrite(steps: Sequence[Step], weights: Mapping[int, Weight]) -> tuple[Step, ...]:
    """The steps with views of the new layouts: all readers of these constants have them as weights."""
    return tuple(_rewrite_one(step, weights) for step in steps)


def _rewrite_one(step: Step, weights: Mapping[int, Weight]) -> Step:
    moved = {
        role: view.ordered(weights[view.slice.allocation].layout)
        for role, view in step.inputs.items()
        if view.slice.allocation in weights
    }
    if not moved and not step.regions:
        return step
    regions = tuple(_rewrite(region, weights) for region in step.regions)
    return step.model_copy(update={"inputs": {**step.inputs, **moved}, "regions": regions})
