"""Attention."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Attention
from ...program.steps import Step
from ...program.view import View
from ..cpp import braces, double_or_infinity, first_element, kernel_call
from ..library import compiled
from ..writer import StepWriter

_MASKS = {"added": "float", "kept": "std::int32_t"}
"""The optional operands of scores, with their C++ element types."""


def write(writer: StepWriter, step: Step, op: Attention) -> Iterator[str]:
    """A call of `attention`."""
    query, key, value = (step.inputs[role] for role in ("query", "key", "value"))
    output = step.outputs["output"]
    masks = {role: step.inputs.get(role) for role in _MASKS}
    has_masks = any(mask is not None for mask in masks.values())
    # Both axes of heads, queries, keys, and the columns of keys and of values.
    sizes = [*query.shape[:3], key.shape[2], query.shape[3], value.shape[3], op.scale]
    strides = [braces(view.strides) for view in (query, key, value, output)]
    if has_masks:
        strides += [_strides(mask) for mask in masks.values()]
        strides.append(double_or_infinity(op.replacement))
    table = writer.table("Attention", [*sizes, *strides])
    scratch = writer.needs("attention/attention.h", f"attention_scratch<float>({table})")
    writer.use("float")
    operands = [
        writer.shape(step, table, "&Attention::outer"),
        *map(first_element, (query, key, value)),
    ]
    operands += [first_element(output, written=True), scratch]
    if has_masks:
        operands.append(braces(_first(mask, _MASKS[role]) for role, mask in masks.items()))
    if (parts := writer.parts(step)) > 1:
        writer.scratch.parts.append(f"attention_part_scratch<float>({table}, {parts})")
    yield f"{kernel_call('attention', '<float>', parts)}{', '.join(operands)});"


def _strides(mask: View | None) -> str:
    return braces((0, 0, 0, 0) if mask is None else mask.strides)


def _first(mask: View | None, element: str) -> str:
    return "nullptr" if mask is None else first_element(mask, element=element)


def library(_: Step) -> Iterator[str]:
    """Attention is of 32-bit floats."""
    return compiled("float", "epilogue", "gemm")
