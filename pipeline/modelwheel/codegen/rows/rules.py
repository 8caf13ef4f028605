"""Rules for each operation that computes rows by themselves: which memory the first rows of its results need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ...program.ops import (
    Attention,
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


_Rule: TypeAlias = Callable[[Step, Any, int], Apart | None]


def apart(step: Step, rows: int) -> Apart | None:
    """How a step computes rows by themselves; None if it does not, or nobody knows."""
    rule = _RULES.get(type(step.op))
    return None if rule is None else rule(step, step.op, rows)


def _along(
    step: Step, rows: int, outputs: Mapping[str, Sequence[int]], inputs: Mapping[str, Sequence[int]]
) -> Apart | None:
    """A step whose rows are along these axes of its operands; those that are not named are read whole."""
    written = _named(step.outputs, outputs, rows)
    read = _named(step.inputs, inputs, rows)
    if len(written) != len(step.outputs) or len(read) != len(inputs):
        return None
    return Apart(written, read)


def _named(
    views: Mapping[str, View], axes: Mapping[str, Sequence[int]], rows: int
) -> dict[str, Chunks]:
    found = ((name, chunks_of(views[name], own, rows)) for name, own in axes.items())
    return {name: chunks for name, chunks in found if chunks is not None}


def _product_outputs(step: Step, axes: Sequence[int]) -> dict[str, Sequence[int]]:
    return dict.fromkeys(step.outputs, axes)


def _addend(step: Step, axes: Sequence[int]) -> dict[str, Sequence[int]]:
    """The arrays that are added to each element of a product."""
    return {"addend": axes} if "addend" in step.inputs else {}


def _dot(step: Step, op: Dot, rows: int) -> Apart | None:
    """Some of the products of a batch, or some rows of each."""
    lhs = step.inputs["lhs"]
    if op.lhs_batch:
        out = range(len(op.lhs_batch))
        inputs: dict[str, Sequence[int]] = {"lhs": op.lhs_batch, "rhs": op.rhs_batch}
    else:
        free = [axis for axis in range(len(lhs.shape)) if axis not in op.lhs_contracting]
        out = range(len(free))
        inputs = {"lhs": free}
    return _along(step, rows, _product_outputs(step, out), inputs | _addend(step, out))


def _convolution(step: Step, op: Convolution, rows: int) -> Apart | None:
    out = (op.output_axes.batch,)
    inputs = {"input": (op.input_axes.batch,), **_addend(step, out)}
    return _along(step, rows, _product_outputs(step, out), inputs)


def _strips(step: Step, op: Strips, rows: int) -> Apart | None:
    out = (op.layers[-1].output_axes.batch,)
    if any(name.startswith("addend") for name in step.inputs):
        return None
    inputs = {"input": (op.layers[0].input_axes.batch,)}
    return _along(step, rows, _product_outputs(step, out), inputs)


def _first_axis(step: Step, _: object, rows: int) -> Apart | None:
    """All operands have a row for each row, or the same elements for all of them."""
    first = (0,)
    own = [name for name, view in step.inputs.items() if view.strides[0]]
    return _along(step, rows, dict.fromkeys(step.outputs, first), dict.fromkeys(own, first))


def _scaling(step: Step, op: Scaling, rows: int) -> Apart | None:
    """Images with factors of their own, or places of all images, which have the same."""
    if step.inputs["factors"].shape[0] != 1:
        return _first_axis(step, op, rows)
    places = (0, 1)
    return _along(step, rows, {"output": places}, {"input": places})


def _attention(step: Step, _: Attention, rows: int) -> Apart | None:
    """Heads along the first axis; one mask may be that of all."""
    first = (0,)
    masks = ("added", "kept")
    own = [name for name in masks if name in step.inputs and step.inputs[name].shape[0] != 1]
    names = ("query", "key", "value", *own)
    return _along(step, rows, {"output": first}, dict.fromkeys(names, first))


def _copy(step: Step, _: Copy, rows: int) -> Apart | None:
    source, target = step.inputs["source"], step.outputs["destination"]
    if source.is_row_major() and target.is_row_major():
        return _bytes(step, rows, ("source",))
    # The kernel leaves out the last ones of what varies slowest.
    return _first_axis(step, None, rows) if target.strides[0] == max(target.strides) else None


def _lookup(step: Step, _: Lookup, rows: int) -> Apart | None:
    """Rows of a table for indices in the order of memory."""
    return _bytes(step, rows, ("indices",))


def _embedding_bag(step: Step, _: EmbeddingBag, rows: int) -> Apart | None:
    return _bytes(step, rows, ("indices",)) if step.outputs["output"].shape[0] % rows == 0 else None


def _bytes(step: Step, rows: int, names: Sequence[str]) -> Apart | None:
    """A step whose operands are in one order."""
    views = {**step.outputs, **{name: step.inputs[name] for name in names}}
    found = {name: chunks_of_bytes(view, rows) for name, view in views.items()}
    known = {name: chunks for name, chunks in found.items() if chunks is not None}
    if len(known) != len(found):
        return None
    return Apart(
        {name: known[name] for name in step.outputs}, {name: known[name] for name in names}
    )


def _kernel(step: Step, op: Kernel, rows: int) -> Apart | None:
    """As its HLO says."""
    best: Apart | None = None
    for one in op.apart:
        if one.count % rows:
            continue
        names = [f"argument{number}" for number in one.arguments]
        found = _bytes(step, rows, names)
        if found is not None and (best is None or len(found.inputs) > len(best.inputs)):
            best = found
    return best


_RULES: Mapping[type[object], _Rule] = {
    Attention: _attention,
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
    Strips: _strips,
    TopK: _first_axis,
    VolumePooling: _first_axis,
}
