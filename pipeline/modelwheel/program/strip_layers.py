"""The matrix products and convolutions of a step."""

from __future__ import annotations

import math

from ..dtypes import ElementType
from .arrays import Slice
from .ops import Axes, ByteLayer, Convolution, Dot, Strips
from .steps import Step
from .view import View

NOWHERE = -1
"""The allocation of what is not in memory."""
_OPERANDS = tuple(role.name for role in Convolution.INPUTS if role.name != "input")


def products(step: Step) -> tuple[Step, ...]:
    """The products and convolutions that one step itself computes, in order; what is between those of strips is not in memory."""
    if isinstance(step.op, Dot | Convolution):
        return (step,)
    if isinstance(step.op, ByteLayer):
        return (_sums(step, step.op),)
    return _layers(step, step.op) if isinstance(step.op, Strips) else ()


def _sums(step: Step, op: ByteLayer) -> Step:
    """The product or convolution of a layer of bytes."""
    roles = ("lhs", "rhs") if isinstance(op.layer, Dot) else ("input", "kernel")
    inputs = {
        role: step.inputs[name] for role, name in zip(roles, ("input", "kernel"), strict=True)
    }
    size = math.prod(op.shape) * ElementType.INT32.item_bytes
    out = View.dense(Slice(allocation=NOWHERE, offset=0, size=size), ElementType.INT32, op.shape)
    return Step(op=op.layer, inputs=inputs, outputs={"out": out}, origin=step.origin)


def _layers(step: Step, strips: Strips) -> tuple[Step, ...]:
    layers = []
    between = step.inputs["input"]
    for number, layer in enumerate(strips.layers):
        operands = {
            role: step.inputs[f"{role}{number}"]
            for role in _OPERANDS
            if f"{role}{number}" in step.inputs
        }
        inputs = {"input": between, **operands}
        outputs = step.outputs
        if number < len(strips.shapes):
            outputs = {"out": _inner(strips.shapes[number], layer.output_axes)}
            after = strips.layers[number + 1]
            between = _seen(outputs["out"], layer.output_axes, after.input_axes)
        layers.append(Step(op=layer, inputs=inputs, outputs=outputs, origin=step.origin))
    return tuple(layers)


def _inner(shape: tuple[int, ...], axes: Axes) -> View:
    """Images that are not in memory, with the layout of all images of strips: features vary fastest, batches slowest."""
    size = math.prod(shape) * ElementType.FLOAT32.item_bytes
    part = Slice(allocation=NOWHERE, offset=0, size=size)
    order = (axes.feature, *reversed(axes.spatial), axes.batch)
    return View.dense(part, ElementType.FLOAT32, shape, order)


def _seen(images: View, axes: Axes, wanted: Axes) -> View:
    """The images with their axes in another order."""
    positions = dict(zip(_roles(wanted), _roles(axes), strict=True))
    order = [positions[axis] for axis in range(len(images.shape))]
    shape, strides = (
        tuple(values[axis] for axis in order) for values in (images.shape, images.strides)
    )
    return images.model_copy(update={"shape": shape, "strides": strides})


def _roles(axes: Axes) -> tuple[int, ...]:
    return (axes.batch, axes.feature, *axes.spatial)
