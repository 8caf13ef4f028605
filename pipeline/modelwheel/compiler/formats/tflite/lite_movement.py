"""Operators that move elements: shapes, slices, concatenations, indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from .lite_node import LiteNode, Value, activated, operator

_REFLECT = 0


def _integers(node: LiteNode, number: int, what: str) -> list[int]:
    return [int(value) for value in node.constant(number, what).reshape(-1)]


def _integer(node: LiteNode, number: int, what: str) -> int:
    return int(node.constant(number, what).reshape(()))


@operator("SHAPE")
def _shape(node: LiteNode) -> Value:
    dtype = node.results[0].dtype
    shape = tf.TensorShape(node[0].shape)
    if shape.is_fully_defined():
        return np.array(shape.as_list(), dtype)
    return tf.shape(node[0], out_type=tf.dtypes.as_dtype(dtype))


@operator("RANK")
def _rank(node: LiteNode) -> Value:
    return np.array(len(node[0].shape), np.int32)


@operator("RESHAPE")
def _reshape(node: LiteNode) -> Value:
    if node.has(1):
        return tf.reshape(node[0], node[1])
    return tf.reshape(node[0], [int(extent) for extent in node.options.newShape])


@operator("TRANSPOSE")
def _transpose(node: LiteNode) -> Value:
    return tf.transpose(node[0], _integers(node, 1, "the permutation"))


@operator("EXPAND_DIMS")
def _expand_dims(node: LiteNode) -> Value:
    return tf.expand_dims(node[0], _integer(node, 1, "the axis"))


@operator("SQUEEZE")
def _squeeze(node: LiteNode) -> Value:
    axes = node.options.squeezeDims if node.options is not None else None
    axes = [] if axes is None else [int(axis) for axis in axes]
    return tf.squeeze(node[0], axes or None)


@operator("PACK")
def _pack(node: LiteNode) -> Value:
    return tf.stack([node[n] for n in range(len(node.inputs))], node.options.axis)


@operator("UNPACK")
def _unpack(node: LiteNode) -> list[Value]:
    return list(tf.unstack(node[0], node.options.num, node.options.axis))


@operator("CONCATENATION")
def _concatenation(node: LiteNode) -> Value:
    values = [node[n] for n in range(len(node.inputs))]
    return activated(node, tf.concat(values, node.options.axis))


@operator("SPLIT")
def _split(node: LiteNode) -> list[Value]:
    return list(tf.split(node[1], len(node.results), _integer(node, 0, "the axis")))


@operator("SPLIT_V")
def _split_v(node: LiteNode) -> list[Value]:
    sizes, axis = _integers(node, 1, "a size"), _integer(node, 2, "the axis")
    return list(tf.split(node[0], sizes, axis))


@operator("SLICE")
def _slice(node: LiteNode) -> Value:
    return tf.slice(node[0], node[1], node[2])


@operator("STRIDED_SLICE")
def _strided_slice(node: LiteNode) -> Value:
    options = node.options
    if options.offset:
        raise node.refuse("has ends that count from where it begins")
    return tf.strided_slice(
        *(node[0], node[1], node[2], node[3]),
        begin_mask=options.beginMask,
        end_mask=options.endMask,
        ellipsis_mask=options.ellipsisMask,
        new_axis_mask=options.newAxisMask,
        shrink_axis_mask=options.shrinkAxisMask,
    )


@operator("GATHER")
def _gather(node: LiteNode) -> Value:
    options = node.options
    axis, batch = (options.axis, options.batchDims) if options is not None else (0, 0)
    return tf.gather(node[0], node[1], axis=axis, batch_dims=batch)


@operator("GATHER_ND")
def _gather_nd(node: LiteNode) -> Value:
    return tf.gather_nd(node[0], node[1])


@operator("EMBEDDING_LOOKUP")
def _embedding_lookup(node: LiteNode) -> Value:
    return tf.gather(node[1], node[0])


@operator("SCATTER_ND")
def _scatter_nd(node: LiteNode) -> Value:
    return tf.scatter_nd(node[0], node[1], node[2])


@operator("DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(node: LiteNode) -> Value:
    """Elements of the second operand in place of those of the first from an index on, which is moved to where they fit."""
    whole, part = tf.convert_to_tensor(node[0]), tf.convert_to_tensor(node[1])
    inside = tf.ones([], tf.bool)
    for axis, (extent, length) in enumerate(zip(whole.shape, part.shape, strict=True)):
        if length == extent:
            continue
        first = tf.clip_by_value(tf.cast(node[2][axis], tf.int32), 0, extent - length)
        places = tf.range(extent) - first
        part = tf.gather(part, tf.clip_by_value(places, 0, length - 1), axis=axis)
        here = tf.logical_and(places >= 0, places < length)
        inside = tf.logical_and(
            inside, tf.reshape(here, [-1, *[1] * (len(whole.shape) - axis - 1)])
        )
    return tf.where(inside, part, whole)


_SEGMENTS: Mapping[str, Callable[..., Value]] = {
    "UNSORTED_SEGMENT_MAX": tf.math.unsorted_segment_max,
    "UNSORTED_SEGMENT_MIN": tf.math.unsorted_segment_min,
    "UNSORTED_SEGMENT_PROD": tf.math.unsorted_segment_prod,
    "UNSORTED_SEGMENT_SUM": tf.math.unsorted_segment_sum,
}


@operator(*_SEGMENTS)
def _unsorted_segments(node: LiteNode) -> Value:
    reduce = _SEGMENTS[node.operator.op]
    return reduce(node[0], node[1], tf.reshape(node[2], []))


@operator("SEGMENT_SUM")
def _segments(node: LiteNode) -> Value:
    numbers = node.constant(1, "a segment")
    return tf.math.unsorted_segment_sum(node[0], numbers, int(numbers.max(initial=-1)) + 1)


@operator("SPARSE_TO_DENSE")
def _sparse_to_dense(node: LiteNode) -> Value:
    return tf.raw_ops.SparseToDense(
        sparse_indices=node[0],
        output_shape=_integers(node, 1, "the shape"),
        sparse_values=node[2],
        default_value=node[3],
        validate_indices=False,
    )


@operator("MATRIX_DIAG")
def _matrix_diag(node: LiteNode) -> Value:
    return tf.linalg.diag(node[0])


@operator("MATRIX_SET_DIAG")
def _matrix_set_diag(node: LiteNode) -> Value:
    return tf.linalg.set_diag(node[0], node[1])


@operator("ONE_HOT")
def _one_hot(node: LiteNode) -> Value:
    depth = _integer(node, 1, "the depth")
    return tf.one_hot(node[0], depth, node[2], node[3], node.options.axis)


@operator("TILE")
def _tile(node: LiteNode) -> Value:
    return tf.tile(node[0], node[1])


@operator("FILL")
def _fill(node: LiteNode) -> Value:
    return tf.fill(node[0], node[1])


@operator("RANGE")
def _range(node: LiteNode) -> Value:
    return tf.range(node[0], node[1], node[2])


@operator("BROADCAST_TO")
def _broadcast_to(node: LiteNode) -> Value:
    return tf.broadcast_to(node[0], node[1])


@operator("BROADCAST_ARGS")
def _broadcast_args(node: LiteNode) -> Value:
    return tf.broadcast_dynamic_shape(node[0], node[1])


def _paddings(node: LiteNode) -> list[list[int]]:
    rows: list[list[int]] = node.constant(1, "the padding").tolist()
    return rows


@operator("PAD", "PADV2")
def _pad(node: LiteNode) -> Value:
    value: Any = node[2] if node.has(2) else node.zero
    return tf.pad(node[0], _paddings(node), constant_values=value)


@operator("MIRROR_PAD")
def _mirror_pad(node: LiteNode) -> Value:
    mode = "REFLECT" if node.options.mode == _REFLECT else "SYMMETRIC"
    return tf.pad(node[0], _paddings(node), mode)


@operator("REVERSE_V2")
def _reverse(node: LiteNode) -> Value:
    return tf.reverse(node[0], _integers(node, 1, "an axis"))


@operator("REVERSE_SEQUENCE")
def _reverse_sequence(node: LiteNode) -> Value:
    options = node.options
    return tf.reverse_sequence(node[0], node[1], options.seqDim, options.batchDim)


@operator("DEPTH_TO_SPACE")
def _depth_to_space(node: LiteNode) -> Value:
    return tf.nn.depth_to_space(node[0], node.options.blockSize)


@operator("SPACE_TO_DEPTH")
def _space_to_depth(node: LiteNode) -> Value:
    return tf.nn.space_to_depth(node[0], node.options.blockSize)


@operator("SPACE_TO_BATCH_ND")
def _space_to_batch(node: LiteNode) -> Value:
    x, paddings = node[0], node.constant(2, "the padding")
    if node.zero:
        spatial = len(paddings)
        around = [[0, 0], *paddings.tolist(), *[[0, 0]] * (len(x.shape) - 1 - spatial)]
        x, paddings = tf.pad(x, around, constant_values=node.zero), np.zeros_like(paddings)
    return tf.space_to_batch(x, node.constant(1, "the block"), paddings)


@operator("BATCH_TO_SPACE_ND")
def _batch_to_space(node: LiteNode) -> Value:
    crops = node.constant(2, "what is cropped")
    return tf.batch_to_space(node[0], node.constant(1, "the block"), crops)
