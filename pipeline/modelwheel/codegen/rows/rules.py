"""Rules for each operation that computes rows by themselves: which memory the first rows of its results need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeAlias

from ...program.ops import (
    Attention,
    ByteLayer,
    Convolution,
    Copy,
    Dot,
    Elementwise,
    EmbeddingBag,
    Kernel,
    Lookup,
    Pooling,
    RowReduction,
    Scaling,
    Softmax,
    Strips,
    TopK,
    VolumePooling,
)
from ...program.steps import Step
from ...program.view import View
from .chunks import Chunks, chunks_of, chunks_of_bytes


@dataclass(frozen=True)
class Apart:
    """A step as one that computes the first rows of its results from the first rows of some operands and all of others."""

    outputs: Mapping[str, Chunks]
    """All of them."""
    inputs: Mapping[str, Chunks] = field(default_factory=dict)
    """Those of which the first rows are enough."""
    groups: int = 1
    """How often all rows follow each other: the steps of a sequence that come before the batch."""
    computes_all: bool = False
    """Whether its kernel computes all rows, the last ones from whatever there is."""


_Rule: TypeAlias = Callable[[Step, Any, int], Iterable[Apart | None]]


def apart(step: Step, rows: int) -> tuple[Apart, ...]:
    """The ways in which a step computes rows by themselves; empty if it does not, or nobody knows."""
    rule = _RULES.get(type(step.op))
    found = () if rule is None else rule(step, step.op, rows)
    return tuple(one for one in found if one is not None)


def _along(
    step: Step,
    rows: int,
    outputs: Mapping[str, Sequence[int]],
    inputs: Mapping[str, Sequence[int]],
    groups: int = 1,
) -> Apart | None:
    """A step whose rows are along these axes of its operands; those that are not named are read whole."""
    written = _named(step.outputs, outputs, rows, groups)
    read = _named(step.inputs, inputs, rows, groups)
    if len(written) != len(step.outputs) or len(read) != len(inputs):
        return None
    return Apart(written, read, groups)


def _named(
    views: Mapping[str, View], axes: Mapping[str, Sequence[int]], rows: int, groups: int
) -> dict[str, Chunks]:
    found = ((name, chunks_of(views[name], own, rows, groups)) for name, own in axes.items())
    return {name: chunks for name, chunks in found if chunks is not None}


def _product_outputs(step: Step, axes: Sequence[int]) -> dict[str, Sequence[int]]:
    return dict.fromkeys(step.outputs, axes)


def _addend(step: Step, axes: Sequence[int]) -> dict[str, Sequence[int]]:
    """The arrays that are added to each element of a product."""
    return {"addend": axes} if "addend" in step.inputs else {}


def _dot(step: Step, op: Dot, rows: int) -> Iterator[Apart | None]:
    """Some of the products of a batch, or some rows of each."""
    lhs = step.inputs["lhs"]
    if op.lhs_batch:
        out = range(len(op.lhs_batch))
        inputs: dict[str, Sequence[int]] = {"lhs": op.lhs_batch, "rhs": op.rhs_batch}
        yield _along(step, rows, _product_outputs(step, out), inputs | _addend(step, out))
        return
    free = [axis for axis in range(len(lhs.shape)) if axis not in op.lhs_contracting]
    out = range(len(free))
    inputs = {"lhs": free} | _addend(step, out)
    for groups in _groups([lhs.shape[axis] for axis in free], rows):
        yield _along(step, rows, _product_outputs(step, out), inputs, groups)


def _groups(extents: Sequence[int], rows: int) -> Iterator[int]:
    """How often all rows may follow each other along some axes: as often as there are elements of axes before them, or
    with a single element of each row."""
    each, rest = divmod(math.prod(extents), rows)
    if not rest:
        before = accumulate(extents, initial=1)
        yield from dict.fromkeys(count for count in (*before, each) if each % count == 0)


def _convolution(step: Step, op: Convolution, rows: int) -> Iterator[Apart | None]:
    out = (op.output_axes.batch,)
    inputs = {"input": (op.input_axes.batch,), **_addend(step, out)}
    yield _along(step, rows, _product_outputs(step, out), inputs)


def _byte_layer(step: Step, op: ByteLayer, rows: int) -> Iterator[Apart | None]:
    """Rows of a product, or images of a convolution, and the rows that the code reads for them."""
    axes = [0]
    if isinstance(op.layer, Dot):
        contracted = op.layer.lhs_contracting
        axes = [n for n in range(len(step.inputs["input"].shape)) if n not in contracted]
    reads = (name for name in step.inputs if name.startswith("read"))
    own = [name for name in reads if step.inputs[name].strides[0]]
    yield _along(step, rows, {"write": (0,)}, {"input": axes, **dict.fromkeys(own, (0,))})


def _strips(step: Step, op: Strips, rows: int) -> Iterator[Apart | None]:
    out = (op.layers[-1].output_axes.batch,)
    if not any(name.startswith("addend") for name in step.inputs):
        inputs = {"input": (op.layers[0].input_axes.batch,)}
        yield _along(step, rows, _product_outputs(step, out), inputs)


def _first_axis(step: Step, _: object, rows: int) -> Iterator[Apart | None]:
    """All operands have a row for each row, or the same elements for all of them."""
    first = (0,)
    own = [name for name, view in step.inputs.items() if view.strides[0]]
    (extent, *_rest), *_others = (view.shape for view in step.outputs.values())
    for groups in _groups([extent], rows):
        along = dict.fromkeys(step.outputs, first), dict.fromkeys(own, first)
        yield _unless_grouped(_along(step, rows, *along, groups))


def _softmax(step: Step, _: Softmax, rows: int) -> Iterator[Apart | None]:
    """A bias is that of all rows."""
    along = {"output": (0,)}, {"input": (0,)}
    for groups in _groups([step.outputs["output"].shape[0]], rows):
        yield _unless_grouped(_along(step, rows, *along, groups))


def _unless_grouped(found: Apart | None) -> Apart | None:
    """For kernels that compute the first of their rows, or all."""
    return found and replace(found, computes_all=found.groups > 1)


def _top_k(step: Step, op: TopK, rows: int) -> Iterator[Apart | None]:
    """Its kernel takes no number of rows."""
    for found in _first_axis(step, op, rows):
        yield found and replace(found, computes_all=True)


def _scaling(step: Step, op: Scaling, rows: int) -> Iterator[Apart | None]:
    """Images with factors of their own, or places of all images, which have the same."""
    if step.inputs["factors"].shape[0] != 1:
        yield from _first_axis(step, op, rows)
        return
    places = (0, 1)
    yield _along(step, rows, {"output": places}, {"input": places})


def _attention(step: Step, _: Attention, rows: int) -> Iterator[Apart | None]:
    """Heads along the first axis; one mask may be that of all."""
    first = (0,)
    masks = ("added", "kept")
    own = [name for name in masks if name in step.inputs and step.inputs[name].shape[0] != 1]
    names = ("query", "key", "value", *own)
    yield _along(step, rows, {"output": first}, dict.fromkeys(names, first))


def _copy(step: Step, _: Copy, rows: int) -> Iterator[Apart | None]:
    """Bytes, or any axis. The kernel leaves out the last ones of what varies slowest."""
    source, target = step.inputs["source"], step.outputs["destination"]
    if source.is_row_major() and target.is_row_major():
        yield from _in_order(step, rows, ("source",))
        return
    slowest = max(range(len(target.shape)), key=lambda axis: target.strides[axis])
    for axis in range(len(target.shape)):
        found = _along(step, rows, {"destination": (axis,)}, {"source": (axis,)})
        yield found and replace(found, computes_all=axis != slowest)


def _lookup(step: Step, _: Lookup, rows: int) -> Iterator[Apart | None]:
    """Rows of a table for indices in the order of memory."""
    yield from _in_order(step, rows, ("indices",))


def _embedding_bag(step: Step, _: EmbeddingBag, rows: int) -> Iterator[Apart | None]:
    if step.outputs["output"].shape[0] % rows == 0:
        yield _bytes(step, rows, {"indices": 1})


def _in_order(step: Step, rows: int, names: Sequence[str]) -> Iterator[Apart | None]:
    """A step whose operands are in one order, with elements of as many groups."""
    (extents, *_) = (view.shape for view in step.outputs.values())
    for groups in _groups(extents, rows):
        yield _unless_grouped(_bytes(step, rows, dict.fromkeys(names, groups), groups))


def _bytes(step: Step, rows: int, inputs: Mapping[str, int], groups: int = 1) -> Apart | None:
    """A step whose operands have rows in this many groups."""
    written = {name: chunks_of_bytes(view, rows, groups) for name, view in step.outputs.items()}
    read = {name: chunks_of_bytes(step.inputs[name], rows, own) for name, own in inputs.items()}
    known = {name: chunks for name, chunks in (written | read).items() if chunks is not None}
    if len(known) != len(written) + len(read):
        return None
    return Apart(
        {name: known[name] for name in written}, {name: known[name] for name in read}, groups
    )


def _kernel(step: Step, op: Kernel, rows: int) -> Iterator[Apart | None]:
    """As its HLO says, with as many operands as possible of which the first rows are enough."""
    for one in sorted(op.apart, key=lambda one: (one.groups, -len(one.arguments))):
        if one.count % rows == 0:
            own = one.argument_groups or (1,) * len(one.arguments)
            named = (f"argument{number}" for number in one.arguments)
            found = _bytes(step, rows, dict(zip(named, own, strict=True)), one.groups)
            yield found and replace(found, computes_all=True)


_RULES: Mapping[type[object], _Rule] = {
    Attention: _attention,
    ByteLayer: _byte_layer,
    Convolution: _convolution,
    Copy: _copy,
    Dot: _dot,
    Elementwise: _first_axis,
    EmbeddingBag: _embedding_bag,
    Kernel: _kernel,
    Lookup: _lookup,
    Pooling: _first_axis,
    RowReduction: _first_axis,
    Scaling: _scaling,
    Softmax: _softmax,
    Strips: _strips,
    TopK: _top_k,
    VolumePooling: _first_axis,
}
