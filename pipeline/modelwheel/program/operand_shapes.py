"""Checks what the operations require of the shapes and types of their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..dtypes import ElementType
from .ops import (
    Attention,
    Convolution,
    Copy,
    Dot,
    Elementwise,
    Op,
    Scaling,
)
from .steps import Step
from .view import View


def shape_mistake(step: Step) -> str:
    """The mistake in the shapes of a step's operands, as words after its name; empty if there is none."""
    roles = (*step.op.INPUTS, *step.op.OUTPUTS)
    check = _CHECKS.get(type(step.op))
    return _ranks(step, {r.name: r.rank for r in roles}) or (check(step) if check else "")


def _ranks(step: Step, ranks: Mapping[str, int | None]) -> str:
    """The first operand with another number of axes; operands that a step has not are left out."""
    views = {**step.inputs, **step.outputs}
    for name, rank in ranks.items():
        if rank is not None and name in views and len(views[name].shape) != rank:
            return (
                f"has an operand {name!r} of shape {_shown(views[name])}, which needs {rank} axes"
            )
    return ""


def _shown(view: View) -> str:
    return str(list(view.shape))


def _dot(step: Step) -> str:
    op, lhs, rhs = step.op, step.inputs["lhs"], step.inputs["rhs"]
    assert isinstance(op, Dot)
    out = step.outputs["out"]
    contracted = [lhs.shape[axis] for axis in op.lhs_contracting]
    batch = [lhs.shape[axis] for axis in op.lhs_batch]
    if contracted != [rhs.shape[axis] for axis in op.rhs_contracting] or batch != [
        rhs.shape[axis] for axis in op.rhs_batch
    ]:
        return f"multiplies {_shown(lhs)} by {_shown(rhs)}, whose axes do not fit"
    rows = [
        n for axis, n in enumerate(lhs.shape) if axis not in (*op.lhs_batch, *op.lhs_contracting)
    ]
    columns = [
        n for axis, n in enumerate(rhs.shape) if axis not in (*op.rhs_batch, *op.rhs_contracting)
    ]
    wanted = [*batch, *rows, *columns]
    if list(out.shape) != wanted:
        return f"has a result of shape {_shown(out)} instead of {wanted}"
    return _same(step, "out", "accumulator") or _same(step, "out", "addend")


def _convolution(step: Step) -> str:
    op = step.op
    assert isinstance(op, Convolution)
    rank = len(op.windows) + 2
    return (
        _ranks(step, dict.fromkeys(("input", "kernel", "out"), rank))
        or _same(step, "out", "accumulator")
        or _same(step, "out", "addend")
    )


def _same(step: Step, name: str, other: str) -> str:
    """Whether two operands have one shape and type; operands that a step has not do."""
    views = {**step.inputs, **step.outputs}
    if name not in views or other not in views:
        return ""
    first, second = views[name], views[other]
    if (first.shape, first.element_type) != (second.shape, second.element_type):
        return f"needs one shape and type for {name!r} and {other!r}, which are {_shown(first)} and {_shown(second)}"
    return ""


def _copy(step: Step) -> str:
    return _same(step, "source", "destination")


def _elementwise(step: Step) -> str:
    views = {**step.inputs, **step.outputs}
    first = next(iter(step.outputs), None)
    for name, view in views.items():
        if first is not None and view.shape != views[first].shape:
            return f"has operands of shapes {_shown(views[first])} and {_shown(view)}"
        if name in step.outputs and view.element_type != ElementType.FLOAT32:
            return f"writes {name!r}, which has no 32-bit floats"
    op = step.op
    assert isinstance(op, Elementwise)
    if len(op.code.results) != len(step.outputs):
        return f"computes {len(op.code.results)} results and writes {len(step.outputs)}"
    return ""


def _attention(step: Step) -> str:
    query, key, value = (step.inputs[name].shape for name in ("query", "key", "value"))
    output = step.outputs["output"].shape
    if query[3] != key[3] or key[2] != value[2] or output[2:] != (query[2], value[3]):
        return "has queries, keys, values and results whose shapes do not fit"
    return ""


def _scaling(step: Step) -> str:
    return _same(step, "input", "output")


_CHECKS: Mapping[type[Op], Callable[[Step], str]] = {
    Dot: _dot,
    Convolution: _convolution,
    Copy: _copy,
    Elementwise: _elementwise,
    Attention: _attention,
    Scaling: _scaling,
}
"""What ranks do not say, by operation; of others the shapes are what their code has, which nobody else knows."""
