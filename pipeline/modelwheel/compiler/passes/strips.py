"""Joins convolutions that follow each other, so that what is between them stays in the cache.

    %4 f32[4096,64] = dot %0, %1                        %6 f32[1,64,64,8] = strips %0, %1, %2, %3
    %5 f32[1,64,64,64] = convolution %4, %2     =>        {layers=[...], shapes=[[1,64,64,64],[1,64,64,64]]}
    %6 f32[4096,8] = dot %5, %3

A result of several megabytes is written to memory and read again by the next convolution, which waits for it: the windows
of depthwise convolutions and products with few columns do little arithmetic for each number. Together, the convolutions run
some rows of an image at a time, and only those rows are kept.

When: nothing else reads what is between them, which is more than 1 MB. With 0.6 MB strips gain nothing, with more MobileNetV2
takes 1 / 1.47 of the time (docs/experiments/layers.md). Not where a kernel transforms a whole image. At most four together, whose
weights stay in the cache too: longer sequences are divided where the least is between.

Bits: the same; the same kernels compute the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...dtypes import ElementType
from ...program import ops
from ...program.arrays import Slice, overlap
from ...program.op_names import join_names
from ...program.view import View, dense_strides
from ...thresholds import THRESHOLDS, WIDEST_LANES
from ..ir.graph import INSIDE, Graph, Join, Node, Operand, Region, Result, Value

_MIN_BETWEEN_BYTES = 1024 * 1024
"""Smaller results stay in the second-level cache by themselves."""
_MAX_WEIGHT_BYTES = 256 * 1024
"""More weights would not stay in the cache beside the results, and every strip reads them again."""
_MAX_LAYERS = 4
"""With more, fewer rows of each are in the cache."""
_MIN_FEATURES = 8
"""With fewer, products take other kernels, which need many rows."""
_TRANSFORMED = (3, 5)
"""Taps along an axis that are computed by transforms."""
_ROW = ops.Window(
    size=1, stride=1, pad_low=0, pad_high=0, kernel_dilation=1, base_dilation=1, reversed=False
)


class ChainStrips:
    """See above."""

    name = "chain-strips"

    def run(self, graph: Graph) -> int:
        """Joins; returns how many chains."""
        results = frozenset(piece.value for piece, _ in graph.results)
        return sum(_chain(graph, region, results) for region in list(graph.regions))


@dataclass(frozen=True)
class _Layer:
    """A product as a convolution."""

    node: Node
    op: ops.Convolution
    inputs: Mapping[str, Operand]
    out: View
    """Inside of the value."""

    @property
    def input(self) -> View:
        """The images that it reads."""
        return self.inputs["input"].view

    @property
    def kernel(self) -> View:
        """The weights."""
        return self.inputs["kernel"].view

    @property
    def result(self) -> Result:
        """The value that it computes."""
        return self.node.outputs["out"]


def _chain(graph: Graph, region: Region, results: frozenset[Value]) -> int:
    """Joins the convolutions of one sequence; returns how many chains."""
    nodes = list(region.nodes)
    position = chains = 0
    while position < len(nodes):
        layers = _first_chain(_convolutions(_linked(nodes[position:], results)), results)
        if layers:
            _join(graph, layers)
            chains += 1
            position = nodes.index(layers[-1].node)
        position += 1
    return chains


def _join(graph: Graph, layers: Sequence[_Layer]) -> None:
    """Puts one node in the place of some."""
    last = layers[-1]
    inputs = {"input": layers[0].inputs["input"]}
    for number, layer in enumerate(layers):
        operands = layer.inputs.items()
        inputs |= {f"{role}{number}": operand for role, operand in operands if role != "input"}
    # Its place is free of what XLA has had there: it is where rows are still read.
    out = Result(last.result.value, last.out, last.result.base)
    outputs = {"out": out}
    if last.op.epilogue is not None:
        outputs["accumulator"] = Result(out.value, out.view)
    op = ops.Strips(
        layers=tuple(layer.op for layer in layers),
        shapes=tuple(layer.out.shape for layer in layers[:-1]),
    )
    nodes = [layer.node for layer in layers]
    covers = frozenset[str]().union(*(node.covers for node in nodes))
    joined = Node(op, inputs, outputs, origin=join_names(*(n.origin for n in nodes)), covers=covers)
    joined.operations = sum(node.operations for node in nodes)
    graph.replace(nodes, joined)


# --- which nodes --------------------------------------------------------------------------------------


def _linked(nodes: Sequence[Node], results: frozenset[Value]) -> list[Node]:
    """The products at the start of a sequence of which each is the only reader of the one before."""
    chain: list[Node] = []
    read = set[Value]()
    for node in nodes:
        if chain and isinstance(node.op, Join) and not read.intersection(node.used):
            continue
        if not isinstance(node.op, ops.Dot | ops.Convolution) or not _has_one_result(node):
            break
        if chain and not _is_only_reader(node, chain[-1].outputs["out"], results):
            break
        chain.append(node)
        read.update(node.used)
    return chain


def _has_one_result(node: Node) -> bool:
    """Whether nobody reads the memory for the sums of a product."""
    value = node.outputs["out"].value
    others = [result.value for result in node.outputs.values() if result.value is not value]
    return all(user is node for other in others for user in other.users)


def _is_only_reader(node: Node, result: Result, results: frozenset[Value]) -> bool:
    """Whether a product reads all of a value as what it multiplies by its weights, and nothing else reads it."""
    value = result.value
    operand = node.inputs["lhs" if isinstance(node.op, ops.Dot) else "input"]
    whole = Slice(allocation=INSIDE, offset=0, size=value.size)
    operands = [operand for operand in node.inputs.values() if operand.value is value]
    bases = [result.base.value for result in node.outputs.values() if result.base is not None]
    return (
        operands == [operand]
        and operand.view.slice == result.view.slice == whole
        and result.base is None
        and value not in bases
        and value not in results
        and all(user is node for user in value.users)
    )


def _convolutions(products: Sequence[Node]) -> list[_Layer]:
    """The products as convolutions, as far as they are some; products of matrices know no rows of images."""
    first = next((product for product in products if isinstance(product.op, ops.Convolution)), None)
    if first is None:
        return []
    assert isinstance(first.op, ops.Convolution)
    places = _places(first.inputs["input"].view, first.op.input_axes)
    layers: list[_Layer] = []
    for product in products:
        layer = _layer(product, places)
        if layer is None or not _is_plain(layer):
            break
        layers.append(layer)
        places = _places(layer.out, layer.op.output_axes)
    return layers


def _places(array: View, axes: ops.Axes) -> tuple[int, ...]:
    """Images, and positions in them."""
    return tuple(array.shape[axis] for axis in (axes.batch, *axes.spatial))


def _layer(node: Node, places: tuple[int, ...]) -> _Layer | None:
    if isinstance(node.op, ops.Convolution):
        return _Layer(node, node.op, node.inputs, node.outputs["out"].view)
    assert isinstance(node.op, ops.Dot)
    return _of_places(node, node.op, places)


def _of_places(node: Node, dot: ops.Dot, places: tuple[int, ...]) -> _Layer | None:
    """A product of the features of each place with a matrix."""
    lhs, rhs = node.inputs["lhs"], node.inputs["rhs"]
    out, addend = node.outputs["out"].view, node.inputs.get("addend")
    *rows, features = lhs.view.shape
    (*out_rows, columns), rank = out.shape, len(places) - 1
    plain = (
        dot.lhs_contracting == (len(rows),)
        and len(rhs.view.shape) == 2
        and not dot.lhs_batch
        and rows == out_rows
        and math.prod(rows) == math.prod(places)
        and _in_order(lhs.view)
        and _in_order(out)
        and (addend is None or _in_order(addend.view))
    )
    if not plain:
        return None
    (contracted,) = dot.rhs_contracting
    spatial = tuple(range(1, rank + 1))
    image = ops.Axes(batch=0, feature=rank + 1, spatial=spatial)
    kernel = {
        "shape": (1,) * rank + rhs.view.shape,
        "strides": (rhs.view.elements,) * rank + rhs.view.strides,
    }
    inputs = {
        "input": Operand(lhs.value, _reshaped(lhs.view, (*places, features))),
        "kernel": Operand(rhs.value, rhs.view.model_copy(update=kernel)),
        **{role: operand for role, operand in node.inputs.items() if role not in ("lhs", "rhs")},
    }
    if addend is not None:
        inputs["addend"] = Operand(addend.value, _reshaped(addend.view, (*places, columns)))
    op = ops.Convolution(
        input_axes=image,
        kernel_axes=ops.Axes(
            batch=rank + contracted, feature=rank + 1 - contracted, spatial=tuple(range(rank))
        ),
        output_axes=image,
        windows=(_ROW,) * rank,
        feature_groups=1,
        epilogue=dot.epilogue,
    )
    return _Layer(node, op, inputs, _reshaped(out, (*places, columns)))


def _in_order(array: View) -> bool:
    return array.start == 0 and array.is_row_major(ignoring_unit_axes=False)


def _reshaped(array: View, shape: tuple[int, ...]) -> View:
    return View.dense(array.slice, array.element_type, shape)


# --- what is worth it ---------------------------------------------------------------------------------


def _is_plain(layer: _Layer) -> bool:
    """Whether strips can compute a convolution, and are worth it."""
    op, arrays = layer.op, (layer.input, layer.kernel, layer.out)
    features = layer.out.shape[op.output_axes.feature]
    return (
        {array.element_type for array in arrays} == {ElementType.FLOAT32}
        and all(0 not in array.shape for array in arrays)
        and _is_dense(layer.input, op.input_axes)
        and _is_dense(layer.out, op.output_axes)
        and all(window.base_dilation == 1 for window in op.windows)
        and features >= _MIN_FEATURES
        and layer.kernel.slice.size <= _MAX_WEIGHT_BYTES
        and not _is_transformed(layer)
    )


def _is_transformed(layer: _Layer) -> bool:
    """Whether the kernels have a faster way for whole images (`convolution/winograd_plan.h` and `decomposed_plan.h` in
    `src/kernels/`)."""
    op = layer.op
    features = layer.input.shape[op.input_axes.feature]
    columns = layer.out.shape[op.output_axes.feature]
    if op.feature_groups != 1:
        return False
    sizes = [window.size for window in op.windows]
    lines = [size for size in sizes if size in _TRANSFORMED]
    if lines and len(sizes) < 3:
        sums = features * math.prod(sizes) // lines[-1]
        fewest = 0 if sizes == [3, 3] else THRESHOLDS.winograd_line_features
        if min(features, columns) >= WIDEST_LANES and sums >= fewest:
            return all(w.stride == 1 for w in op.windows)
    *rows, line = op.windows
    taps, rest = divmod(line.size, line.stride)
    sums = math.prod(w.size for w in rows) * features * line.stride * (taps // THRESHOLDS.sub_taps)
    return (
        all(w.kernel_dilation == 1 for w in op.windows)
        and rest == 0
        and taps >= THRESHOLDS.line_taps
        and sums > THRESHOLDS.line_summed
        and columns % THRESHOLDS.line_columns == 0
        and len(rows) < 2
    )


def _is_dense(array: View, axes: ops.Axes) -> bool:
    """Whether features vary fastest, and images slowest."""
    order = (axes.feature, *reversed(axes.spatial), axes.batch)
    return array.start == 0 and array.strides == dense_strides(array.shape, order)


def _is_joint(before: _Layer, after: _Layer) -> bool:
    """Whether it is worth keeping in the cache what is between two convolutions, which are of the same images."""
    between = before.out.slice.size
    images = before.out.shape[before.op.output_axes.batch]
    weights = max(before.kernel.slice.size, after.kernel.slice.size)
    return (
        between >= _MIN_BETWEEN_BYTES
        # There may be a strip for each image.
        and weights <= between // images
        and _places(before.out, before.op.output_axes) == _places(after.input, after.op.input_axes)
        and before.out.elements == after.input.elements
        and "addend" not in before.inputs
    )


# --- where the result is ------------------------------------------------------------------------------


def _first_chain(layers: Sequence[_Layer], results: frozenset[Value]) -> Sequence[_Layer]:
    """The first layers that are computed together; empty if no two are."""
    joint = next((n for n, two in enumerate(pairwise(layers), 1) if not _is_joint(*two)), None)
    for count in range(_first_of(layers[:joint]), 1, -1):
        if _is_apart(layers[:count], results):
            return layers[:count]
    return ()


def _first_of(layers: Sequence[_Layer]) -> int:
    """How many layers are together first, if the least is between those that are not."""
    # Bytes between those from each layer on, and how many are together first.
    best: list[tuple[int, int]] = [(0, 0)]
    for first in reversed(range(len(layers))):
        options = []
        for count in range(1, min(_MAX_LAYERS, len(layers) - first) + 1):
            chain = layers[first : first + count]
            if count > 1 and sum(one.kernel.slice.size for one in chain) > _MAX_WEIGHT_BYTES:
                break
            is_last = first + count == len(layers)
            between = 0 if is_last else chain[-1].out.slice.size
            options.append((between + best[-count][0], count))
        best.append(min(options, key=lambda option: (option[0], -option[1])))
    return best[-1][1]


def _is_apart(layers: Sequence[_Layer], results: frozenset[Value]) -> bool:
    """Whether the result can be apart from what is read until the end: one of them leaves XLA's place otherwise."""
    result = layers[-1].result
    read = [layers[0].inputs["input"]]
    read += [operand for c in layers for role, operand in c.inputs.items() if role != "input"]
    place = _home(result.value, result.view)
    over = [
        operand.value
        for operand in read
        if place and (other := _home(operand.value, operand.view)) and overlap(place, other)
    ]
    if not over or (result.base is None and _may_move(result.value, results)):
        return True
    return all(_is_new(value) and _may_move(value, results) for value in over)


def _is_new(value: Value) -> bool:
    """Whether a value is computed, and need not be where another one was."""
    node = value.producer
    made = [] if node is None else [r for r in node.outputs.values() if r.value is value]
    is_join = node is not None and isinstance(node.op, Join)
    return bool(made) and not is_join and not any(True for result in made for _ in _tied(result))


def _home(value: Value, view: View) -> Slice | None:
    """Where XLA has a part of a value."""
    if value.home is None:
        return None
    part = view.slice.whole
    update = {"allocation": value.home.allocation, "offset": value.home.offset + part.offset}
    return part.model_copy(update=update)


def _may_move(value: Value, results: frozenset[Value]) -> bool:
    """Whether a value, and those that kernels put in its place, belong nowhere: in no result, join or state."""
    values, left = {value}, [value]
    while left:
        current = left.pop()
        users = set(current.users)
        if current in results or not all(_is_free(current, user) for user in users):
            return False
        for result in (result for user in users for result in user.outputs.values()):
            pieces = set(_tied(result))
            if current in pieces and result.value not in values:
                if not pieces <= values:
                    return False
                values.add(result.value)
                left.append(result.value)
    return True


def _is_free(value: Value, user: Node) -> bool:
    """Whether a node does not need a value where something else is."""
    carried = [p for c in user.carried for p in (c.initial, *c.results) if p is not None]
    return not isinstance(user.op, Join) and all(piece.value is not value for piece in carried)


def _tied(result: Result) -> Iterator[Value]:
    """The values that a result has to be in the place of."""
    return (piece.value for piece in (result.base, *result.near) if piece is not None)
