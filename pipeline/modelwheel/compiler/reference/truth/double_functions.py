"""Operations without kernels for float64, as functions of operations that have some.

The functions are traced for float32, and become float64 with the rest of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ...graphs.graphs import bodies, nodes_of
from ...graphs.node_functions import NodeFunctions
from .missing import NoTruthError

_Build: TypeAlias = Callable[..., Any]


def write_out(graph_def: Any) -> None:
    """Makes nodes of such operations calls of functions, in place.

    Raises:
        NoTruthError: Their attributes ask for something that has no function.
    """
    functions = NodeFunctions(graph_def, "written_out")
    # Functions that are added here have no such nodes.
    for body in bodies(graph_def):
        for node in nodes_of(body):
            if node.op in WRITTEN_OUT:
                functions.replace(body, node, WRITTEN_OUT[node.op](node.attr))


# --- operations -----------------------------------------------------------------------------------


def _batch_norm(attributes: Mapping[str, Any]) -> _Build:
    """`(x - mean) / sqrt(variance + epsilon) * scale + offset`."""
    if attributes["is_training"].b:
        raise NoTruthError("batch normalisation with statistics of the batch has no float64 kernel")
    layout = attributes["data_format"].s.decode() or "NHWC"
    extents = [-1 if axis == "C" else 1 for axis in layout]

    def build(x: Any, *vectors: Any) -> Any:
        scale, offset, mean, variance = (tf.reshape(vector, extents) for vector in vectors)
        # Rounded to float32 in the operation, and so in the truth.
        epsilon = tf.constant(attributes["epsilon"].f, tf.float32)
        return (x - mean) * (tf.math.rsqrt(variance + epsilon) * scale) + offset

    return build


def _resize_bilinear(attributes: Mapping[str, Any]) -> _Build:
    """Linear interpolation along the rows and the columns of images [n, height, width, channels].

    Positions are those of tensorflow/core/kernels/image/resize_bilinear_op.cc (`compute_interpolation_weights`) and
    tensorflow/core/util/image_resizer_state.h (`CalculateResizeScale`), which rounds them to float32.
    """
    half_pixels = attributes["half_pixel_centers"].b
    corners = attributes["align_corners"].b

    def resize(x: Any, axis: int, wanted: Any) -> Any:
        one = tf.constant(1.0, tf.float64)
        size, made = tf.cast(tf.shape(x)[axis], tf.float64), tf.cast(wanted, tf.float64)
        scale = size / made
        if corners:
            scale = tf.where(made > one, (size - one) / tf.maximum(made - one, one), scale)
        places = tf.range(made, dtype=tf.float64)
        places = (places + 0.5) * scale - 0.5 if half_pixels else places * scale
        below = tf.floor(places)
        lower = tf.maximum(below, 0.0)
        upper = tf.minimum(tf.math.ceil(places), size - one)
        first, second = (tf.gather(x, tf.cast(at, tf.int32), axis=axis) for at in (lower, upper))
        share = tf.reshape(places - below, [-1, 1, 1] if axis == 1 else [-1, 1])
        return first + (second - first) * tf.cast(share, tf.float32)

    def build(images: Any, size: Any) -> Any:
        return resize(resize(tf.cast(images, tf.float32), 1, size[0]), 2, size[1])

    return build


_VOLUME = (1, 2, 3)
"""The spatial axes of [batch, depth, height, width, channels]."""


def _require_channels_last(attributes: Mapping[str, Any], what: str) -> None:
    if attributes["data_format"].s not in (b"", b"NDHWC"):
        raise NoTruthError(f"{what} with channels first has no float64 kernel")


def _max_pool_3d(attributes: Mapping[str, Any]) -> _Build:
    """The largest value of each window, along one axis after the other: TensorFlow has kernels for images."""
    _require_channels_last(attributes, "MaxPool3D")
    padding = attributes["padding"].s.decode()
    windows, strides = (attributes[name].list.i for name in ("ksize", "strides"))

    def along(x: Any, axis: int) -> Any:
        shape = tf.shape(x)
        before, behind = tf.reduce_prod(shape[:axis]), tf.reduce_prod(shape[axis + 1 :])
        flat = tf.reshape(x, tf.stack([before, shape[axis], 1, behind]))
        pooled = tf.nn.max_pool2d(flat, [windows[axis], 1], [strides[axis], 1], padding)
        extent = tf.shape(pooled)[1:2]
        return tf.reshape(pooled, tf.concat([shape[:axis], extent, shape[axis + 1 :]], 0))

    def build(x: Any) -> Any:
        for axis in _VOLUME:
            x = along(x, axis)
        return x

    return build


def _transposed_convolution(attributes: Mapping[str, Any]) -> _Build:
    """Two transposed convolutions of images, of which TensorFlow has a kernel: of each plane of the input by the planes of the filter, and
    of the results along the depth."""
    _require_channels_last(attributes, "a transposed convolution")
    step, *steps = list(attributes["strides"].list.i)[1:4]
    padding = attributes["padding"].s.decode()
    if set(attributes["dilations"].list.i) - {1}:
        raise NoTruthError("a dilated transposed convolution has no float64 kernel")

    def build(sizes: Any, filters: Any, x: Any) -> Any:
        _, depth, height, width, features = tf.unstack(tf.cast(sizes, tf.int32), 5)
        count, planes, *image = tf.unstack(tf.shape(x), 5)
        taps, *window, _, channels = tf.unstack(tf.shape(filters), 5)
        wide = taps * features
        every = tf.reshape(tf.transpose(filters, [1, 2, 0, 3, 4]), [*window, wide, channels])
        images = tf.reshape(x, [count * planes, *image])
        size = [count * planes, height, width, wide]
        parts = tf.nn.conv2d_transpose(images, every, size, steps, padding)
        parts = tf.reshape(parts, [count, planes, height * width, wide])
        places = tf.reshape(tf.eye(wide, dtype=x.dtype), [taps, 1, features, wide])
        size = [count, depth, height * width, features]
        made = tf.nn.conv2d_transpose(parts, places, size, [step, 1], padding)
        return tf.reshape(made, [count, depth, height, width, features])

    return build


WRITTEN_OUT: Mapping[str, Callable[[Mapping[str, Any]], _Build]] = {
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm),
    "Conv3DBackpropInputV2": _transposed_convolution,
    "MaxPool3D": _max_pool_3d,
    "ResizeBilinear": _resize_bilinear,
}
"""What makes the function, from the attributes of a node; without those that have no value, as protobuf's maps are."""
