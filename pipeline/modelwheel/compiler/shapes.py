"""The shapes that inputs are compiled for: what the model declares, with what the spec fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..errors import UnsupportedModelError
from ..util.text import one_line
from .inspection import Shape, SignatureInfo, TensorInfo

Shapes: TypeAlias = Mapping[str, Sequence[int | None]]
"""Whole shapes of some inputs as the spec fixes them; None on axis 0 keeps it the batch."""


def find_shape_problem(tensor: TensorInfo, given: Sequence[int | None] | None) -> str | None:
    """The problem with an input's shape, or None; `given` is the shape in the spec."""
    if given is None:
        if tensor.shape is None:
            return f"input {tensor.name!r} has an unknown number of axes"
        free = [axis for axis, extent in enumerate(tensor.shape) if axis and extent is None]
        if free:
            return f"input {tensor.name!r} has the free axis {free[0]} in {show(tensor.shape)}"
        return None
    if any(extent is None for extent in given[1:]):
        return f"input {tensor.name!r} is given the shape {show(given)}: only axis 0 may be free"
    declared = tensor.shape
    if declared is not None and (
        len(declared) != len(given)
        or any(d is not None and d != g for d, g in zip(declared, given, strict=True))
    ):
        return (
            f"input {tensor.name!r} is given the shape {show(given)}, "
            f"but the model declares {show(declared)}"
        )
    return None


def compiled_shape(tensor: TensorInfo, shapes: Shapes) -> Shape:
    """The shape that an input is compiled for: None on axis 0 is the batch, all else is fixed.

    Raises:
        UnsupportedModelError: More than axis 0 is free, or the spec contradicts the model.
    """
    given = shapes.get(tensor.name)
    problem = find_shape_problem(tensor, given)
    if problem:
        raise UnsupportedModelError(
            f"{problem}; fix it with inputs.{one_line(tensor.name)}.shape in the spec"
        )
    # An unknown rank has been refused above: here an empty shape is a scalar's.
    return tuple(given if given is not None else tensor.shape or ())


def batched_inputs(signature: SignatureInfo, shapes: Shapes) -> tuple[str, ...]:
    """Names of the inputs whose axis 0 is the batch."""
    return tuple(
        tensor.name for tensor in signature.inputs if compiled_shape(tensor, shapes)[:1] == (None,)
    )


def static_shapes(
    signature: SignatureInfo, shapes: Shapes, batch: int | None
) -> dict[str, tuple[int, ...]]:
    """The shape of every input at one batch size; `batch` is None if no input has a batch axis.

    Raises:
        UnsupportedModelError: A shape is not known, or `batch` does not fit the signature.
    """
    batched = batched_inputs(signature, shapes)
    if batched and batch is None:
        raise UnsupportedModelError(
            f"input {batched[0]!r} of signature {signature.key!r} has a free batch axis; "
            "pass a batch size"
        )
    if batch is not None and not batched:
        raise UnsupportedModelError(
            f"signature {signature.key!r} has no free batch axis; omit the batch size"
        )
    rows = batch or 0  # where there is no batch, no axis is free
    return {
        tensor.name: tuple(rows if e is None else e for e in compiled_shape(tensor, shapes))
        for tensor in signature.inputs
    }


def show(shape: Sequence[int | None]) -> str:
    """A shape as people write it: `[batch, 128]`, `[?, ?]`."""
    names = ["?" if extent is None else str(extent) for extent in shape]
    if shape and shape[0] is None:
        names[0] = "batch"
    return f"[{', '.join(names)}]"
