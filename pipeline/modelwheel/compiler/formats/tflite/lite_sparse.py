"""Constants of TensorFlow Lite that hold only the elements which are not 0.

The format is that of TACO (Kjolstad et al., "The tensor algebra compiler", 2017), with blocks; the schema of TensorFlow
Lite describes it at SparsityParameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

Array = np.ndarray[Any, Any]

_DENSE = schema.DimensionType.DENSE


def dense(elements: Array, shape: Sequence[int], sparsity: Any) -> Array:
    """A constant with all its elements.

    Args:
        elements: Those that are stored.
        shape: Of the constant.
        sparsity: SparsityParameters of the schema.

    Raises:
        ValueError, IndexError: They do not belong together.
    """
    order = [int(axis) for axis in sparsity.traversalOrder]
    blocks = [] if sparsity.blockMap is None else [int(axis) for axis in sparsity.blockMap]
    places = _places(sparsity.dimMetadata)
    if len(order) != places.shape[1] or len(places) != elements.size:
        raise ValueError("a sparse constant has other elements than its places say")
    rank = len(shape)
    coordinates: list[Array] = [np.zeros(len(places), np.int64) for _ in shape]
    for level, axis in enumerate(order):
        # A block is an axis of its own, within one of the tensor.
        if axis < rank:
            coordinates[axis] = places[:, level]
        else:
            size = int(sparsity.dimMetadata[level].denseSize)
            whole = blocks[axis - rank]
            coordinates[whole] = coordinates[whole] * size + places[:, level]
    made = np.zeros(shape, elements.dtype)
    made[tuple(coordinates)] = elements
    return made


def _places(levels: Sequence[Any]) -> Array:
    """The position along each level, shape (elements, levels), in the order in which elements are stored."""
    parents = np.zeros(1, np.int64)
    places = np.zeros((1, 0), np.int64)
    for level in levels:
        if level.format == _DENSE:
            size = int(level.denseSize)
            along = np.tile(np.arange(size), len(parents))
            counts = np.full(len(parents), size)
            parents = np.repeat(parents, counts) * size + along
        else:
            segments, indices = _array(level.arraySegments), _array(level.arrayIndices)
            counts = segments[parents + 1] - segments[parents]
            starts = np.repeat(segments[parents] - np.cumsum(counts) + counts, counts)
            parents = starts + np.arange(counts.sum())
            along = indices[parents]
        places = np.column_stack([np.repeat(places, counts, axis=0), along])
    return places


def _array(vector: Any) -> Array:
    return np.asarray(vector.values, np.int64)
