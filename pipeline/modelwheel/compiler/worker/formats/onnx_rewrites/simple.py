"""Single operations that torch-mlir lacks for some types, written with one or two others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import TensorProto

from .straight import Call, Straight

_SMALL_INTEGERS = frozenset({TensorProto.INT8, TensorProto.UINT8})


def dropout(straight: Straight, call: Call) -> Sequence[str]:
    """Inference drops nothing."""
    training = call.input(2) and straight.value(call.input(2))
    if call.input(2) and (training is None or bool(np.asarray(training).any())):
        raise call.refuse("drops random values", "export the model for inference")
    kept = np.ones(straight.shape(call.inputs[0]), np.bool_) if call.outputs > 1 else None
    return [call.inputs[0], *([] if kept is None else [straight.constant(kept)])]


def hardmax(straight: Straight, call: Call) -> Sequence[str]:
    """One where the first largest value of an axis is, else zero."""
    shape = straight.shape(call.inputs[0])
    axis = call.get("axis", -1) % len(shape)
    places = np.arange(shape[axis]).reshape([-1 if n == axis else 1 for n in range(len(shape))])
    largest = straight.add("ArgMax", call.inputs[0], axis=axis, keepdims=1)
    equal = straight.add("Equal", largest, straight.constant(places, np.int64))
    return [straight.add("Cast", equal, to=straight.element(call.inputs[0]))]


def max_pool(straight: Straight, call: Call) -> Sequence[str] | None:
    """Small integers are exact in float32; torch-mlir crashes on them."""
    element = straight.element(call.inputs[0])
    if element not in _SMALL_INTEGERS:
        return None
    real = straight.add("Cast", call.inputs[0], to=TensorProto.FLOAT)
    results = straight.visit(replace(call, inputs=(real,)))
    return [straight.add("Cast", results[0], to=element), *results[1:]]
