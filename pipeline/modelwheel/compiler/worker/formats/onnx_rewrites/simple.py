"""Single operations that torch-mlir lacks for some types, written with one or two others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .straight import Call, Straight


def dropout(straight: Straight, call: Call) -> Sequence[str]:
    """Inference drops nothing."""
    training = call.input(2) and straight.value(call.input(2))
    if call.input(2) and (training is None or bool(np.asarray(training).any())):
        raise call.refuse("drops random values", "export the model for inference")
    kept = np.ones(straight.shape(call.inputs[0]), np.bool_) if call.outputs > 1 else None
    return [call.inputs[0], *([] if kept is None else [straight.constant(kept)])]


def mod(straight: Straight, call: Call) -> Sequence[str] | None:
    """Of integers, with the sign of the divisor."""
    if call.get("fmod", 0) or straight.dtype(call.inputs[0]).kind != "i":
        return None
    value, divisor = call.inputs
    zero = straight.constant(0, straight.dtype(value))
    product = straight.add("Mul", straight.add("Div", value, divisor), divisor)
    rest = straight.add("Sub", value, product)  # with the sign of the value
    exact = straight.add("Equal", rest, zero)
    signs = (straight.add("Less", each, zero) for each in (rest, divisor))
    wrong = straight.add("And", straight.add("Xor", *signs), straight.add("Not", exact))
    return [straight.add("Where", wrong, straight.add("Add", rest, divisor), rest)]


def hardmax(straight: Straight, call: Call) -> Sequence[str]:
    """One where the first largest value of an axis is, else zero."""
    shape = straight.shape(call.inputs[0])
    axis = call.get("axis", -1) % len(shape)
    places = np.arange(shape[axis]).reshape([-1 if n == axis else 1 for n in range(len(shape))])
    largest = straight.add("ArgMax", call.inputs[0], axis=axis, keepdims=1)
    equal = straight.add("Equal", largest, straight.constant(places, np.int64))
    return [straight.add("Cast", equal, to=straight.element(call.inputs[0]))]


def softsign(straight: Straight, call: Call) -> Sequence[str]:
    """x / (1 + |x|)."""
    one = straight.constant(1, straight.dtype(call.inputs[0]))
    below = straight.add("Add", straight.add("Abs", call.inputs[0]), one)
    return [straight.add("Div", call.inputs[0], below)]


def slice_(straight: Straight, call: Call) -> Sequence[str] | None:
    """Backwards: by constant indices."""
    given = [straight.value(name) if name else None for name in call.inputs[1:]]
    if len(given) < 4 or given[3] is None or (given[3] > 0).all():
        return None
    if given[0] is None or given[1] is None:
        raise call.refuse("begins where the inputs decide", "export it with constant places")
    value, shape = call.inputs[0], straight.shape(call.inputs[0])
    axes = range(len(given[0])) if given[2] is None else given[2]
    limit = np.iinfo(np.int64)
    for start, end, axis, step in zip(given[0], given[1], axes, given[3], strict=True):
        stop = None if step < 0 and end <= max(limit.min + 1, -shape[axis] - 1) else int(end)
        indices = np.arange(shape[axis])[slice(int(start), stop, int(step))]
        value = straight.add("Gather", value, straight.constant(indices, np.int64), axis=int(axis))
    return [value]


def pad(straight: Straight, call: Call) -> Sequence[str] | None:
    """All modes but `constant`: by constant indices."""
    mode, pads = call.get("mode", "constant"), straight.value(call.inputs[1])
    if mode == "constant":
        return None
    axes = straight.value(call.input(3)) if call.input(3) else None
    if pads is None or (call.input(3) and axes is None):
        raise call.refuse("pads as much as the inputs decide", "export it with constant sizes")
    value, shape = call.inputs[0], straight.shape(call.inputs[0])
    chosen = range(len(shape)) if axes is None else axes
    for number, axis in enumerate(chosen):
        width = (int(pads[number]), int(pads[number + len(pads) // 2]))
        if any(width):
            places = np.arange(shape[axis])[max(0, -width[0]) : shape[axis] + min(0, width[1])]
            more = (max(0, width[0]), max(0, width[1]))
            indices = np.pad(places, more, "edge" if mode == "edge" else mode)
            value = straight.add(
                "Gather", value, straight.constant(indices, np.int64), axis=int(axis)
            )
    return [value]


def scatter(straight: Straight, call: Call) -> Sequence[str] | None:  # noqa: ARG001 - a rule
    """Only plain writing is converted."""
    reduction = call.get("reduction", "none")
    if reduction == "none":
        return None
    raise call.refuse(
        f"combines values at the same place (reduction {reduction!r})",
        "multiply with a matrix that has ones at these places, or end the model before it",
    )


def col2im(straight: Straight, call: Call) -> Sequence[str]:  # noqa: ARG001 - a rule
    """Refused."""
    raise call.refuse(
        "has no conversion",
        "export it as ConvTranspose, with one kernel for each element of a block",
    )


def max_roi_pool(straight: Straight, call: Call) -> Sequence[str]:  # noqa: ARG001 - a rule
    """Refused."""
    raise call.refuse(
        "pools as many pixels as each region decides", "use RoiAlign with a sampling_ratio"
    )
