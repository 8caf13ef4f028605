"""Finds the batch axis of every input and output, and moves it to the front for the evaluations of a reference."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ...errors import UnsupportedModelError
from ...model.inspection import SignatureInfo, TensorInfo
from ...model.shapes import Shapes, batch_axes, compiled_shape
from ...util.text import one_line
from ...workers.jobs import ReferenceRequest
from ..loaded.base import Arrays, LoadedModel
from ..loaded.rows_first import RowsFirst, order_of, rows_first
from .rows import Evaluate

_PROBED = (2, 3)
"""Numbers of rows that show which axis of an output follows them."""


def move_inputs(
    loaded: LoadedModel, request: ReferenceRequest
) -> tuple[LoadedModel, ReferenceRequest]:
    """The model with the rows of its inputs on axis 0, and a request with shapes and padded axes in the same order.

    Raises:
        UnsupportedModelError: It is not clear which axis is the batch.
    """
    info, shapes = loaded.info, request.shapes
    ranks = {t.name: len(compiled_shape(info, t, shapes)) for t in info.inputs}
    orders = {n: order_of(a, ranks[n]) for n, a in batch_axes(info, shapes).items() if a}
    for name, order in orders.items():
        if request.columns.get(name) and order[0] == len(order) - 1:
            raise UnsupportedModelError(
                f"verify.ranges has columns of input {name!r}, which are positions along its last axis, but that is "
                f"the batch; give bounds to the whole input: verify.ranges.{one_line(name)}"
            )
    moved = {
        name: tuple(shape[axis] for axis in orders.get(name, range(len(shape))))
        for name, shape in shapes.items()
    }
    padded = {
        name: padding.model_copy(
            update={"axes": tuple(orders[name].index(axis) for axis in padding.axes)}
        )
        if name in orders
        else padding
        for name, padding in request.padded.items()
    }
    update = {"shapes": moved, "padded": padded}
    return rows_first(loaded, orders, {}), request.model_copy(update=update)


def move_outputs(
    loaded: LoadedModel,
    request: ReferenceRequest,
    evaluate: Evaluate,
    draw: Callable[[int], Arrays],
    misdeclared: Collection[str] = (),
) -> LoadedModel:
    """The model of `move_inputs` with the rows of its outputs on axis 0 too.

    Args:
        loaded: The model, of which an input has a batch axis.
        request: Of `move_inputs`.
        evaluate: The model.
        draw: Makes inputs of a number of rows, of which the first are the same for any number.
        misdeclared: Outputs whose declared batch axis is none: exporters write the names of axes that they are told.
    """
    batch = {t.symbol(a) for t in loaded.info.inputs for a in _batch_of(loaded, request, t)} - {""}
    orders: dict[str, tuple[int, ...]] = {}
    unknown = []
    for tensor in loaded.info.outputs:
        axis = None if tensor.name in misdeclared else _declared_axis(tensor, batch)
        if axis is None:
            unknown.append(tensor)
        elif axis:
            orders[tensor.name] = order_of(axis, len(tensor.shape or ()))
    if request.keep_state:  # whose calls change it
        free = {t.name: _free_axes(t) for t in unknown}
        orders |= {
            t.name: order_of(free[t.name][0], len(t.shape or ()))
            for t in unknown
            if len(free[t.name]) == 1
        }
    elif unknown:
        orders |= _probe([tensor.name for tensor in unknown], evaluate, draw)
    if isinstance(loaded, RowsFirst):
        return RowsFirst(loaded.loaded, loaded.inputs, orders)
    return rows_first(loaded, {}, orders)


def _batch_of(loaded: LoadedModel, request: ReferenceRequest, tensor: TensorInfo) -> range:
    """Axis 0 if it is the batch; no axis otherwise."""
    shape = compiled_shape(loaded.info, tensor, request.shapes)
    return range(1 if shape[:1] == (None,) else 0)


def _free_axes(tensor: TensorInfo) -> list[int]:
    return [axis for axis, extent in enumerate(tensor.shape or ()) if extent is None]


def _declared_axis(tensor: TensorInfo, batch: set[str]) -> int | None:
    """The batch axis of an output by what the model declares; None if only an evaluation shows it."""
    if tensor.shape == ():
        return 0
    free = _free_axes(tensor)
    named = [axis for axis in free if tensor.symbol(axis) in batch]
    if len(named) == 1:
        return named[0]
    return 0 if free == [0] else None


def _probe(
    names: list[str], evaluate: Evaluate, draw: Callable[[int], Arrays]
) -> dict[str, tuple[int, ...]]:
    """The orders of those outputs of which one axis, and not the first, is proportional to the number of rows."""
    try:
        fewer, more = (evaluate(draw(rows)) for rows in _PROBED)
    except UnsupportedModelError:
        return {}  # it refuses such numbers of rows: what follows says so
    orders = {}
    for name in names:
        shapes = np.shape(fewer[name]), np.shape(more[name])
        if len(shapes[0]) != len(shapes[1]):
            continue
        varies = [axis for axis, (a, b) in enumerate(zip(*shapes, strict=True)) if a != b]
        if len(varies) == 1 and varies[0] and _follows(shapes, varies[0]):
            orders[name] = order_of(varies[0], len(shapes[0]))
    return orders


def _follows(shapes: tuple[tuple[int, ...], tuple[int, ...]], axis: int) -> bool:
    per_row = shapes[0][axis] // _PROBED[0]
    return all(s[axis] == per_row * n for s, n in zip(shapes, _PROBED, strict=True))


def require_independence(info: SignatureInfo, shapes: Shapes, reason: str | None) -> None:
    """Refuses a batch axis that only has the name of one: `N` may be the number of points too.

    Args:
        info: The signature, with the axes of the model.
        shapes: Those in the spec.
        reason: Why rows are not independent; None if they are.
    """
    for tensor in info.inputs if reason else ():
        axis = batch_axes(info, shapes).get(tensor.name, 0)
        if axis and tensor.name not in shapes:
            field = f"inputs.{one_line(tensor.name)}.shape"
            extents = ["batch" if extent is None else str(extent) for extent in tensor.shape or ()]
            raise UnsupportedModelError(
                f"axis {axis} of input {tensor.name!r} is called {tensor.symbol(axis)!r}, as a batch is, but {reason}; "
                f"write its length in {field}, or, if it is the batch, {field}: [{', '.join(extents)}]"
            )


def moved_axes(loaded: LoadedModel) -> dict[str, Any]:
    """The axes as a `Reference` has them."""
    if not isinstance(loaded, RowsFirst):
        return {}
    moved = {"input_axes": loaded.inputs, "output_axes": loaded.outputs}
    return {field: {n: order[0] for n, order in orders.items()} for field, orders in moved.items()}
