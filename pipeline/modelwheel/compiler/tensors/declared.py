"""Knows nodes whose results TensorFlow cannot infer: variables, placeholders, loops of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .bounds import forget
from .values import UNKNOWN, Tensor


def _declared(node: Any) -> Tensor:
    """A variable's handle, or a placeholder."""
    message = node.attr["shape"].shape
    shape = None
    if not message.unknown_rank:
        shape = tuple(None if dim.size < 0 else dim.size for dim in message.dim)
    if node.op == "VarHandleOp":
        return Tensor((), dynamic=False, handle=shape)
    if "_handle_shapes" in node.attr:  # a variable that a function is given
        (dims,) = [shape.dim for shape in node.attr["_handle_shapes"].list.shape][:1] or ((),)
        handle = tuple(None if dim.size < 0 else dim.size for dim in dims)
        return Tensor((), handle=handle)
    known = bool(message.dim) or node.op in ("Variable", "VariableV2")
    return Tensor(shape if known else None, dynamic=node.op.startswith("Placeholder"))


def _read_variable(_: Any, inputs: Sequence[Tensor]) -> Tensor:
    source = inputs[0] if inputs else UNKNOWN
    # The graph does not hold values, which may limit loops: only time limits them.
    return Tensor(source.handle, dynamic=source.dynamic or source.handle == ())


def _merge(_: Any, inputs: Sequence[Tensor]) -> Tensor:
    """The first input is what enters; a loop may change its value, and rarely its shape."""
    joined = forget(inputs[0]) if inputs else UNKNOWN
    return replace(joined, dynamic=any(i.dynamic for i in inputs if i is not UNKNOWN))


READABLE = frozenset({"Variable", "VariableV2"})
FRAME = frozenset({"Enter", "Exit", "NextIteration", "LoopCond"})
"""Of loops of TensorFlow 1: they pass their input on."""
SPECIAL: dict[str, Any] = {
    **{op: lambda node, _: _declared(node) for op in ("VarHandleOp", "Placeholder", *READABLE)},
    "ReadVariableOp": _read_variable,
    "Merge": _merge,
    **{op: lambda _, inputs: inputs[0] if inputs else UNKNOWN for op in FRAME - {"LoopCond"}},
}


def reserved(op: str, inputs: Sequence[Tensor]) -> int:
    """The elements of a list of tensors that is made at once."""
    shape, count = (inputs[0], inputs[1]) if op == "TensorListReserve" else (UNKNOWN, inputs[0])
    elements = 1
    for number in (*(shape.value or ()), *(count.value or ())):
        if isinstance(number, int) and number > 0:
            elements *= number
    return elements
