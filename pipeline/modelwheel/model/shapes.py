"""The shapes that inputs are compiled for: what the model declares, with what the spec fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..errors import UnsupportedModelError
from ..util.text import one_line
from .inspection import Shape, SignatureInfo, TensorInfo

Shapes: TypeAlias = Mapping[str, Sequence[int | None]]
"""Whole shapes of some inputs as the spec fixes them; None for the batch axis."""

_BATCH_SYMBOLS = frozenset({"n", "b", "bs", "bsz"})
"""Names of a free extent that stand for the batch, with those that hold the word itself."""


def batch_axes(signature: SignatureInfo, shapes: Shapes) -> dict[str, int]:
    """The batch axis of each input that has one.

    The spec says it, or it is the only free axis of the input: axis 0, or another one whose name is that of the batch.

    Raises:
        UnsupportedModelError: See `compiled_shape`.
    """
    by_name = {t.name: compiled_shape(signature, t, shapes) for t in signature.inputs}
    return {name: shape.index(None) for name, shape in by_name.items() if None in shape}


def find_shape_problem(signature: SignatureInfo, tensor: TensorInfo, shapes: Shapes) -> str | None:
    """The problem with the shape of an input of a signature, or None; `shapes` are those in the spec."""
    shape, declared = shapes.get(tensor.name), tensor.shape
    if shape is None:
        return _find_free_axis(signature, tensor, shapes)
    if list(shape).count(None) > 1:
        return f"input {tensor.name!r} is given the shape {show(shape)}: one axis may be free, the batch"
    if declared is not None and (
        len(declared) != len(shape)
        or any(d is not None and d != g for d, g in zip(declared, shape, strict=True))
    ):
        return (
            f"input {tensor.name!r} is given the shape {show_given(shape)}, "
            f"but the model declares {show(declared)}"
        )
    return None


def _find_free_axis(signature: SignatureInfo, tensor: TensorInfo, shapes: Shapes) -> str | None:
    if tensor.shape is None:
        return f"input {tensor.name!r} has an unknown number of axes"
    free = [axis for axis, extent in enumerate(tensor.shape) if extent is None]
    others = batch_symbols(signature, shapes, moved=True) - {tensor.symbol(0)}
    if free == [0] and tensor.symbol(0) and others:
        return (
            f"the free axis 0 of input {tensor.name!r} is {tensor.symbol(0)!r} in {show(tensor.shape)}, but the "
            f"batch of another input is {min(others)!r}"
        )
    if not free or free == [0]:
        return None
    if len(free) == 1 and tensor.symbol(free[0]):
        symbols = batch_symbols(signature, shapes)
        if tensor.symbol(free[0]) in symbols or (
            not symbols and _means_batch(tensor.symbol(free[0]))
        ):
            return None
    axis = free[free[0] == 0]
    return f"input {tensor.name!r} has the free axis {axis} in {show(tensor.shape)}"


def batch_symbols(signature: SignatureInfo, shapes: Shapes, *, moved: bool = False) -> set[str]:
    """The names of the batch axes that are certain: of the spec and, unless only those behind axis 0 are asked for
    (`moved`), of inputs whose axis 0 alone is free."""
    symbols = set()
    for tensor in signature.inputs:
        shape = shapes.get(tensor.name, tensor.shape if not moved else ())
        free = [axis for axis, extent in enumerate(shape or ()) if extent is None]
        if len(free) == 1 and (tensor.name in shapes or free == [0]) and free != [0] * moved:
            symbols.add(tensor.symbol(free[0]))
    return symbols - {""}


def _means_batch(symbol: str) -> bool:
    return symbol.lower() in _BATCH_SYMBOLS or "batch" in symbol.lower()


def compiled_shape(signature: SignatureInfo, tensor: TensorInfo, shapes: Shapes) -> Shape:
    """The shape that an input of a signature is compiled for: None is the batch, all else is fixed.

    Raises:
        UnsupportedModelError: More than the batch is free, or the spec contradicts the model.
    """
    problem = find_shape_problem(signature, tensor, shapes)
    if problem:
        raise UnsupportedModelError(
            f"{problem}; fix it with inputs.{one_line(tensor.name)}.shape in the spec"
        )
    # An unknown rank has been refused above: here an empty shape is a scalar's.
    return tuple(shapes.get(tensor.name, tensor.shape or ()))


def batched_inputs(signature: SignatureInfo, shapes: Shapes) -> tuple[str, ...]:
    """Names of the inputs that have a batch axis."""
    return tuple(batch_axes(signature, shapes))


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
        tensor.name: tuple(
            rows if e is None else e for e in compiled_shape(signature, tensor, shapes)
        )
        for tensor in signature.inputs
    }


def show(shape: Sequence[int | None]) -> str:
    """A shape as people write it: `[batch, 128]`, `[?, ?]`."""
    names = ["?" if extent is None else str(extent) for extent in shape]
    if shape and shape[0] is None:
        names[0] = "batch"
    return f"[{', '.join(names)}]"


def show_given(shape: Sequence[int | None]) -> str:
    """A shape of a spec, in which only the batch is free: `[100, batch, 8]`."""
    return f"[{', '.join('batch' if extent is None else str(extent) for extent in shape)}]"
