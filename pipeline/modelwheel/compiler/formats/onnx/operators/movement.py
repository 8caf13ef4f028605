"""Shapes, order of axes, parts and joints of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import numpy_helper

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import BOOL, INT64
from .onnx_node import Node, Result, operator


@operator("Constant")
def constant(node: Node) -> Result:
    """A value that is part of the node."""
    attributes = {name: value for name, value in node.attributes.items() if value is not None}
    ((name, value), *_) = attributes.items()
    if name == "value":
        array = np.asarray(numpy_helper.to_array(value))
    elif name in ("value_float", "value_floats"):
        array = np.asarray(value, np.float32)
    elif name in ("value_int", "value_ints"):
        array = np.asarray(value, np.int64)
    else:
        kind = "strings" if "string" in name else "a sparse tensor"
        raise node.refuse(f"holds {kind}", "use dense tensors of numbers")
    if array.dtype.kind in "OUS":
        raise node.refuse("holds strings", "process text outside the model and pass numbers")
    return node.builder.constant(array)


@operator("ConstantOfShape")
def constant_of_shape(node: Node) -> Result:
    """A tensor of one number."""
    shape = [int(extent) for extent in node.required(0, "its shape")]
    tensor = node.get("value", None)
    value = np.zeros(1, np.float32) if tensor is None else np.asarray(numpy_helper.to_array(tensor))
    return s.full(node.builder, shape, value.reshape(-1)[0], value.dtype)


@operator("Shape")
def shape(node: Node) -> Result:
    """The extents of a tensor, or of some of its axes."""
    return node.builder.integers(node.input(0).shape[node.get("start", 0) : node.get("end", None)])


@operator("Size")
def size(node: Node) -> Result:
    """The number of elements."""
    return node.builder.constant(np.int64(node.input(0).size))


@operator("Reshape")
def reshape(node: Node) -> Result:
    """Another shape; 0 keeps an extent and -1 takes what is left."""
    x = node.input(0)
    wanted = node.integers(1, "shape", "the shape")
    assert wanted is not None
    if not node.get("allowzero", 0):
        wanted = [x.shape[i] if extent == 0 else extent for i, extent in enumerate(wanted)]
    if -1 in wanted:
        known = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = x.size // known if known else 0
    if math.prod(wanted) != x.size:
        raise node.refuse(
            f"cannot give a tensor of the shape {list(x.shape)} the shape {list(wanted)}",
            "if the file is for other sizes of its inputs, such as a batch of 1, write these in `inputs` of the spec, "
            "or export it again with free axes",
        )
    return s.reshape(x, wanted)


@operator("Flatten")
def flatten(node: Node) -> Result:
    """Two axes of all those before and behind a place."""
    x = node.input(0)
    axis = node.get("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    return s.reshape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@operator("Squeeze")
def squeeze(node: Node) -> Result:
    """Without axes of extent 1."""
    x = node.input(0)
    axes = node.integers(1, "axes")
    return s.squeeze(x, [a for a in range(x.rank) if x.shape[a] == 1] if axes is None else axes)


@operator("Unsqueeze")
def unsqueeze(node: Node) -> Result:
    """With axes of extent 1."""
    return s.expand_dims(node.input(0), node.integers(1, "axes") or [])


@operator("Transpose")
def transpose(node: Node) -> Result:
    """Another order of axes, by default the reverse one."""
    x = node.input(0)
    return s.transpose(x, node.get("perm", None) or tuple(range(x.rank))[::-1])


@operator("Expand")
def expand(node: Node) -> Result:
    """Broadcast together with a shape."""
    x = node.input(0)
    wanted = tuple(int(extent) for extent in node.required(1, "its shape"))
    return s.broadcast_to(x, np.broadcast_shapes(x.shape, wanted))


@operator("Tile")
def tile(node: Node) -> Result:
    """The tensor repeated along its axes."""
    x = node.input(0)
    counts = [int(n) for n in node.required(1, "how often it repeats").reshape(-1)]
    if node.opset < 6:  # one count along one axis
        axis = int(node.required(2, "its axis"))
        counts = [counts[0] if a == axis else 1 for a in range(x.rank)]
    return s.tile(x, counts)


@operator("Concat")
def concat(node: Node) -> Result:
    """Tensors beside each other."""
    values = [node.input(number) for number in range(len(node.inputs))]
    return s.concatenate(values, node.get("axis", 1))


@operator("Split")
def split(node: Node) -> Result:
    """Parts along an axis."""
    x, count = node.input(0), len(node.outputs)
    axis = node.get("axis", 0) % x.rank
    sizes = node.integers(1, "split", "the sizes of its parts")
    if sizes is None:
        size = -(-x.shape[axis] // count)
        sizes = [min(size, max(x.shape[axis] - size * i, 0)) for i in range(count)]
    return s.split(x, axis, sizes)


@operator("Slice")
def slice_(node: Node) -> Result:
    """Parts along axes, with strides of any sign."""
    x = node.input(0)
    if node.opset < 10:
        starts, ends = node.get("starts", []), node.get("ends", [])
        axes, steps = node.get("axes", None), None
    else:
        if node.known(1) is None and node.optional(1) is not None:
            return _moving_slice(node, x)
        starts, ends = (node.required(i, "where it begins and ends").reshape(-1) for i in (1, 2))
        axes, steps = node.integers(3, "axes"), node.integers(4, "steps")
    axes = range(len(starts)) if axes is None else [a % x.rank for a in axes]
    parts = [slice(None)] * x.rank
    for i, axis in enumerate(axes):
        step = int(steps[i]) if steps else 1
        parts[axis] = _part(int(starts[i]), int(ends[i]), step, x.shape[axis])
    return basic_slice(x, parts)


def _part(start: int, end: int, step: int, extent: int) -> slice:
    """ONNX's limits, which may be far beyond the ends, as Python's."""
    start, end = (v + extent if v < 0 else v for v in (start, end))
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, -1), extent - 1), min(max(end, -1), extent - 1)
    return slice(start, None if end < 0 else end, step) if start >= 0 else slice(0, 0, 1)


def basic_slice(x: Value, parts: Sequence[slice]) -> Value:
    """Slices along all axes, as NumPy's; negative strides reverse."""
    reversed_ = [axis for axis, part in enumerate(parts) if (part.step or 1) < 0]
    places = [range(*part.indices(extent)) for part, extent in zip(parts, x.shape, strict=True)]
    steps = [p[::-1] if axis in reversed_ else p for axis, p in enumerate(places)]
    cut = s.slice_(
        x,
        [p[0] if p else 0 for p in steps],
        [p[-1] + 1 if p else 0 for p in steps],
        [p.step if p else 1 for p in steps],
    )
    return s.reverse(cut, reversed_)


def _moving_slice(node: Node, x: Value) -> Value:
    """A part of fixed size at a position that inputs decide: the ends follow from the starts."""
    starts, ends = node.input(1), node.input(2)
    axes = [axis % x.rank for axis in node.integers(3, "axes") or range(starts.size)]
    width = ends - e.convert(starts, ends.dtype)
    if width.known is None:
        node.required(1, "where it begins")
    sizes = list(x.shape)
    places: list[Value | int] = [0] * x.rank
    for i, axis in enumerate(axes):
        assert width.known is not None
        sizes[axis] = int(width.known.reshape(-1)[i])
        places[axis] = s.index_axis(starts, 0, i)
    return s.dynamic_slice(x, places, sizes)


@operator("Pad")
def pad(node: Node) -> Result:
    """Elements before and behind: one value, the edge, mirrored or wrapped around."""
    x = node.input(0)
    counts = node.integers(1, "pads", "its widths")
    if counts is None:
        counts = [int(v) for v in node.get("paddings", [])]
    axes = node.integers(3, "axes")
    axes = list(range(x.rank)) if axes is None else [a % x.rank for a in axes]
    low, high = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = counts[i], counts[len(axes) + i]
    mode = node.get("mode", "constant")
    if mode == "constant":
        value = node.optional(2)
        if value is None:
            value = node.builder.constant(node.get("value", 0), x.dtype)
        return s.pad(x, value, low, high)
    if mode not in ("reflect", "edge", "wrap"):
        raise node.refuse(f"has the mode {mode!r}", "use constant, reflect, edge or wrap")
    from .indexing import take_known

    for axis in range(x.rank):
        if low[axis] or high[axis]:
            x = take_known(x, _sources(x.shape[axis], low[axis], high[axis], mode), axis)
    return x


def _sources(extent: int, low: int, high: int, mode: str) -> Any:
    """Where the elements along a padded axis come from; negative widths cut off."""
    widths = (max(low, 0), max(high, 0))
    inside = np.arange(max(-low, 0), extent - max(-high, 0))
    return np.pad(inside, widths, mode)  # type: ignore[call-overload]


@operator("DepthToSpace")
def depth_to_space(node: Node) -> Result:
    """Channels become blocks of the image."""
    x, block = node.input(0), node.get("blocksize", 1)
    n, c, h, w = x.shape
    c //= block * block
    if node.get("mode", "DCR") == "DCR":
        parts, order = (n, block, block, c, h, w), (0, 3, 4, 1, 5, 2)
    else:
        parts, order = (n, c, block, block, h, w), (0, 1, 4, 2, 5, 3)
    return s.reshape(s.transpose(s.reshape(x, parts), order), (n, c, h * block, w * block))


@operator("SpaceToDepth")
def space_to_depth(node: Node) -> Result:
    """Blocks of the image become channels."""
    x, block = node.input(0), node.get("blocksize", 1)
    n, c, h, w = x.shape
    parts = s.reshape(x, (n, c, h // block, block, w // block, block))
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = s.transpose(parts, order)
    return s.reshape(moved, (n, c * block * block, h // block, w // block))


@operator("Range")
def range_(node: Node) -> Result:
    """Numbers at equal distances."""
    start, limit, delta = (node.required(i, "its ends").reshape(()) for i in range(3))
    if not delta:
        raise ValueError("its step is 0")
    count = max(int(np.ceil((limit.astype(object) - start) / delta)), 0)
    return node.builder.constant((start + np.arange(count) * delta).astype(start.dtype))


@operator("EyeLike")
def eye_like(node: Node) -> Result:
    """Ones on a diagonal."""
    from onnx import helper

    x, kind = node.input(0), node.get("dtype", None)
    dtype = x.dtype if kind is None else np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    return node.builder.constant(np.eye(x.shape[0], x.shape[1], node.get("k", 0)), dtype)


@operator("Trilu")
def trilu(node: Node) -> Result:
    """The upper or lower triangle of matrices."""
    x = node.input(0)
    k = 0 if node.optional(1) is None else int(node.required(1, "its diagonal").reshape(()))
    mask = np.tri(x.shape[-2], x.shape[-1], k - 1 if node.get("upper", 1) else k, dtype=bool)
    kept = node.builder.constant(~mask if node.get("upper", 1) else mask)
    return e.select(kept, x, 0) if x.dtype != BOOL else e.and_(kept, x)


@operator("ReverseSequence")
def reverse_sequence(node: Node) -> Result:
    """The first elements of each row in reverse order."""
    x, lengths = node.input(0), node.input(1)
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    places = s.iota(node.builder, INT64, [x.shape[time], 1])
    count = s.reshape(e.convert(lengths, INT64), [1, lengths.size])
    source = e.select(places < count, count - 1 - places, places)
    if time > batch:
        source = s.transpose(source, [1, 0])
    wide = s.reshape(source, [x.shape[a] if a in (time, batch) else 1 for a in range(x.rank)])
    from ....stablehlo.writer.gathering import take_along

    return take_along(x, s.broadcast_to(wide, x.shape), time)
