"""Joins convolutions that follow each other, so that what is between them stays in the cache.

A result of several megabytes is written to memory and read again by the next convolution, which waits for it: the windows
of depthwise convolutions and products with few columns do little arithmetic for each number. Where nothing else reads
such a result, the convolutions run together, some rows of an image at a time, and only those rows are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...dtypes import ElementType
from ...program import ops
from ...program.arrays import overlap
from ...program.op_names import join_names
from ...program.spatial_axes import SpatialExtents, axes_in_use, spatial_sizes
from ...thresholds import THRESHOLDS, WIDEST_LANES
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory, moved_readers, writing_to
from ..ir.emitted.thunk_walk import slices, written
from ..ir.emitted.thunks import Array
from ..ir.hlo import Module
from ..ir.match import is_row_major, value_of
from .epilogues import Emitted

_MIN_BETWEEN_BYTES = 1024 * 1024
"""Smaller results stay in the second-level cache by themselves."""
_MAX_WEIGHT_BYTES = 256 * 1024
"""More weights would not stay in the cache beside the results, and every strip reads them again."""
_MIN_FEATURES = 8
"""With fewer, products take other kernels, which need many rows."""
_TRANSFORMED = {
    (3, 3): WIDEST_LANES,
    **dict.fromkeys(((3,), (1, 3), (5,), (1, 5)), THRESHOLDS.winograd_line_features),
}
"""Windows of convolutions that are computed by transforms, with the fewest features of their inputs."""
_ROW = ops.Window(
    size=1, stride=1, pad_low=0, pad_high=0, kernel_dilation=1, base_dilation=1, reversed=False
)


def join_strips(
    hlo: Module, emitted: Sequence[Emitted], memory: Memory | None = None
) -> tuple[p.Thunk, ...]:
    """The thunks of a sequence, in which chains of convolutions are one thunk each.

    Args:
        hlo: The module.
        emitted: The sequence; steps may read the result of a chain elsewhere afterwards.
        memory: Where a result may move to that would replace what later rows are computed from.
    """
    return tuple(_joined(hlo, emitted, memory))


def _joined(hlo: Module, emitted: Sequence[Emitted], memory: Memory | None) -> Iterator[p.Thunk]:
    position = 0
    while position < len(emitted):
        found = _convolutions(_linked(hlo, emitted[position:]))
        layers = _longest_chain(found, emitted[position:], memory)
        if layers:
            yield p.Strips(
                operations=sum(layer.operations for layer in layers),
                origin=join_names(*(layer.origin for layer in layers)),
                layers=layers,
            )
        else:
            yield emitted[position].thunk
        position += len(layers) or 1


def _linked(hlo: Module, emitted: Sequence[Emitted]) -> list[p.Product]:
    """The products at the start of a sequence of which each is the only reader of the one before."""
    found: list[p.Product] = []
    for number, one in enumerate(emitted):
        if not isinstance(one.thunk, p.Dot | p.Convolution):
            break
        if found:
            if emitted[number - 1].is_kept:
                break
            value = hlo.instruction(emitted[number - 1].value)
            reader = hlo.instruction(one.instruction)
            if value is None or reader is None or hlo.only_use(value, reader) is None:
                break
            if value_of(found[-1]) != one.thunk.arrays[0].slice:
                break
        found.append(one.thunk)
    return found


def _convolutions(products: Sequence[p.Product]) -> list[p.Convolution]:
    """The products as convolutions, as far as they are some; products of matrices know no rows of images."""
    number = next((i for i, one in enumerate(products) if isinstance(one, p.Convolution)), None)
    if number is None:
        return []
    first = products[number]
    assert isinstance(first, p.Convolution)
    places = _places(first.input, first.input_axes)
    found: list[p.Convolution] = []
    for one in products:
        layer = one if isinstance(one, p.Convolution) else _of_places(one, places)
        if layer is None or not _is_plain(layer):
            break
        found.append(layer)
        places = _places(layer.output, layer.output_axes)
    return found


def _places(array: Array, axes: ops.Axes) -> tuple[int, ...]:
    """Images, and positions in them."""
    return tuple(array.shape[axis] for axis in (axes.batch, *axes.spatial))


def _of_places(dot: p.Dot, places: tuple[int, ...]) -> p.Convolution | None:
    """A product of the features of each place with a matrix."""
    *rows, features = dot.lhs.shape
    (*out_rows, columns), rank = dot.out.shape, len(places) - 1
    plain = (
        dot.lhs_contracting == (len(rows),)
        and len(dot.rhs.shape) == 2
        and not dot.lhs_batch
        and rows == out_rows
        and math.prod(rows) == math.prod(places)
        and _in_order(dot.lhs)
        and _in_order(dot.out)
    )
    if not plain:
        return None
    (contracted,) = dot.rhs_contracting
    spatial = tuple(range(1, rank + 1))
    layout = tuple(reversed(range(rank + 2)))
    image = ops.Axes(batch=0, feature=rank + 1, spatial=spatial)
    kernel_layout = (*(axis + rank for axis in dot.rhs.minor_to_major), *reversed(range(rank)))
    return p.Convolution(
        operations=dot.operations,
        origin=dot.origin,
        input=dot.lhs.model_copy(update={"shape": (*places, features), "minor_to_major": layout}),
        kernel=dot.rhs.model_copy(
            update={"shape": (1,) * rank + dot.rhs.shape, "minor_to_major": kernel_layout}
        ),
        output=dot.out.model_copy(update={"shape": (*places, columns), "minor_to_major": layout}),
        input_axes=image,
        kernel_axes=ops.Axes(
            batch=rank + contracted, feature=rank + 1 - contracted, spatial=tuple(range(rank))
        ),
        output_axes=image,
        windows=(_ROW,) * rank,
        feature_groups=1,
        epilogue=dot.epilogue,
    )


def _in_order(array: Array) -> bool:
    return is_row_major(array.shape, array.minor_to_major) and array.row_step is None


def _is_plain(c: p.Convolution) -> bool:
    """Whether strips can compute a convolution, and are worth it."""
    features = c.output.shape[c.output_axes.feature]
    return (
        {array.element_type for array in c.arrays} == {ElementType.FLOAT32}
        and all(0 not in array.shape for array in c.arrays)
        and _is_dense(c.input, c.input_axes)
        and _is_dense(c.output, c.output_axes)
        and all(window.base_dilation == 1 for window in c.windows)
        and features >= _MIN_FEATURES
        and c.kernel.slice.size <= _MAX_WEIGHT_BYTES
        and not _is_transformed(c)
    )


def _is_transformed(c: p.Convolution) -> bool:
    """Whether the kernels have a faster way for whole images (`convolution/winograd_plan.h` and `decomposed_plan.h` in
    `src/kernels/`)."""
    features = c.input.shape[c.input_axes.feature]
    columns = c.output.shape[c.output_axes.feature]
    if c.feature_groups != 1 or any(w.kernel_dilation != 1 for w in c.windows):
        return False
    fewest = _TRANSFORMED.get(tuple(w.size for w in c.windows))
    if fewest is not None and features >= fewest and columns % THRESHOLDS.panel == 0:
        return all(w.stride == 1 for w in c.windows)
    *rows, line = c.windows
    taps, rest = divmod(line.size, line.stride)
    sums = math.prod(w.size for w in rows) * features * line.stride * (taps // THRESHOLDS.sub_taps)
    return (
        rest == 0
        and taps >= THRESHOLDS.line_taps
        and sums > THRESHOLDS.line_summed
        and columns % THRESHOLDS.line_columns == 0
        and len(rows) < 2
    )


def _is_dense(array: Array, axes: ops.Axes) -> bool:
    """Whether features vary fastest, and images slowest."""
    order = (axes.feature, *reversed(axes.spatial), axes.batch)
    return array.minor_to_major == order and array.row_step is None


def _longest_chain(
    layers: Sequence[p.Convolution], emitted: Sequence[Emitted], memory: Memory | None
) -> tuple[p.Convolution, ...]:
    """The first layers that can be computed together; empty if no two can."""
    for count in range(len(layers), 1, -1):
        chain = tuple(layers[:count])
        if not all(_is_joint(*two) for two in pairwise(chain)):
            continue
        if _may_write(chain):
            return chain
        moved = _with_own_result(chain, emitted[count:], memory)
        if moved:
            return moved
    return ()


def _with_own_result(
    chain: tuple[p.Convolution, ...], later: Sequence[Emitted], memory: Memory | None
) -> tuple[p.Convolution, ...]:
    """The chain with its result in memory of its own, where those that run later read it; empty if it cannot move."""
    *before, last = chain
    place = value_of(last)
    addend = last.epilogue and last.epilogue.addend
    if memory is None or not memory.may_move(place) or (addend and overlap(addend, place)):
        return ()
    own = memory.reserve(place.size)
    readers = moved_readers([one.thunk for one in later], -1, place, own, updates=True)
    if readers is None:
        return ()
    for position, thunk in readers.items():
        later[position].thunk = thunk
    # Its sums too: they would be where rows are still read.
    sums = last.output.model_copy(update={"slice": own})
    moved = writing_to(last.model_copy(update={"output": sums}), own)
    assert isinstance(moved, p.Convolution)
    return (*before, moved)


def _is_joint(before: p.Convolution, after: p.Convolution) -> bool:
    """Whether it is worth keeping in the cache what is between two convolutions, which are of the same images."""
    between = before.output.slice.size
    images = before.output.shape[before.output_axes.batch]
    weights = max(before.kernel.slice.size, after.kernel.slice.size)
    return (
        between >= _MIN_BETWEEN_BYTES
        # There may be a strip for each image.
        and weights <= between // images
        and _places(before.output, before.output_axes) == _places(after.input, after.input_axes)
        and before.output.elements == after.input.elements
        and (before.epilogue is None or before.epilogue.addend is None)
    )


def _may_write(layers: Sequence[p.Convolution]) -> bool:
    """Whether writing rows of the result spoils nothing that later rows are computed from."""
    strips = p.Strips(operations=0, layers=tuple(layers))
    source, *others = slices(strips)[: -len(written(strips))]
    last = layers[-1].epilogue
    for target in written(strips):
        if overlap(target, source) and not (target == source and _in_place(layers)):
            return False
        for part in others:
            replaced = last is not None and part == last.addend == target
            if overlap(target, part) and not replaced:
                return False
    return True


def _in_place(layers: Sequence[p.Convolution]) -> bool:
    """Whether no row of the input is read after the row of the result that has its place is written."""
    first, last = layers[0], layers[-1]
    axis = axes_in_use([_extents(layer) for layer in layers])[0]
    rows = first.input.shape[first.input_axes.spatial[axis]]
    windows = [layer.windows[axis] for layer in layers]
    return (
        rows == last.output.shape[last.output_axes.spatial[axis]]
        and (windows[0].size, windows[0].pad_low) == (1, 0)
        and all(w.stride == 1 and w.pad_low <= (w.size - 1) * w.kernel_dilation for w in windows)
    )


def _extents(c: p.Convolution) -> SpatialExtents:
    axes = (c.input_axes, c.kernel_axes, c.output_axes)
    arrays = zip(axes, c.arrays, strict=True)
    return SpatialExtents(
        c.windows, tuple(spatial_sizes(one, array.shape) for one, array in arrays)
    )
