"""Nodes of opset 7 to 16, and unusual ones, in the form that opset 17 has.

What changed with each version is in https://github.com/onnx/onnx/blob/main/docs/Changelog.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from .straight import Call, Straight

_Upgrade = Callable[[Straight, Call], Call | list[str]]


def upgrade(straight: Straight, call: Call) -> Call | list[str]:
    """The node as of opset 17 or later, or the outputs of what was written in place of it."""
    until, rule = _UPGRADES.get(call.op, (0, None))
    return rule(straight, call) if rule is not None and call.opset < until else call


def _inputs_of(*names: str) -> _Upgrade:
    """Moves vectors of integers from attributes to inputs that follow the others."""

    def rule(straight: Straight, call: Call) -> Call:
        given = [straight.integers(*call.get(n, ())) if call.get(n, None) else "" for n in names]
        while given and not given[-1]:
            given.pop()
        left = {name: value for name, value in call.attributes.items() if name not in names}
        return replace(call, inputs=(*call.inputs, *given), attributes=left)

    return rule


def _clip(straight: Straight, call: Call) -> Call:
    dtype = straight.dtype(call.inputs[0])
    bounds = (call.get("min", None), call.get("max", None))
    given = ["" if b is None else straight.constant(b, dtype) for b in bounds]
    return replace(call, inputs=(call.inputs[0], *given), attributes={})


def _pad(straight: Straight, call: Call) -> Call:
    dtype = straight.dtype(call.inputs[0])
    inputs = (
        call.inputs[0],
        straight.integers(*call.get("pads", ())),
        straight.constant(call.get("value", 0.0), dtype),
    )
    return replace(call, inputs=inputs, attributes={"mode": call.get("mode", "constant")})


def _slice(straight: Straight, call: Call) -> Call:
    starts = call.get("starts", ())
    axes = call.get("axes", None) or range(len(starts))
    vectors = (straight.integers(*v) for v in (starts, call.get("ends", ()), axes))
    return replace(call, inputs=(call.inputs[0], *vectors), attributes={})


def _top_k(straight: Straight, call: Call) -> Call:
    left = {name: value for name, value in call.attributes.items() if name != "k"}
    k = straight.integers(call.get("k", 1))
    return replace(call, inputs=(call.inputs[0], k), attributes=left)


def _softmax(straight: Straight, call: Call) -> list[str]:
    """Before opset 13 all axes from `axis` on were one."""
    value = call.inputs[0]
    shape = straight.shape(value)
    axis = call.get("axis", 1) % max(len(shape), 1)
    flat = straight.integers(math.prod(shape[:axis]), math.prod(shape[axis:]))
    rows = straight.add("Reshape", value, flat)
    result = straight.visit(replace(call, inputs=(rows,), attributes={"axis": 1}, opset=17))[0]
    return [straight.add("Reshape", result, straight.integers(*shape))]


def _scatter(straight: Straight, call: Call) -> Call:
    del straight
    return replace(call, op="ScatterElements")


def _batch_normalization(straight: Straight, call: Call) -> Call:
    del straight
    kept = {name: call.attributes[name] for name in ("epsilon",) if name in call.attributes}
    return replace(call, outputs=1, attributes=kept)


def _upsample(straight: Straight, call: Call) -> Call:
    scales = (
        straight.constant(call.attributes["scales"], np.float32)
        if "scales" in call.attributes
        else call.inputs[1]
    )
    mode = call.get("mode", "nearest")
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "simple" if call.op == "Resize" else "floor",
    }
    inputs = (call.inputs[0], "", scales)
    return replace(call, op="Resize", inputs=inputs, attributes=attributes, opset=17)


def _resize_10(straight: Straight, call: Call) -> Call:
    """Opset 10 had `asymmetric` coordinates only, as Upsample."""
    return _upsample(straight, call)


def _range(straight: Straight, call: Call) -> Call:
    """Some functions of ONNX give it vectors of one element, where it takes scalars."""
    scalars = (
        straight.add("Reshape", name, straight.integers()) if straight.shape(name) else name
        for name in call.inputs
    )
    return replace(call, inputs=tuple(scalars))


_UPGRADES: Mapping[str, tuple[int, _Upgrade]] = {
    "Squeeze": (13, _inputs_of("axes")),
    "Unsqueeze": (13, _inputs_of("axes")),
    "ReduceSum": (13, _inputs_of("axes")),
    "Split": (13, _inputs_of("split")),
    "Softmax": (13, _softmax),
    "LogSoftmax": (13, _softmax),
    "Hardmax": (13, _softmax),
    "Scatter": (99, _scatter),
    "BatchNormalization": (14, _batch_normalization),
    "Clip": (11, _clip),
    "Pad": (11, _pad),
    "Slice": (10, _slice),
    "TopK": (10, _top_k),
    "Range": (99, _range),
    "Upsample": (99, _upsample),
    "Resize": (11, _resize_10),
}
"""The first opset with today's form, and the rule below it."""
